"""Sending: nothing typed is lost, and nothing is sent twice, whatever becomes of the answer."""

from __future__ import annotations

import json
from time import monotonic

import httpx
from playwright.sync_api import BrowserContext, Page, Route, expect

from ..web.serving import Serving
from .chat import WAIT_S, WATCH, Chat
from .puppet import Puppets


def asked(chat: Chat) -> list[str]:
    """What was asked in the thread, as the server has it."""
    document = httpx.get(chat.url.replace("/t/", "/api/threads/") + "/transcript").json()
    return [message["text"] for message in document["messages"] if message["role"] == "user"]


def test_offline_the_text_stays(chat: Chat, context: BrowserContext, puppets: Puppets) -> None:
    """What is sent while offline stays in the composer, with the reason, and can be sent again when online."""
    context.set_offline(True)
    chat.send("Do not lose me")
    expect(chat.page.get_by_role("alert")).to_contain_text("Not sent: The server cannot be reached.")
    expect(chat.composer).to_have_value("Do not lose me")
    context.set_offline(False)
    chat.composer.press("Enter")
    puppets.take().answer("Kept.")
    expect(chat.answer).to_have_text("Kept.")
    expect(chat.composer).to_have_value("")
    expect(chat.page.get_by_role("alert")).to_be_hidden()
    assert asked(chat) == ["Are you there?", "Do not lose me"]


def test_a_lost_answer_submits_once(chat: Chat, puppets: Puppets) -> None:
    """When the server had accepted but its answer was lost, sending again is the same turn (P6, C03)."""
    lost: list[Route] = []

    def lose(route: Route) -> None:
        if lost:
            return route.continue_()
        lost.append(route)
        route.fetch()
        return route.abort()

    chat.page.route("**/turns", lose)
    chat.send("Only once")
    expect(chat.page.get_by_role("alert")).to_contain_text("Your text is kept")
    chat.composer.press("Enter")
    expect(chat.composer).to_have_value("")
    puppets.take().answer("Once.")
    expect(chat.answer).to_have_text("Once.")
    assert asked(chat) == ["Are you there?", "Only once"]


def test_a_lost_answer_survives_a_reload(chat: Chat, puppets: Puppets) -> None:
    """Also after a reload of the page, text whose answer was lost is still there, and is the same submission."""

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    chat.page.route("**/turns", lose)
    chat.send("Only once, too")
    expect(chat.page.get_by_role("alert")).to_contain_text("Your text is kept")
    chat.page.unroute("**/turns")
    chat.page.reload()
    expect(chat.composer).to_have_value("Only once, too")
    chat.composer.press("Enter")
    expect(chat.composer).to_have_value("")
    puppets.take().answer("Once.")
    expect(chat.answer).to_have_text("Once.")
    assert asked(chat) == ["Are you there?", "Only once, too"]


def test_a_changed_text_after_a_lost_answer_is_told_apart(chat: Chat, puppets: Puppets) -> None:
    """A text changed after its first version had arrived unseen is refused once, and is then a turn of its own."""

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    chat.page.route("**/turns", lose)
    chat.send("First version")
    expect(chat.page.get_by_role("alert")).to_contain_text("Not sent")
    chat.page.unroute("**/turns")
    chat.composer.fill("Second version")
    chat.composer.press("Enter")
    expect(chat.page.get_by_role("alert")).to_contain_text("had already arrived")
    expect(chat.composer).to_have_value("Second version")
    chat.composer.press("Enter")
    puppets.take().answer("One.")
    puppets.take().answer("Two.")
    expect(chat.answer).to_have_text("Two.")
    assert asked(chat) == ["Are you there?", "First version", "Second version"]


def test_two_clicks_send_once(chat: Chat, puppets: Puppets) -> None:
    """A double click on Send is one message, and what is typed meanwhile stays."""
    held: list[Route] = []
    chat.page.route("**/turns", lambda route: held.append(route))
    chat.composer.fill("Twice?")
    chat.page.get_by_role("button", name="Send").dblclick()
    chat.until(lambda _: len(held), 1)
    chat.composer.press("End")
    chat.composer.type(" And more")
    held[0].continue_()
    expect(chat.composer).to_have_value(" And more")
    puppets.take().answer("Once.")
    expect(chat.answer).to_have_text("Once.")
    assert len(held) == 1
    assert asked(chat) == ["Are you there?", "Twice?"]


def test_what_the_server_refuses_is_said_and_kept(chat: Chat) -> None:
    """A message that the server refuses stays in the composer, with the server's own reason."""
    problem = {"type": "too-large", "title": "Too large", "detail": "It is too large.", "status": 413}
    chat.page.route(
        "**/turns",
        lambda route: route.fulfill(status=413, body=json.dumps(problem), content_type="application/problem+json"),
    )
    chat.send("Large")
    expect(chat.page.get_by_role("alert")).to_contain_text("It is too large.")
    expect(chat.composer).to_have_value("Large")


def test_enter_sends_and_shift_enter_makes_a_line(chat: Chat, puppets: Puppets) -> None:
    """Enter sends, Shift+Enter makes a line, and a message of blanks is not sent."""
    chat.composer.press("Enter")
    chat.send("   ")
    expect(chat.turns).to_have_count(1)
    chat.composer.fill("one")
    chat.composer.press("Shift+Enter")
    chat.composer.type("two")
    chat.composer.press("Enter")
    expect(chat.last.locator(".ask .text")).to_have_text("one\ntwo")
    puppets.take().answer("Two lines.")
    expect(chat.answer).to_have_text("Two lines.")


def test_a_new_thread_begins_from_the_list(context: BrowserContext, server: Serving, puppets: Puppets) -> None:
    """From the list of threads a first message makes a thread and shows it live; twice sent, it is one."""
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(server.url)
    page.get_by_role("textbox", name="Your message").fill("A beginning")
    page.get_by_role("button", name="Send").dblclick()
    page.wait_for_url("**/t/*")
    puppets.take().answer("It begins.")
    expect(page.locator(".answer > .msg")).to_have_text("It begins.")
    assert page.evaluate("window.violations") == []
    page.goto(server.url)
    expect(page.locator(".thread-row", has_text="A beginning")).to_have_count(1)


def test_without_scripts_the_page_works(
    browser_without_scripts: BrowserContext, server: Serving, puppets: Puppets
) -> None:
    """Without JavaScript a person asks, reloads, and reads the answer."""
    page = browser_without_scripts.new_page()
    page.goto(server.url)
    page.get_by_role("textbox", name="Your message").fill("Plainly")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/t/*")
    puppet = puppets.take()
    puppet.draft("It is")
    reload_until(page, "It is")
    puppet.message("It is plain.")
    puppet.finish()
    reload_until(page, "It is plain.")


def reload_until(page: Page, text: str) -> None:
    """Reload the page, as a person does, until it shows the answer."""
    end = monotonic() + WAIT_S
    while (got := page.locator(".answer > .msg").all_inner_texts()) != [text]:
        assert monotonic() < end, got
        page.reload()
