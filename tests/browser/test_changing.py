"""What changes a conversation: edit, undo, title and pin, beside others who do the same, by keys, and refused."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from turnlog.limits import TITLE_GIVEN_CHARS_MAX

from ..web.serving import Serving
from .chat import Chat
from .conftest import begin
from .puppet import Puppets
from .test_access import NAMELESS, tab_to
from .test_layout import PHONE
from .test_sending import asked

EDITED = "This message was already edited or taken back."


def until_thread(chat: Chat) -> None:
    """Wait until the tab shows its thread, live."""
    chat.page.wait_for_url(lambda url: url.partition("#")[0] == chat.url)
    chat.until_live()


def edit(chat: Chat) -> None:
    """Open the form that edits the newest message."""
    chat.last.hover()
    chat.last.get_by_role("link", name="Edit").click()
    until_editing(chat.page)


def words(page: Page) -> Locator:
    """Where a message is edited."""
    return page.get_by_role("textbox", name="The message")


def until_editing(page: Page) -> None:
    """Wait until the form that edits is ready, with the caret in it."""
    expect(words(page)).to_be_focused()
    page.wait_for_load_state()


def take_back(chat: Chat) -> None:
    """Take the newest message back by its link and the button it leads to."""
    chat.last.hover()
    chat.last.get_by_role("link", name="Take back").click()
    chat.page.get_by_role("button", name="Take back from here").click()
    until_thread(chat)


def lines_of(page: Page) -> list[str]:
    """The lines of what was taken back."""
    return page.locator(".taken > summary").all_inner_texts()


def test_an_edit_and_an_undo_are_seen_in_both_tabs(
    chat: Chat, puppets: Puppets, another: Callable[[Chat], Chat]
) -> None:
    """What one tab edits and takes back is one line in the other at once, found there by what was asked, and both
    pages are what a reload shows (P9)."""
    other = another(chat)
    until_thread(other)
    edit(chat)
    words(chat.page).fill("Are you still there?")
    chat.page.get_by_role("button", name="Send").click()
    until_thread(chat)
    puppets.take().answer("Still here.")
    for tab in (chat, other):
        expect(tab.answer).to_have_text("Still here.")
        assert lines_of(tab.page) == ["1 turn taken back"]
        tab.until_same()
    take_back(other)
    for tab in (chat, other):
        tab.until(lines_of, ["2 turns taken back"])
        tab.until_same()
    chat.page.locator(".taken > summary").click()
    assert chat.page.locator(".taken a").all_inner_texts() == ["Are you there?", "Are you still there?"]
    chat.until_same()
    other.check()


@pytest.mark.parametrize("then", ["Send", "Cancel"])
def test_of_two_tabs_that_edit_a_message_both_keep_their_words(
    chat: Chat, puppets: Puppets, another: Callable[[Chat], Chat], then: str
) -> None:
    """The second edit of a message is refused beside its words, which stay and are sent, from there or from the
    thread's own field, as a message of their own (P4)."""
    other = another(chat)
    for tab, text in ((chat, "The first edit"), (other, "The second edit")):
        edit(tab)
        words(tab.page).fill(text)
    chat.page.get_by_role("button", name="Send").click()
    until_thread(chat)
    puppets.take().answer("One.")
    expect(chat.answer).to_have_text("One.")
    other.page.get_by_role("button", name="Send").click()
    expect(other.page.get_by_role("alert")).to_contain_text("already edited or taken back")
    expect(words(other.page)).to_have_value("The second edit")
    if then == "Cancel":
        other.page.get_by_role("link", name=then).click()
        until_thread(other)
        expect(other.composer).to_have_value("The second edit")
    other.page.get_by_role("button", name="Send").click()
    until_thread(other)
    puppets.take().answer("Two.")
    expect(chat.answer).to_have_text("Two.")
    expect(chat.last.locator(".ask .text")).to_have_text("The second edit")
    other.until_same()
    other.check()


def test_words_of_an_edit_survive_a_reload(chat: Chat, puppets: Puppets) -> None:
    """An edit whose answer was lost is there after a reload, open, and sent again it is the same one (P6, C03)."""
    edit(chat)
    words(chat.page).fill("Better words")
    chat.page.route("**/turns", lambda route: route.abort())
    words(chat.page).press("Enter")
    expect(chat.page.get_by_role("alert")).to_contain_text("Your text is kept")
    chat.page.goto(chat.page.url.partition("?")[0])
    chat.page.wait_for_load_state()
    expect(words(chat.page)).to_have_value("Better words")
    chat.page.unroute("**/turns")
    words(chat.page).press("Enter")
    until_thread(chat)
    puppets.take().answer("Better.")
    expect(chat.answer).to_have_text("Better.")
    assert asked(chat)[-1] == "Better words"


