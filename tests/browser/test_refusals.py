"""What does not work is said where a person looks, and not a moment longer than it is true."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Route, expect

from turnlog.limits import SUBMISSION_BYTES_MAX

from ..web.serving import Serving
from .chat import WATCH, Chat
from .conftest import begin
from .puppet import SERVER, Puppets
from .test_sending import asked

DOWN = "The server cannot be reached."


def cut(route: Route) -> None:
    route.abort()


@pytest.mark.parametrize("button", ["Stop", "Cancel", "Retry"])
def test_a_button_that_fails_says_so_beside_itself(chat: Chat, puppets: Puppets, button: str) -> None:
    """A Stop, Cancel or Retry that does not reach the server says so in view, beside the button, until it works."""
    chat.send("First")
    puppet = puppets.take()
    puppet.draft("I begin")
    if button == "Cancel":
        chat.send("Second")
        expect(chat.last.locator(".notice")).to_contain_text("next in line")
    if button == "Retry":
        puppet.fail("no more")
    turn = chat.last
    pressed = turn.get_by_role("button", name=button)
    expect(pressed).to_be_visible()
    chat.page.route("**/interrupt", cut)
    chat.page.route("**/retry", cut)
    pressed.click()
    alert = turn.get_by_role("alert")
    expect(alert).to_contain_text(DOWN)
    expect(alert).to_be_in_viewport(ratio=0.9)
    chat.page.unroute_all()
    turns = chat.turns.count()
    pressed.click()
    expect(chat.page.locator("main").get_by_role("alert")).to_have_count(0)
    if button == "Retry":
        expect(chat.turns).to_have_count(turns + 1)
        puppets.take().answer("Again.")
    expect(chat.last).to_have_attribute("data-state", "completed" if button == "Retry" else "interrupted")


def test_an_answer_is_replaced_only_by_the_message_it_was_chosen_for(chat: Chat, puppets: Puppets) -> None:
    """After a message that stopped an answer the next one waits again, unless it is chosen again."""
    chat.send("One")
    puppets.take().draft("I begin")
    chat.send_instead("Two")
    second = puppets.take()
    second.draft("Two begins")
    expect(chat.answer).to_have_text("Two begins")
    chat.send("Three, a follow-up")
    expect(chat.last.locator(".notice")).to_contain_text("next in line")
    second.message("Two begins and ends.")
    second.finish()
    puppets.take().answer("Three.")
    expect(chat.answer).to_have_text("Three.")
    expect(chat.turns.nth(-2)).to_have_attribute("data-state", "completed")


@pytest.mark.parametrize("letter", ["x", "é", '"'])
def test_a_message_that_is_too_long_is_not_cut(chat: Chat, letter: str) -> None:
    """Text that is longer than a message may be stays whole in the field; nothing is sent, and it is said how much is
    too much (P4)."""
    sent: list[str] = []
    chat.page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    text = letter * (SUBMISSION_BYTES_MAX if letter == "x" else SUBMISSION_BYTES_MAX // 2)
    chat.composer.evaluate("(field, text) => { field.focus(); document.execCommand('insertText', false, text); }", text)
    assert len(chat.composer.input_value()) == len(text)
    chat.composer.press("Enter")
    alert = chat.page.get_by_role("alert")
    expect(alert).to_contain_text("too long")
    expect(alert).to_contain_text("characters")
    assert len(chat.composer.input_value()) == len(text)
    assert sent == []


def test_the_longest_message_is_sent_whole(chat: Chat, puppets: Puppets) -> None:
    """A message of just the allowed length reaches the log as it was written."""
    most = int(chat.page.locator("#composer").get_attribute("data-bytes-max") or 0)
    text = "é" * (most // 2)
    chat.send(text)
    puppets.take().answer("Long.")
    expect(chat.answer).to_have_text("Long.")
    assert asked(chat)[-1] == text


def test_an_error_goes_when_it_is_not_true_any_more(tmp_path: Path, puppets: Puppets, context: BrowserContext) -> None:
    """That the server was not reached is said until somebody writes on, or until the server is there again."""
    with Serving(tmp_path, script=SERVER, environment=puppets.environment) as server:
        chat, port = Chat(context, server.url, begin(server.url, puppets)), server.port
        chat.until_live()
        server.kill()
        alert = chat.page.get_by_role("alert")
        chat.send("Not lost")
        expect(alert).to_contain_text(DOWN)
        chat.composer.type(".")
        expect(alert).to_be_hidden()
        chat.composer.press("Enter")
        expect(alert).to_contain_text(DOWN)
    with Serving(tmp_path, script=SERVER, environment=puppets.environment, port=port):
        chat.until_live()
        expect(alert).to_be_hidden()
        expect(chat.composer).to_have_value("Not lost.")
        chat.check()
    puppets.release()


@pytest.mark.parametrize(("status", "again"), [(413, False), (503, True)])
def test_sending_again_is_advised_only_where_it_may_help(chat: Chat, status: int, *, again: bool) -> None:
    """What the server refuses for what it is is not to be sent again; what met a trouble of the server's is."""
    problem = {"type": "x", "title": "No", "detail": "It did not go.", "status": status}
    answer = {"status": status, "body": json.dumps(problem), "content_type": "application/problem+json"}
    chat.page.route("**/turns", lambda route: route.fulfill(**answer))
    chat.send("Well?")
    alert = chat.page.get_by_role("alert")
    expect(alert).to_contain_text("It did not go. Your text is kept")
    assert ("send it again" in alert.inner_text()) is again


@pytest.mark.parametrize("reload", [False, True])
def test_a_new_thread_whose_answer_is_lost_begins_once(
    context: BrowserContext, server: Serving, puppets: Puppets, *, reload: bool
) -> None:
    """When a new thread had begun but its answer was lost, the text is kept, and sent again it is the same thread,
    also after a reload (P6, C03)."""
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(server.url)
    text = f"Once, {'reloaded' if reload else 'at once'}"

    def lose(route: Route) -> None:
        route.fetch(max_redirects=0)
        route.abort()

    page.route("**/t", lose)
    field = page.get_by_role("textbox", name="Your message")
    field.fill(text)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("Your text is kept")
    page.unroute("**/t")
    if reload:
        page.reload()
    expect(field).to_have_value(text)
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/t/*")
    puppets.take().answer("It begins.")
    expect(page.locator(".answer > .msg")).to_have_text("It begins.")
    assert page.evaluate("window.violations") == []
    threads = httpx.get(f"{server.url}/api/threads").json()["threads"]
    assert [thread["title"] for thread in threads].count(text) == 1
    page.goto(server.url)
    expect(field).to_have_value("")
