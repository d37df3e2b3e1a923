"""The page is for everybody: by keys alone, with a screen reader, on a phone, in the dark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from ..web.serving import Serving
from .chat import Chat
from .conftest import begin
from .puppet import Puppets

ANSWER: Final = """# A heading

A paragraph with a [link](https://example.org), `code` and
a-very-long-word-that-has-no-place-to-break-and-goes-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on.

```python
def durable(path: str) -> bool:  # a comment that makes a line of code that is longer than any phone is wide
    return "text" != 42 and None is not path and sync(path)
```

| one | two | three | four | five | six | seven |
|---|---|---|---|---|---|---|
| a long cell | a long cell | a long cell | a long cell | a long cell | a long cell | a long cell |

> A quotation.
"""


def show_all(chat: Chat, puppets: Puppets) -> None:
    """A thread with everything in it: an answer of all kinds of blocks, a failed step, an interrupted turn, a running
    one and a waiting one."""
    chat.send("Everything, please")
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", args={"pattern": "x" * 90}, status="succeeded", output="found " * 99)
    puppet.step("a", step="subagent", name="explorer", status="running")
    failure = {"reason": "No such file", "next_step": "Look in the folder."}
    puppet.step("t", parent="a", step="tool", name="read_file", status="failed", failure=failure)
    puppet.answer(ANSWER)
    expect(chat.last).to_have_attribute("data-state", "completed")
    chat.send("And fail")
    puppet = puppets.take()
    puppet.draft("I beg")
    puppet.fail("no more")
    expect(chat.last).to_have_attribute("data-state", "interrupted")
    chat.send("And go on")
    puppets.take().step("s", step="tool", name="search", status="running")
    expect(chat.last.locator(".tag-running").first).to_be_visible()
    chat.send("And wait")
    expect(chat.last.locator(".notice")).to_contain_text("next in line")
    chat.page.evaluate("for (const it of document.querySelectorAll('details.trace')) it.open = true")
    expect(chat.page.locator(".tag-failed").first).to_be_attached()


CONTRAST: Final = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const line = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * line(r) + 0.7152 * line(g) + 0.0722 * line(b);
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgba(getComputedStyle(node).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const poor = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !node.checkVisibility({ visibilityProperty: true })) continue;
    seen++;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.add(`${node.tagName}.${node.className} ${ratio.toFixed(2)}`);
  }
  return [seen, [...poor]];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(chat: Chat, puppets: Puppets, scheme: Any) -> None:
    """In both modes all text has a contrast of at least 4.5 to 1, whatever a turn is and its code is coloured."""
    chat.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    show_all(chat, puppets)
    seen, poor = chat.page.evaluate(CONTRAST)
    assert seen > 60
    assert poor == []


def test_both_modes_differ(chat: Chat) -> None:
    """The page follows the system's choice of light or dark."""
    papers = []
    for scheme in ("light", "dark"):
        chat.page.emulate_media(color_scheme=scheme)
        papers.append(chat.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert papers[0] != papers[1]


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_never_scrolls_sideways(browser: Browser, server: Serving, puppets: Puppets, width: int) -> None:
    """On a phone nothing is wider than the window, however long words, code and tables are."""
    context = browser.new_context(viewport={"width": width, "height": 640}, is_mobile=True, has_touch=True)
    chat = Chat(context, server.url, begin(server.url, puppets))
    chat.until_live()
    show_all_on_touch(chat, puppets)
    assert chat.page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    wide = """() => [...document.querySelectorAll("main *")].filter((node) => !node.closest("pre, table")
      && node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML)"""
    assert chat.page.evaluate(wide) == []
    puppets.release()
    chat.check()
    context.close()


def show_all_on_touch(chat: Chat, puppets: Puppets) -> None:
    """On a phone Enter makes a line, so the button sends."""
    chat.composer.fill("Everything")
    chat.composer.press("Enter")
    expect(chat.composer).to_have_value("Everything\n")
    chat.page.get_by_role("button", name="Send").tap()
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", args={"pattern": "x" * 90}, status="failed", output="found " * 99)
    puppet.answer(ANSWER)
    expect(chat.last).to_have_attribute("data-state", "completed")
    chat.last.locator("details.trace > summary").tap()
    chat.last.locator("details.io > summary").first.tap()
    expect(chat.last.locator("details.io pre").first).to_be_visible()


def test_all_is_done_by_keys(chat: Chat, puppets: Puppets) -> None:
    """Without a mouse: skip to the field, ask, stop, open the trace and retry, by Tab, Enter and Space, with a ring."""
    page = chat.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the message box")).to_be_focused()
    page.keyboard.press("Enter")
    expect(chat.composer).to_be_focused()
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", status="succeeded")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    tab_to(page, stop, "Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(chat.last).to_have_attribute("data-state", "interrupted")
    chat.composer.focus()
    tab_to(page, page.get_by_role("button", name="Retry"), "Shift+Tab")
    tab_to(page, chat.last.locator("details.trace > summary"), "Shift+Tab")
    page.keyboard.press("Space")
    expect(chat.last.locator(".step").first).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Retry"), "Tab")
    page.keyboard.press("Space")
    puppets.take().answer("By keys, too.")
    expect(chat.answer).to_have_text("By keys, too.")


def tab_to(page: Page, locator: Any, key: str) -> None:
    """Press a key until something has the focus."""
    for _ in range(30):
        if locator.evaluate("(node) => node === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{locator} is not reached by {key}")


NAMELESS: Final = """() => [...document.querySelectorAll(
  "a, button, input:not([type=hidden]), textarea, summary, main, section, form, fieldset, nav, [role]")]
  .filter((node) => {
    const ids = (node.getAttribute("aria-labelledby") ?? "").split(" ");
    const by = ids.map((id) => document.getElementById(id)?.textContent);
    const named = node.getAttribute("aria-label") || by.join("") || node.textContent.trim() || node.labels?.length;
    return !named && node.checkVisibility();
  }).map((node) => node.outerHTML)"""


def test_everything_has_a_role_and_a_name(chat: Chat, puppets: Puppets) -> None:
    """What can be used or jumped to has a name, ids are unique, headings skip no level, and only the answer that is
    being written is busy: it is no live region, the status line is."""
    show_all(chat, puppets)
    page = chat.page
    assert page.evaluate(NAMELESS) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    for role in ("main", "banner"):
        expect(page.get_by_role(role)).to_have_count(1)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((node) => +node.tagName[1])")
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert page.locator("main [aria-live], main [role=status], main [role=log]").count() == 0
    assert page.locator("[aria-busy=true]").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"


def test_the_status_line_tells_what_becomes_of_a_turn(chat: Chat, puppets: Puppets) -> None:
    """A screen reader is told that the assistant works, and that the answer is there, without hearing each word."""
    status = chat.page.locator("#status")
    chat.send("Speak")
    puppet = puppets.take()
    expect(status).to_have_text("The assistant is working.")
    puppet.draft("I speak")
    expect(status).to_have_text("The assistant is answering.")
    puppet.answer(" and end.")
    expect(status).to_have_text("Answer complete.")


def test_code_is_copied(chat: Chat, puppets: Puppets) -> None:
    """The copy button of a listing copies the code as it was written, and lies outside of what the stream changes."""
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.send("Code")
    puppets.take().answer("```python\ndef f():\n    return 1\n```\n")
    listing = chat.answer.locator("pre")
    expect(chat.last).to_have_attribute("data-state", "completed")
    listing.hover()
    chat.page.get_by_role("button", name="Copy").click()
    expect(chat.page.locator("#status")).to_have_text("Copied.")
    assert chat.page.evaluate("navigator.clipboard.readText()").strip() == "def f():\n    return 1"
    chat.until_same()