def test_without_scripts_refused_words_stand_on_the_page(
    browser_without_scripts: BrowserContext, server: Serving, puppets: Puppets
) -> None:
    """Without JavaScript the page that refuses an edit has its words, and sends them; what was taken back is opened."""
    thread = begin(server.url, puppets)
    page, api = browser_without_scripts.new_page(), f"{server.url}/api/threads/{thread}"
    page.goto(f"{server.url}/t/{thread}")
    page.get_by_role("link", name="Edit").click()
    words(page).fill("Better\nwords")
    turn = httpx.get(f"{api}/turns").json()["turns"][0]["turn"]
    httpx.post(f"{api}/truncate", json={"turn": turn}).raise_for_status()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name=EDITED)).to_be_visible()
    expect(page.get_by_role("textbox", name="What you wrote is here")).to_have_value("Better\nwords")
    page.get_by_role("button", name="Send as a new message").click()
    expect(page.locator("section.turn").last.locator(".ask .text")).to_have_text("Better\nwords")
    puppets.take().answer("Done.")
    page.locator(".taken > summary").click()
    page.get_by_role("link", name="Are you there?").click()
    expect(page.locator("main")).to_contain_text("This message was taken back.")


def test_a_title_that_is_refused_stays(chat: Chat) -> None:
    """A title that is too long stands on the page that says so, with the caret in it, and is saved from there."""
    page = chat.page
    page.get_by_text("Title and pin").click()
    page.get_by_role("textbox", name="Title").fill("x" * (TITLE_GIVEN_CHARS_MAX + 1))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="This title is too long")).to_be_visible()
    field = page.get_by_role("textbox", name="What you wrote is here")
    expect(field).to_be_focused()
    expect(field).to_have_value("x" * (TITLE_GIVEN_CHARS_MAX + 1))
    assert page.evaluate(NAMELESS) == []
    field.fill("Short")
    page.get_by_role("button", name="Save").click()
    until_thread(chat)
    expect(page.get_by_role("heading", level=1)).to_have_text("Short")
    expect(page.locator("#settings")).to_be_focused()


def test_all_is_changed_by_keys(chat: Chat, puppets: Puppets) -> None:
    """Without a mouse: the links beside a message show when they are reached, lead into the form and onto the button,
    and back: after a cancel to the turn, after a send to the thread, and what was taken back is opened and read."""
    page = chat.page
    link = chat.last.get_by_role("link", name="Edit")
    expect(chat.last.locator(".change")).to_have_css("opacity", "0")
    chat.composer.focus()
    tab_to(page, link, "Shift+Tab")
    expect(chat.last.locator(".change")).to_have_css("opacity", "1")
    page.keyboard.press("Enter")
    until_editing(page)
    tab_to(page, page.get_by_role("link", name="Cancel"), "Tab")
    page.keyboard.press("Enter")
    until_thread(chat)
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('.turn'))")
    tab_to(page, link, "Shift+Tab")
    page.keyboard.press("Enter")
    until_editing(page)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    until_thread(chat)
    puppets.take().answer("By keys, too.")
    expect(chat.answer).to_have_text("By keys, too.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the message box")).to_be_focused()
    tab_to(page, chat.last.get_by_role("link", name="Take back"), "Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Take back from here")).to_be_focused()
    page.keyboard.press("Enter")
    until_thread(chat)
    tab_to(page, page.locator(".taken > summary"), "Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Are you there?")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main .notice").first).to_contain_text("This message was taken back.")


def test_focus_stays_where_a_turn_was_taken_back(chat: Chat) -> None:
    """Who is in a turn that somebody else takes back goes on from the line that it has become."""
    chat.last.get_by_role("link", name="Open this turn").focus()
    api = chat.url.replace("/t/", "/api/threads/")
    turn = httpx.get(f"{api}/turns").json()["turns"][0]["turn"]
    httpx.post(f"{api}/truncate", json={"turn": turn}).raise_for_status()
    expect(chat.page.locator(".taken > summary")).to_be_focused()
    chat.until_same()


