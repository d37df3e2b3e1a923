"""How things lie on the page: on phones, in other scripts, without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from ..web.serving import Serving
from .chat import Chat
from .conftest import begin, end
from .puppet import Puppets

PHONE: Final[dict[str, Any]] = {"viewport": {"width": 375, "height": 700}, "is_mobile": True, "has_touch": True}


@pytest.fixture
def phone(browser: Browser, server: Serving, puppets: Puppets) -> Iterator[Chat]:
    """A tab of a phone on a new thread with one answer."""
    context = browser.new_context(**PHONE)
    chat = Chat(context, server.url, begin(server.url, puppets))
    chat.until_live()
    yield chat
    end(chat.url.replace("/t/", "/api/threads/"))
    puppets.release()
    chat.check()
    context.close()


def ask(chat: Chat, text: str) -> None:
    """On a phone the button sends."""
    chat.composer.fill(text)
    chat.page.get_by_role("button", name="Send").tap()


TABLE: Final = """| file | what it is about |
|---|---|
| `src/turnlog/web/page/static/templates/fragment/a_name_that_is_longer_than_a_phone_is_wide.py` | It says in many words
what the file is about, and why, and for whom, and since when, and so on: forty words and more that need some room. |
| `a.py` | Short. |
""".replace("words\nwhat", "words what")


def test_a_table_is_no_tower_on_a_phone(phone: Chat, puppets: Puppets) -> None:
    """A table with a long path and a long text is not many times as high as wide: each column has room for words."""
    ask(phone, "A table")
    puppets.take().answer(TABLE)
    expect(phone.last).to_have_attribute("data-state", "completed")
    box = phone.answer.locator("table").bounding_box()
    assert box
    assert box["height"] < 450


def test_the_time_of_a_step_stays_with_its_state(phone: Chat, puppets: Puppets) -> None:
    """On a phone the state of a step and how long it took stand on one line, at its end."""
    ask(phone, "Steps")
    puppet = puppets.take()
    for number, words in enumerate(("x", "some more", "some more words", "a path/that/is/quite/long", "a" * 90)):
        args = {"pattern": words}
        puppet.step(f"s{number}", step="tool", name="read_the_file", args=args, status="running", output="found\n" * 99)
        puppet.step(f"s{number}", status="succeeded")
    rows = phone.last.locator(".row > .head")
    expect(rows).to_have_count(5)
    expect(phone.last.locator(".tag-succeeded")).to_have_count(5)
    expect(phone.last.locator(".head .time")).to_have_count(5)
    for row in rows.all():
        tag, time, head = (one.bounding_box() for one in (row.locator(".tag"), row.locator(".time"), row))
        assert tag
        assert time
        assert head
        assert abs(tag["y"] - time["y"]) < 8
        assert abs(head["x"] + head["width"] - time["x"] - time["width"]) < 2
    edges = """() => [...document.querySelectorAll(".row > .io")].map((io) => io.getBoundingClientRect().left
      - io.parentElement.getBoundingClientRect().left)"""
    phone.page.set_viewport_size({"width": 240, "height": 700})
    assert set(phone.page.evaluate(edges)) == {0}


def test_the_choice_comes_with_the_first_letter_and_moves_nothing(chat: Chat, puppets: Puppets) -> None:
    """What becomes of a message is chosen where one is typed while an answer is written; nothing else moves for it."""
    choice = chat.page.get_by_role("group", name="While an answer is being written")
    chat.send("First")
    puppets.take().draft("Some text.\n\n" * 40)
    expect(chat.answer).to_contain_text("Some text.")
    expect(chat.page.locator("#composer")).to_have_attribute("data-busy", "")
    expect(choice).to_be_hidden()
    places = """() => [...document.querySelectorAll("#content, .turn:last-child .answer p:last-child")]
      .map((node) => node.getBoundingClientRect().top)"""
    chat.until(lambda page: page.evaluate(places) == page.evaluate(places), True)
    before = chat.page.evaluate(places)
    chat.composer.type("S")
    expect(choice.get_by_text("Send after this answer")).to_be_visible()
    expect(choice.get_by_text("Stop this answer and what waits, and send now")).to_be_visible()
    assert chat.page.evaluate(places) == before
    text = "[...document.querySelectorAll('.turn:last-child .notice')].at(-1).getBoundingClientRect().bottom"
    box = choice.bounding_box()
    assert box
    assert chat.page.evaluate(text) <= box["y"] + 1
    chat.composer.press("Backspace")
    expect(choice).to_be_hidden()


def test_lists_and_quotations_of_other_scripts_begin_on_their_side(chat: Chat, puppets: Puppets) -> None:
    """Where text runs from right to left, the marks of a list and of a quotation stand at the right."""
    chat.send("Hebrew")
    puppets.take().answer("- שלום עולם\n- שלום\n\n> שלום עולם\n")
    expect(chat.last).to_have_attribute("data-state", "completed")
    expect(chat.answer.locator("blockquote")).to_be_visible()
    sides = """(dir) => [...document.querySelectorAll(".turn:last-child .answer :is(ul, blockquote)")].map((node) => {
      node.dir = dir;
      const style = getComputedStyle(node);
      return [style.paddingLeft, style.paddingRight, style.borderLeftWidth, style.borderRightWidth];
    })"""
    left, right = chat.page.evaluate(sides, "ltr"), chat.page.evaluate(sides, "rtl")
    assert left == [["24px", "0px", "0px", "0px"], ["16px", "0px", "3px", "0px"]]
    assert right == [["0px", "24px", "0px", "0px"], ["0px", "16px", "0px", "3px"]]


def test_without_scripts_a_reload_is_advised_while_there_is_something_to_come(
    browser_without_scripts: BrowserContext, server: Serving, puppets: Puppets
) -> None:
    """Without JavaScript the page says to reload it while an answer is written, in line with the text, and not after;
    no separator stands before nothing."""
    thread = begin(server.url, puppets)
    page = browser_without_scripts.new_page()
    page.goto(f"{server.url}/t/{thread}")
    advice = page.locator("noscript p")
    expect(advice).to_have_count(0)
    httpx.post(f"{server.url}/api/threads/{thread}/turns", json={"content": "More"}).raise_for_status()
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", args={"pattern": "x"}, status="running")
    page.reload()
    advised, text = advice.bounding_box(), page.locator(".notice-running").bounding_box()
    assert advised
    assert text
    assert advised["x"] <= text["x"] <= advised["x"] + 30
    dots = """() => [...document.querySelectorAll(".sum > :empty")].filter((node) =>
      getComputedStyle(node, "::before").content !== "none").length"""
    assert page.evaluate(dots) == 0
    puppet.answer("Done.")
