"""The list of threads goes on by itself, as a thread does."""

from __future__ import annotations

import httpx
from playwright.sync_api import BrowserContext, expect

from ..web.serving import Serving
from .chat import WATCH, Chat
from .conftest import begin
from .puppet import Puppets
from .test_connection import HIDE


def test_the_list_of_threads_goes_on_by_itself(context: BrowserContext, server: Serving, puppets: Puppets) -> None:
    """A thread that begins or goes on shows in an open list, the newest first; what was typed there stays."""
    old = begin(server.url, puppets)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(server.url)
    field = page.get_by_role("textbox", name="Your message")
    field.fill("half a thought")
    page.evaluate("window.mark = document.querySelector('.thread-row')")
    httpx.post(f"{server.url}/api/threads/{old}-list/turns", json={"content": "A new one"}).raise_for_status()
    puppet = puppets.take()
    row = page.locator(".thread-row").first
    expect(row).to_contain_text("A new one")
    expect(row).to_contain_text("Answering")
    puppet.answer("Done.")
    expect(row).to_contain_text("Answered")
    expect(field).to_have_value("half a thought")
    assert page.evaluate("window.mark === document.querySelectorAll('.thread-row')[1]")
    assert page.evaluate("window.violations") == []


def test_a_hidden_list_lets_go_of_its_stream_and_catches_up(
    context: BrowserContext, server: Serving, puppets: Puppets
) -> None:
    """A list that nobody sees holds no connection; shown again it has what came meanwhile."""
    old = begin(server.url, puppets)
    page = context.new_page()
    page.goto(server.url)
    expect(page.locator("html")).to_have_attribute("data-stream", "live")
    page.evaluate(HIDE, True)
    expect(page.locator("html")).to_have_attribute("data-stream", "paused")
    httpx.post(f"{server.url}/api/threads/{old}-hidden/turns", json={"content": "Meanwhile"}).raise_for_status()
    puppets.take().answer("Done.")
    page.evaluate(HIDE, False)
    expect(page.locator(".thread-row").first).to_contain_text("Meanwhile")


def test_a_thread_leads_to_the_list(chat: Chat) -> None:
    """From a thread a link in plain words leads to all threads, where a new one begins."""
    chat.page.get_by_role("link", name="All threads").click()
    expect(chat.page.get_by_role("form", name="New thread")).to_be_visible()
