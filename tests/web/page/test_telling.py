"""What a person is told of a turn is in words: no id, no name of a record or of a program, and it can be acted on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.folds.simulate import Simulator
from tests.web.page.dom import Node, Page
from tests.web.page.test_frames import fresh, html
from turnlog.events.kinds import Event, Interrupted, Requested
from turnlog.folds.timeline import Timeline
from turnlog.web.page.fragments import Place, Rows
from turnlog.web.page.markup import page_html
from turnlog.web.page.view import rows_of

NEXT = "20261130T120000.000000Z-0123456789abcdef"
"""The id of another turn."""


def page(thread: Simulator) -> Page:
    return Page(html(fresh(thread.frames)))


def has(shown: Page, id_: str) -> bool:
    return any(node.id == id_ for node in shown.root.walk())


def trace(thread: Simulator, turn: str = "turn-1") -> Page:
    """The rows of the trace as the turn's own page has them."""
    fold = Timeline(turn)
    for frame in thread.frames:
        if isinstance(frame, Event):
            fold.event(frame)
        else:
            fold.draft(frame)
    return Page(page_html(Rows(Place("t", turn), turn).elements(rows_of(fold.view().entries))))


def end(thread: Simulator, **how: Any) -> None:
    work = thread._settle("interrupted", "interrupted", "interrupted")
    thread.event(Interrupted(**how), work.turn)


def forms(node: Node) -> list[tuple[str, str, str]]:
    """(where to, value, what its button says) of each form."""
    return [
        (
            form.attributes["action"],
            next((it.attributes["value"] for it in form.walk() if it.attributes.get("name") == "value"), ""),
            form.text,
        )
        for form in node.walk()
        if form.tag == "form"
    ]


def test_unknown_calls_are_named() -> None:
    """The calls whose outcome is unknown are told by their name and what they were for, not by their ids."""
    thread = Simulator()
    thread.step(
        "call_7Q", step="tool", name="search_files", args={"pattern": "secrets", "path": "src"}, status="running"
    )
    thread.step("call_8Q", step="tool", name="run", title="make limits", status="running")
    end(thread, reason="process_died", unknown_calls=["call_7Q", "call_8Q", "call_9Q"])
    notice = page(thread).find("notice-turn-1").text
    assert "search_files secrets" in notice
    assert "run make limits" in notice
    assert "3 calls" in notice
    assert "and 1 more" in notice
    assert "call_" not in notice


def waiting() -> Simulator:
    thread = Simulator()
    thread.step("c", step="tool", name="shell", status="running")
    thread.step(
        "approval/1",
        step="approval",
        name="item/command/requestApproval",
        title="May this command run?",
        detail="outside of the folder",
        args={"command": "rm -r build", "decisions": ["accept", "decline"]},
        status="waiting",
    )
    return thread


def test_a_decision_is_asked_for() -> None:
    """A turn that waits for a person says so with all that is to be decided, in its notice and its summary, and can be
    answered there; decided, it goes on."""
    thread = waiting()
    shown = page(thread)
    notice = shown.find("notice-turn-1")
    for told in ("Waiting for your decision", "May this command run?", "outside of the folder", "rm -r build"):
        assert told in notice.text
    assert "Answering" not in notice.text
    assert "Waiting for your decision: May this command run?" in shown.find("sum-turn-1").text
    to = "/t/t/turns/turn-1/decisions/~YXBwcm92YWwvMQ"
    assert forms(notice) == [
        (to, "accept", "Approve"),
        (to, "decline", "Decline"),
        ("/t/t/turns/turn-1/interrupt", "", "Stop"),
    ]
    row = shown.find(f"row-turn-1:{to.rpartition('/')[2]}").text
    assert "May this command run?" in row
    assert "outside of the folder" in row
    assert "requestApproval" not in row
    thread.request("approval/1")
    notice = page(thread).find("notice-turn-1")
    assert "Answering" in notice.text
    assert len(forms(notice)) == 1


@pytest.mark.parametrize("args", [{"decisions": []}, {"questions": [{"id": "q"}], "decisions": ["accept", "decline"]}])
def test_what_yes_and_no_do_not_answer_gets_no_such_buttons(args: dict[str, Any]) -> None:
    """What asks for more than yes or no is not offered them, and what is being stopped is not asked."""
    thread = Simulator()
    thread.step("q", step="approval", title="Which one?", args=args, status="waiting")
    notice = page(thread).find("notice-turn-1")
    assert [label for _, _, label in forms(notice)] == ["Stop"]
    assert "turnlog decide" in notice.text
    thread.request()
    assert "Stopping" in page(thread).find("notice-turn-1").text
    assert not forms(page(thread).find("notice-turn-1"))


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("interrupted by the page", "You stopped it."),
        (f"replaced by {NEXT}", "You asked something else instead."),
        (f"replaced by {NEXT}; 3 more calls have an unknown outcome", "You asked something else instead."),
        ("the server was stopped", "The server was stopped."),
        ("interrupted by Ctrl-C", "It was stopped."),
        (None, "It was stopped."),
    ],
)
def test_who_stopped_it_is_told_so(detail: str | None, words: str) -> None:
    """A turn that was asked to end says who asked and nothing else, in its notice and in its trace, without an id or
    an internal word."""
    thread = Simulator()
    thread.step("s", step="tool", name="look", status="succeeded")
    thread.draft("some text")
    thread.event(Requested(what="interrupt", by=(detail or "").removeprefix("interrupted by ") or None), "turn-1")
    end(thread, reason="cancelled", detail=detail)
    notice = page(thread).find("notice-turn-1").text
    assert notice == f"{words} What was shown is kept.Retry"
    rows = trace(thread).root.text
    for internal in ("interrupt_requested", "cancelled", "the page", NEXT, "replaced by"):
        assert internal not in rows
    assert f"Note {words} Interrupted" in rows


