"""The main job in a browser: ask, watch the answer come, see what became of it."""

from __future__ import annotations

import random

from playwright.sync_api import expect

from .chat import Chat
from .puppet import Puppet, Puppets

WORDS = (
    "A *log* keeps what `happened`. ",
    "## A heading\n\n",
    "- one\n- two\n\n",
    "```python\nx = 1  # a comment\n",
    "print(x)\n```\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "> quoted\n\n",
    "a paragraph that goes on ",
    "[a link](https://example.org) ",
    "<b>no HTML</b> &amp; ",
    "\n\n",
)


def test_a_question_is_answered_without_a_reload(chat: Chat, puppets: Puppets) -> None:
    """A message that is sent shows at once, its answer grows as it is written, and the page is not loaded again."""
    chat.page.evaluate("window.mark = 1")
    chat.send("What is a fence?")
    puppet = puppets.take()
    expect(chat.last.locator(".ask .text")).to_have_text("What is a fence?")
    puppet.draft("A fence is ")
    expect(chat.answer).to_have_text("A fence is")
    puppet.draft("a *number*.")
    expect(chat.answer.locator("em")).to_have_text("number")
    puppet.message("A fence is a *number*.")
    puppet.finish()
    expect(chat.last).to_have_attribute("data-state", "completed")
    expect(chat.composer).to_have_value("")
    assert chat.page.evaluate("window.mark") == 1
    chat.until_same()


def test_the_live_page_is_the_reloaded_one_at_any_moment(chat: Chat, puppets: Puppets) -> None:
    """Whatever is written, at each moment the live page equals one that is loaded then (P9, C39)."""
    rng = random.Random(3)
    for turn in range(2):
        chat.send(f"Question {turn}")
        puppet = puppets.take()
        said = ""
        for moment in range(10):
            said += speak(puppet, rng, moment)
            chat.until_same()
        puppet.message(said) if rng.random() < 0.5 else puppet.message("Something else.")
        chat.until_same()
        puppet.finish()
        expect(chat.last).to_have_attribute("data-state", "completed")
        chat.until_same()


def speak(puppet: Puppet, rng: random.Random, moment: int) -> str:
    """Say some text or take a step; the text."""
    if rng.random() < 0.3:
        puppet.step(f"s{moment // 2}", step="tool", name="search", args={"pattern": "x"}, status="running")
        return ""
    if rng.random() < 0.1:
        puppet.draft("thinking ", kind="reasoning", target="r")
        return ""
    text = "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 4)))
    puppet.draft(text, target="m")
    return text


def test_a_trace_opens_while_it_runs_and_loads_when_it_is_opened(chat: Chat, puppets: Puppets) -> None:
    """The trace is open while the turn runs, folds itself up at its end, and has its rows when it is opened again."""
    chat.send("Look")
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", args={"pattern": "fence"}, status="running")
    trace = chat.last.locator("details.trace")
    expect(trace.locator(".step .name")).to_have_text("search")
    expect(trace).to_have_attribute("open", "")
    puppet.step("s", status="succeeded", output="docs/format.md:12")
    puppet.answer("Found.")
    expect(trace).not_to_have_attribute("open", "")
    trace.locator("summary").first.click()
    expect(trace.locator(".step-succeeded .name").first).to_have_text("search")
    chat.until_same()


def test_a_trace_that_was_opened_by_hand_stays_open(chat: Chat, puppets: Puppets) -> None:
    """What a person opened stays open when the turn settles, and shows the settled rows."""
    chat.send("Look")
    puppet = puppets.take()
    puppet.step("s", step="tool", name="search", status="running")
    trace = chat.last.locator("details.trace")
    summary = trace.locator("summary").first
    expect(trace.locator(".tag-running").first).to_be_visible()
    summary.click()
    expect(trace).not_to_have_attribute("open", "")
    summary.click()
    puppet.fail("no more")
    expect(chat.last).to_have_attribute("data-state", "interrupted")
    expect(trace).to_have_attribute("open", "")
    expect(trace.locator(".step .tag").first).to_have_text("Outcome unknown")


def test_stop_ends_the_turn_and_keeps_what_was_shown(chat: Chat, puppets: Puppets) -> None:
    """Stop interrupts the turn: what was shown stays, marked, with a notice and a way to ask again."""
    chat.send("Tell me much")
    puppet = puppets.take()
    puppet.draft("Once upon")
    expect(chat.answer).to_have_text("Once upon")
    chat.page.get_by_role("button", name="Stop").click()
    expect(chat.last).to_have_attribute("data-state", "interrupted")
    expect(chat.answer).to_contain_text("Once upon")
    expect(chat.last.locator(".notice")).to_contain_text("You stopped it.")
    chat.until_same()
    chat.page.get_by_role("button", name="Retry").click()
    puppets.take().answer("Here it is.")
    expect(chat.answer).to_have_text("Here it is.")
    chat.until_same()


def test_a_second_message_waits_or_replaces(chat: Chat, puppets: Puppets) -> None:
    """While an answer is written, a message waits in line, or ends that answer and is asked instead, as is chosen."""
    choice = chat.page.get_by_role("group", name="While an answer is being written")
    expect(choice).to_be_hidden()
    chat.send("First")
    first = puppets.take()
    first.draft("I begin")
    chat.composer.fill("Second")
    expect(choice).to_be_visible()
    chat.send("Second")
    expect(chat.last.locator(".notice")).to_contain_text("next in line")
    chat.until_same()
    first.answer(" and end.")
    puppets.take().answer("And this is the second.")
    expect(chat.answer).to_have_text("And this is the second.")
    expect(choice).to_be_hidden()

    chat.send("Third")
    puppets.take().draft("Never to be")
    chat.composer.fill("Fourth")
    choice.get_by_label("Stop this answer and what waits, and send now").check()
    chat.composer.press("Enter")
    puppets.take().answer("Instead.")
    expect(chat.answer).to_have_text("Instead.")
    expect(chat.turns.nth(-2)).to_have_attribute("data-state", "interrupted")
    chat.until_same()