def test_what_changes_a_conversation_has_a_name(chat: Chat) -> None:
    """The links beside a message, the forms and the lines have names, and ids are unique, also on a turn's own page."""
    page = chat.page
    page.get_by_text("Title and pin").click()
    for name in ("Save title", "Pin"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    for name in ("Edit", "Take back", "Fork"):
        expect(chat.last.get_by_role("link", name=name)).to_have_count(1)
    edit(chat)
    expect(page.get_by_role("form", name="Edit this message")).to_be_visible()
    expect(page.get_by_role("region", name="Change the conversation")).to_be_visible()
    for name in ("Send", "Take back from here", "Fork: go on in a copy"):
        expect(page.get_by_role("button", name=name)).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("where", ["phone", "wide"])
def test_what_changes_a_turn_stands_by_it(browser: Browser, server: Serving, puppets: Puppets, where: str) -> None:
    """On a phone the links beside a message are in sight; the forms of a turn's own page stand below its answer, and
    what is said of one that was taken back keeps off the edges."""
    context = browser.new_context(**(PHONE if where == "phone" else {}))
    chat = Chat(context, server.url, begin(server.url, puppets))
    until_thread(chat)
    page = chat.page
    opacity = "1" if where == "phone" else "0"
    page.mouse.move(0, 0)
    expect(chat.last.locator(".change")).to_have_css("opacity", opacity)
    time, links = chat.last.locator(".who time").bounding_box(), chat.last.locator(".change").bounding_box()
    assert time
    assert links
    assert abs(time["y"] - links["y"]) < 6
    chat.last.get_by_role("link", name="Open this turn").click()
    page.wait_for_load_state()
    foot, forms = page.locator(".foot").bounding_box(), page.locator(".actions").bounding_box()
    assert foot
    assert forms
    assert forms["y"] - foot["y"] - foot["height"] < 40
    page.get_by_role("button", name="Take back from here").click()
    until_thread(chat)
    page.locator(".taken > summary").click()
    page.locator(".taken a").click()
    page.wait_for_load_state()
    notice = page.locator("main .notice").bounding_box()
    assert notice
    assert notice["x"] >= 12
    assert page.evaluate("[document.documentElement.scrollWidth]") == [page.evaluate("innerWidth")]
    chat.check()
    context.close()


def test_what_is_opened_stays_in_sight(chat: Chat) -> None:
    """The forms of a thread that are opened at the top of a page that nearly fits its window stay where they are."""
    chat.page.set_viewport_size({"width": 900, "height": 200})
    height = chat.page.evaluate("document.documentElement.scrollHeight")
    chat.page.set_viewport_size({"width": 900, "height": height - 60})
    chat.page.evaluate("scrollTo(0, 0)")
    chat.page.get_by_text("Title and pin").click()
    expect(chat.page.get_by_role("textbox", name="Title")).to_be_in_viewport(ratio=1)
    chat.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(chat.page.get_by_role("textbox", name="Title")).to_be_in_viewport(ratio=1)
    assert chat.page.evaluate("scrollY") == 0


def test_a_line_that_leaves_the_window_in_parts_tells_what_it_holds(chat: Chat, puppets: Puppets) -> None:
    """Turns that were taken back and leave the window one by one go to the earlier ones, and each line counts its
    own."""
    api = chat.url.replace("/t/", "/api/threads/")
    for number in range(30):
        httpx.post(f"{api}/turns", json={"content": f"Question {number}", "when_busy": "queue"}).raise_for_status()
        puppets.take().answer(f"Answer {number}.")
    expect(chat.answer).to_have_text("Answer 29.")
    second = httpx.get(f"{api}/turns").json()["turns"][-2]["turn"]
    httpx.post(f"{api}/truncate", json={"turn": second}).raise_for_status()
    chat.until(lines_of, ["30 turns taken back"])
    chat.page.get_by_role("link", name="Earlier turns").click()
    expect(chat.turns).to_have_count(31)
    for number in range(2):
        chat.send(f"More {number}")
        puppets.take().answer(f"More of {number}.")
        expect(chat.answer).to_have_text(f"More of {number}.")
        gone = ["1 turn taken back"] * (number + 1)
        assert lines_of(chat.page) == [*gone, f"{29 - number} turns taken back"]
    expect(chat.turns).to_have_count(33)
    chat.until_same()
