"""What a person reads stays where it is and as it is, whatever becomes of the turn meanwhile."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from .chat import Chat
from .puppet import Puppet, Puppets

GAP = "document.documentElement.scrollHeight - innerHeight - scrollY"
LONG = "Some text.\n\n" * 30
RESTED = """() => new Promise((done) => {
  let last = scrollY, same = 0;
  const look = () => {
    same = scrollY === last ? same + 1 : 0;
    last = scrollY;
    if (same > 5) done(scrollY);
    else requestAnimationFrame(look);
  };
  look();
})"""


def at_end(page: Page) -> bool:
    """Whether the window is at the end of the page, once it does not move any more."""
    page.evaluate(RESTED)
    return float(page.evaluate(GAP)) < 2


def steps(puppet: Puppet, count: int) -> None:
    """Take steps that have something to open."""
    for number in range(count):
        args = {"pattern": f"word {number}"}
        puppet.step(f"s{number}", step="tool", name="search", args=args, status="succeeded", output="found\n" * 9)


def test_who_is_at_the_end_stays_there_when_an_answer_is_replaced(chat: Chat, puppets: Puppets) -> None:
    """The trace of a replaced answer folds, and the page still follows: the new message and its answer are in view."""
    chat.send("First")
    first = puppets.take()
    steps(first, 8)
    first.draft(LONG)
    expect(chat.answer).to_contain_text("Some text.")
    chat.until(at_end, True)
    chat.send_instead("Urgent")
    second = puppets.take()
    expect(chat.turns.nth(-2)).to_have_attribute("data-state", "interrupted")
    chat.until(at_end, True)
    steps(second, 8)
    second.draft(LONG)
    expect(chat.answer).to_contain_text("Some text.")
    chat.until(at_end, True)
    expect(chat.page.locator("#newest")).to_be_hidden()


def test_what_one_sends_is_seen(chat: Chat, puppets: Puppets) -> None:
    """Who has scrolled up and sends something sees it, also while another answer is being written."""
    chat.send("First")
    puppet = puppets.take()
    puppet.draft(LONG + LONG)
    expect(chat.answer.locator("p")).to_have_count(60)
    chat.until(at_end, True)
    chat.page.mouse.move(400, 300)
    chat.page.mouse.wheel(0, -900)
    chat.until(at_end, False)
    chat.send("And then?")
    expect(chat.last.locator(".ask .text")).to_have_text("And then?")
    chat.until(at_end, True)
    expect(chat.last.locator(".ask .text")).to_be_in_viewport()


def test_a_jump_of_the_text_is_no_scrolling_of_a_person(chat: Chat, puppets: Puppets) -> None:
    """A scroll event that comes when much has been added since is no sign that somebody scrolled away."""
    chat.send("Jump")
    puppet = puppets.take()
    puppet.draft(LONG + LONG)
    expect(chat.answer.locator("p")).to_have_count(60)
    chat.until(at_end, True)
    grow = """() => {
      scrollTo({ top: scrollY - 20, behavior: "instant" });
      scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
      document.querySelector("#turns").lastElementChild.style.paddingBottom = "700px";
      return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }"""
    chat.page.evaluate(grow)
    chat.until(at_end, True)
    expect(chat.page.locator("#newest")).to_be_hidden()


def test_a_step_that_is_read_stays_as_it_is_when_the_turn_settles(chat: Chat, puppets: Puppets) -> None:
    """In a trace that a person opened nothing closes, loses the focus or is empty for a frame as its turn settles."""
    chat.send("Look")
    puppet = puppets.take()
    steps(puppet, 12)
    trace = chat.last.locator("details.trace")
    output = trace.locator(".step").nth(5).locator("details.io").last
    output.locator("summary").click()
    output.locator("pre").focus()
    chat.page.evaluate("""() => {
      window.fewest = 99;
      const rows = document.querySelector(".turn:last-child .steps");
      const look = () => {
        window.fewest = Math.min(window.fewest, rows.childElementCount);
        requestAnimationFrame(look);
      };
      look();
    }""")
    puppet.step("late", step="tool", name="search", status="running")
    with chat.page.expect_response("**/trace"):
        puppet.answer("Found.")
    expect(chat.last).to_have_attribute("data-state", "completed")
    expect(trace.locator(".tag-running")).to_have_count(0)
    expect(trace).to_have_attribute("open", "")
    expect(output).to_have_attribute("open", "")
    expect(output.locator("pre")).to_be_focused()
    assert chat.page.evaluate("window.fewest") >= 12
    chat.until_same()


def test_a_trace_does_not_fold_under_its_reader(chat: Chat, puppets: Puppets) -> None:
    """Who scrolled up into a running trace still reads the same step after the turn has settled."""
    chat.send("Look")
    puppet = puppets.take()
    steps(puppet, 40)
    chat.until(at_end, True)
    chat.page.mouse.move(400, 300)
    chat.page.mouse.wheel(0, -500)
    chat.until(at_end, False)
    top = "() => document.elementFromPoint(500, 300).closest('.step').id"
    chat.page.evaluate(RESTED)
    read = chat.page.evaluate(top)
    puppet.answer("Found.")
    expect(chat.last).to_have_attribute("data-state", "completed")
    chat.page.evaluate(RESTED)
    assert chat.page.evaluate(top) == read
    expect(chat.last.locator("details.trace")).to_have_attribute("open", "")


def test_a_trace_above_the_window_folds_without_moving_the_text(chat: Chat, puppets: Puppets) -> None:
    """A trace that lies above what is read folds as its turn settles, and what is read stays in its place."""
    chat.send("Look")
    puppet = puppets.take()
    steps(puppet, 20)
    paragraphs = "".join(f"Paragraph {number}.\n\n" for number in range(90))
    puppet.draft(paragraphs)
    expect(chat.answer).to_contain_text("Paragraph 89.")
    chat.until(at_end, True)
    chat.page.mouse.move(400, 300)
    chat.page.mouse.wheel(0, -700)
    chat.until(at_end, False)
    top = """() => {
      const p = document.elementFromPoint(400, 300);
      return [p.textContent, p.getBoundingClientRect().top];
    }"""
    chat.page.evaluate(RESTED)
    read = chat.page.evaluate(top)
    puppet.message(paragraphs)
    puppet.finish()
    expect(chat.last.locator("details.trace")).not_to_have_attribute("open", "")
    chat.page.evaluate(RESTED)
    text, place = chat.page.evaluate(top)
    assert (text, place) == (read[0], pytest.approx(read[1], abs=2))


FOCUSED = "() => document.activeElement.className || document.activeElement.tagName"


def test_the_focus_stays_in_the_turn_that_is_stopped_or_asked_again(chat: Chat, puppets: Puppets) -> None:
    """Stop and Retry go away when they are used; the focus is then on what the turn says of itself."""
    chat.send("Long")
    puppets.take().draft("I begin")
    expect(chat.answer).to_have_text("I begin")
    chat.page.get_by_role("button", name="Stop").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.last).to_have_attribute("data-state", "interrupted")
    notice = chat.last.locator(".notice")
    expect(notice).to_be_focused()
    chat.page.keyboard.press("Tab")
    expect(chat.page.get_by_role("button", name="Retry")).to_be_focused()
    chat.page.keyboard.press("Enter")
    puppets.take().answer("Again.")
    expect(chat.answer).to_have_text("Again.")
    expect(chat.turns.nth(-2).locator(".notice")).to_be_focused()
    chat.until_same()


def test_the_focus_stays_where_the_earlier_turns_came(chat: Chat, puppets: Puppets) -> None:
    """The link to earlier turns goes away; the focus is then on the turn that stood at the top."""
    api = chat.url.replace("/t/", "/api/threads/")
    for number in range(31):
        httpx.post(f"{api}/turns", json={"content": f"Question {number}", "when_busy": "queue"}).raise_for_status()
        puppets.take().answer(f"Answer {number}.")
    expect(chat.answer).to_have_text("Answer 30.")
    first = chat.turns.first.get_attribute("id")
    chat.page.get_by_role("link", name="Earlier turns").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.turns).to_have_count(32)
    expect(chat.page.locator(f"[id='{first}']")).to_be_focused()


def test_the_summary_of_a_running_trace_does_not_jump(chat: Chat, puppets: Puppets) -> None:
    """Whatever a step is about, the line above a running trace is one line, and its counts stand in one place."""
    chat.page.set_viewport_size({"width": 390, "height": 700})
    chat.send("Look")
    puppet = puppets.take()
    summary = chat.last.locator("details.trace > summary")
    heights, places = set(), set()
    for number, pattern in enumerate(("x", "a-long-pattern " * 12, "y" * 200)):
        puppet.step(f"s{number}", step="tool", name="search", args={"pattern": pattern}, status="running")
        expect(summary).to_contain_text(f"{number + 1} step")
        box, counts = summary.bounding_box(), summary.locator(".time").bounding_box()
        assert box
        assert counts
        heights.add(box["height"])
        places.add(counts["x"] + counts["width"])
    assert len(heights) == 1
    assert max(places) - min(places) < 2