def test_a_turn_that_never_began_says_so() -> None:
    """A turn that was taken out of the line was cancelled before it began, and has no trace to look for."""
    thread = Simulator()
    for _ in range(2):
        thread.submit()
    thread.start()
    thread.event(Interrupted(reason="cancelled", detail="interrupted by the page"), "turn-2")
    shown = page(thread)
    assert shown.find("notice-turn-2").text == "It was cancelled before it began.Retry"
    assert not has(shown, "notrace-turn-2")
    assert not has(shown, "trace-turn-2")


def test_an_end_by_itself_is_told_with_its_detail() -> None:
    """A turn that failed says why in the agent's own words, in its notice and in the note of its trace, which names no
    record and is no failure of its own."""
    thread = Simulator()
    thread.step("s", step="tool", name="look", status="succeeded")
    end(thread, reason="failed", detail="the model said no")
    shown = page(thread)
    assert "Your message is safe. The agent failed." in shown.find("notice-turn-1").text
    assert "the model said no" in shown.find("notice-turn-1").text
    assert "1 step" in shown.find("sum-turn-1").text
    assert "Note The agent failed. Interruptedthe model said no" in trace(thread).root.text


def test_the_answer_is_no_row_of_its_trace() -> None:
    """While there is nothing but the answer a turn has no trace to open, only a line that it works; the answer's text
    stands in the answer alone, also when a trace is there."""
    thread = Simulator()
    thread.draft("the answer's text")
    shown = page(thread)
    assert "Working" in shown.find("working-turn-1").text
    assert not has(shown, "trace-turn-1")
    assert shown.thread.text.count("the answer's text") == 1
    thread.step("s", step="tool", name="look", status="succeeded")
    shown = page(thread)
    assert not has(shown, "working-turn-1")
    assert "1 step" in shown.find("sum-turn-1").text
    assert shown.thread.text.count("the answer's text") == 1
    thread.complete()
    assert "the answer's text" not in trace(thread).root.text


def test_a_list_runs_the_way_its_text_does() -> None:
    """Lists, quotations and tables of an answer are each laid out in the direction of their own text."""
    thread = Simulator()
    thread.draft("hello\n\n- שלום\n  1. hi\n\n> שלום\n\n|א|ב|\n|-|-|\n|ג|ד|\n\n")
    blocks = [
        node for node in page(thread).find("msg-turn-1:0").walk() if node.tag in ("ul", "ol", "blockquote", "table")
    ]
    assert [node.tag for node in blocks] == ["ul", "ol", "blockquote", "table"]
    assert {node.attributes.get("dir") for node in blocks} == {"auto"}


def test_what_was_dropped_stays_a_row() -> None:
    """Text of an attempt that was given up stands in the trace, as it stands nowhere else (P4)."""
    thread = Simulator()
    thread.draft("a first try")
    thread.drop_attempt()
    thread.draft("a second one")
    shown = page(thread)
    assert "a first try" in shown.find("steps-turn-1").text
    assert "a second one" not in shown.find("steps-turn-1").text
    assert "attempt_dropped" not in shown.thread.text


def test_regions_and_answers_have_names() -> None:
    """A turn is a region named by the beginning of its question, and its answer has a heading, where there is one."""
    thread = Simulator()
    thread.submit("What is\nthis " + "very " * 50)
    thread.start()
    assert not has(page(thread), "said-turn-1")
    thread.draft("It is a log.")
    shown = page(thread)
    label = shown.find("turn-turn-1").attributes["aria-label"]
    assert label.startswith("What is this very")
    assert len(label) <= 80
    assert (shown.find("said-turn-1").tag, shown.find("said-turn-1").text) == ("h2", "Answer")


def test_only_the_answer_is_no_row() -> None:
    """A message inside of a step is a row: it is not the answer."""
    thread = Simulator()
    thread.step("agent", step="subagent", name="explorer", status="running")
    thread.draft("said inside", target="agent")
    assert "said inside" in trace(thread).root.text
