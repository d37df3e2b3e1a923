"""A tab whose server goes away, answers nonsense, or has many tabs comes back by itself, and is right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Route, expect

from ..web.serving import Serving
from .chat import Chat
from .conftest import begin
from .puppet import SERVER, Puppets

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def folder(tmp_path: Path, puppets: Puppets) -> Iterator[Path]:
    yield tmp_path
    puppets.release()


def test_two_tabs_survive_the_death_of_the_server(folder: Path, puppets: Puppets, context: BrowserContext) -> None:
    """Killed in mid-answer and started again: both tabs reconnect by themselves and show what was shown, the notice,
    and a Retry that works (P2, P3, P8, P9, C01)."""
    with Serving(folder, script=SERVER, environment=puppets.environment) as server:
        thread, port = begin(server.url, puppets), server.port
        tabs = [Chat(context, server.url, thread) for _ in range(2)]
        tabs[0].send("Tell me a long story")
        puppets.take().draft("Once upon a time there was a")
        for tab in tabs:
            expect(tab.answer).to_have_text("Once upon a time there was a")
        server.kill()
        for tab in tabs:
            expect(tab.banner).to_contain_text("connects again by itself")
            expect(tab.answer).to_have_text("Once upon a time there was a")
    with Serving(folder, script=SERVER, environment=puppets.environment, port=port):
        for tab in tabs:
            expect(tab.last).to_have_attribute("data-state", "interrupted")
            expect(tab.banner).to_be_hidden()
            expect(tab.answer).to_have_text("Once upon a time there was a")
            expect(tab.last.locator(".notice")).to_contain_text("Your message is safe")
            tab.until_same()
        tabs[1].page.get_by_role("button", name="Retry").click()
        puppets.take().answer("The end.")
        for tab in tabs:
            expect(tab.answer).to_have_text("The end.")
            tab.until_same()
            tab.check()


def test_a_stopping_server_says_bye_and_the_page_waits(folder: Path, puppets: Puppets, context: BrowserContext) -> None:
    """A server that is stopped and started again has its tab back, without a reload."""
    with Serving(folder, script=SERVER, environment=puppets.environment) as server:
        chat, port = Chat(context, server.url, begin(server.url, puppets)), server.port
        chat.until_live()
        chat.page.evaluate("window.mark = 1")
        assert server.terminate() == 0
        expect(chat.banner).to_be_visible()
    with Serving(folder, script=SERVER, environment=puppets.environment, port=port):
        expect(chat.banner).to_be_hidden()
        chat.send("Still there?")
        puppets.take().answer("Yes.")
        expect(chat.answer).to_have_text("Yes.")
        assert chat.page.evaluate("window.mark") == 1
        chat.check()


def test_nonsense_of_a_proxy_is_waited_out(chat: Chat, puppets: Puppets) -> None:
    """503 and HTML instead of the stream, as a proxy answers while a server starts, end nothing."""
    answers: list[dict[str, object]] = [
        {"status": 503, "body": "starting", "content_type": "text/plain"},
        {"status": 200, "body": "<p>starting</p>", "content_type": "text/html"},
    ]

    def nonsense(route: Route) -> None:
        route.fulfill(**answers.pop(0)) if answers else route.continue_()  # type: ignore[arg-type]

    chat.page.route("**/stream", nonsense)
    chat.page.evaluate(HIDE, True)
    chat.page.evaluate(HIDE, False)
    expect(chat.banner).to_be_visible()
    chat.until_live()
    expect(chat.banner).to_be_hidden()
    chat.send("Well?")
    puppets.take().answer("Well.")
    expect(chat.answer).to_have_text("Well.")


def test_a_tab_is_told_when_its_thread_is_gone(chat: Chat) -> None:
    """A stream that answers 404 ends the tries, and the page says so."""
    chat.page.route("**/stream", lambda route: route.fulfill(status=404))
    chat.page.evaluate(HIDE, True)
    chat.page.evaluate(HIDE, False)
    expect(chat.banner).to_have_text("This thread is not here any more.")


# --- many tabs -------------------------------------------------------------------------------------------------


def streams(server: Serving) -> int:
    """How many streams the server has open."""
    match = re.search(r"^turnlog_streams (\d+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    assert match
    return int(match[1])


def test_hidden_tabs_let_go_so_that_eight_tabs_work(
    chat: Chat, another: Callable[[Chat], Chat], puppets: Puppets, server: Serving
) -> None:
    """A browser has six connections for a server: hidden tabs close theirs, a late tab works, and one that is shown
    again has caught up exactly."""
    tabs = [chat]
    for _ in range(7):
        tabs[-1].page.evaluate(HIDE, True)
        tabs.append(another(chat))
        tabs[-1].until_live()
    chat.until(lambda _: streams(server), 1)
    tabs[-1].send("Who hears me?")
    puppets.take().answer("All of you.")
    expect(tabs[-1].answer).to_have_text("All of you.")
    assert chat.page.evaluate("document.querySelectorAll('.turn').length") == 1
    tabs[-1].page.evaluate(HIDE, True)
    for tab in (tabs[0], tabs[4]):
        tab.page.evaluate(HIDE, False)
        expect(tab.answer).to_have_text("All of you.")
        tab.until_same()
        tab.page.evaluate(HIDE, True)
    chat.until(lambda _: streams(server), 0)
    for tab in tabs[1:]:
        tab.check()


# --- what a person does while the page changes -----------------------------------------------------------------


def test_what_a_person_is_doing_survives_the_stream(chat: Chat, puppets: Puppets) -> None:
    """While an answer grows, a selection in it, what is typed with its caret, and what was opened stay as they are."""
    chat.send("Go on")
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", args={"pattern": "fence"}, status="running")
    puppet.draft("0123456789 and", target="m")
    expect(chat.answer.locator("p")).to_have_text("0123456789 and")
    arguments = chat.last.locator("details.io").first
    arguments.locator("summary").click()
    chat.composer.fill("half a thought")
    select = """(end) => {
      const text = document.querySelector('.turn:last-child .answer p').firstChild;
      getSelection().setBaseAndExtent(text, 2, text, end);
    }"""
    chat.page.evaluate(select, 5)
    puppet.step("s", status="succeeded", output="found")
    for word in (" more", " and", " more"):
        puppet.draft(word, target="m")
    expect(chat.answer.locator("p")).to_have_text("0123456789 and more and more")
    assert chat.page.evaluate("String(getSelection())") == "234"
    expect(arguments).to_have_attribute("open", "")
    expect(chat.composer).to_have_value("half a thought")
    chat.composer.click()
    chat.composer.press("End")
    chat.composer.press("ArrowLeft")
    puppet.draft("!", target="m")
    expect(chat.answer.locator("p")).to_contain_text("!")
    expect(chat.composer).to_be_focused()
    assert chat.page.evaluate("document.activeElement.selectionStart") == len("half a thought") - 1
    chat.until_same()


def test_the_page_follows_the_end_only_from_the_end(chat: Chat, puppets: Puppets) -> None:
    """A page at its end stays there while an answer grows; scrolled up, it stays where it is read (P9)."""
    at_end = "document.documentElement.scrollHeight - innerHeight - scrollY < 2"
    chat.send("Much")
    puppet = puppets.take()
    for number in range(40):
        puppet.draft(f"Paragraph {number}.\n\n", target="m")
    expect(chat.answer).to_contain_text("Paragraph 39.")
    chat.until(lambda page: page.evaluate(at_end), True)
    chat.page.mouse.move(400, 300)
    chat.page.mouse.wheel(0, -600)
    chat.until(lambda page: page.evaluate(at_end), False)
    settled = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(scrollY))))"
    chat.until(lambda page: page.evaluate(settled) == page.evaluate(settled), True)
    where = chat.page.evaluate("scrollY")
    for number in range(40, 60):
        puppet.draft(f"Paragraph {number}.\n\n", target="m")
    expect(chat.answer).to_contain_text("Paragraph 59.")
    assert chat.page.evaluate("scrollY") == where
    chat.page.get_by_role("button", name="Newest").click()
    chat.until(lambda page: page.evaluate(at_end), True)


def test_earlier_turns_come_without_a_hole(chat: Chat, puppets: Puppets) -> None:
    """Earlier turns are put above what is there, and none goes missing when newer ones come (P4)."""
    api = chat.url.replace("/t/", "/api/threads/")
    for number in range(32):
        httpx.post(f"{api}/turns", json={"content": f"Question {number}", "when_busy": "queue"}).raise_for_status()
        puppets.take().answer(f"Answer {number}.")
    expect(chat.answer).to_have_text("Answer 31.")
    expect(chat.turns).to_have_count(30)
    chat.page.get_by_role("link", name="Earlier turns").click()
    expect(chat.turns).to_have_count(33)
    expect(chat.page.get_by_role("link", name="Earlier turns")).to_be_hidden()
    chat.send("Question 32")
    puppets.take().answer("Answer 32.")
    expect(chat.answer).to_have_text("Answer 32.")
    asked = chat.page.locator(".ask .text").all_text_contents()
    assert asked == ["Are you there?", *(f"Question {number}" for number in range(33))]


def test_a_reset_takes_the_page_anew_and_goes_on(chat: Chat, puppets: Puppets) -> None:
    """A page whose cursor the server cannot prove takes itself anew, as it is in place, and is live again (C41)."""
    chat.page.evaluate("window.mark = document.querySelector('.turn')")
    chat.page.evaluate(HIDE, True)
    thread = chat.url.replace("/t/", "/api/threads/")
    httpx.post(f"{thread}/turns", json={"content": "Meanwhile"}).raise_for_status()
    puppets.take().answer("Much happened.")
    reset = 'event: reset\ndata: {"reason":"epoch","head":"0.1"}\n\n'
    chat.page.route("**/stream", lambda route: route.fulfill(body=reset, content_type="text/event-stream"), times=1)
    chat.page.evaluate(HIDE, False)
    expect(chat.answer).to_have_text("Much happened.")
    chat.send("And now?")
    puppets.take().answer("Live again.")
    expect(chat.answer).to_have_text("Live again.")
    assert chat.page.evaluate("window.mark === document.querySelector('.turn')")
    chat.until_same()


def test_a_page_that_is_not_what_the_server_thinks_heals(chat: Chat, puppets: Puppets) -> None:
    """When an operation does not fit the page, the page takes itself anew instead of staying wrong (P9)."""
    chat.page.evaluate("document.querySelector('#turns').remove()")
    chat.page.evaluate(HIDE, True)
    chat.page.evaluate(HIDE, False)
    httpx.post(f"{chat.url.replace('/t/', '/api/threads/')}/turns", json={"content": "Heal"}).raise_for_status()
    puppets.take().answer("Whole.")
    expect(chat.answer).to_have_text("Whole.")
    chat.until_same()
    assert [said for said in chat.wrong if "taken anew" in said]
    chat.wrong.clear()
