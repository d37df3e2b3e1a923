"""Every state a turn may be in has words, and what people wrote stays text."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.simulate import Simulator
from tests.web.page.dom import Page
from tests.web.page.test_frames import fresh, html
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Failure, Interrupted, Item, Reason, StepStatus
from turnlog.folds.nodes import EntryKind
from turnlog.web.page.naming import KIND_WORDS, argument, one_line
from turnlog.web.page.words import STATUS_WORDS, duration, queue_words

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "</section></main><script>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe",
    "a\x00b",
    "\ud83d",
    "&lt;b&gt;",
    "]]><!--",
)


def page(thread: Simulator) -> Page:
    return Page(html(fresh(thread.frames)))


@pytest.mark.parametrize("reason", get_args(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    """An interrupted turn says why it ended, what is unknown, and offers to ask again; who did not stop it is told that
    the message is safe."""
    thread = Simulator()
    thread.draft("partial text")
    work = thread._settle("interrupted", "interrupted", "interrupted")
    thread.event(Interrupted(reason=reason, detail="more of it", unknown_calls=["call_7"]), work.turn)
    notice = page(thread).find("notice-turn-1")
    assert ("Your message is safe." in notice.text) is (reason != "cancelled")
    assert reason.replace("_", " ") not in notice.text or reason in ("failed",)
    assert len(notice.text) > 80
    assert "The outcome of 1 call is unknown" in notice.text
    assert ("more of it" in notice.text) is (reason != "cancelled")
    (form,) = [node for node in notice.walk() if node.tag == "form"]
    assert form.attributes["action"] == "/t/t/turns/turn-1/retry"
    assert "Interrupted" in page(thread).find("mark-turn-1:0").text
    assert "partial text" in page(thread).find("msg-turn-1:0").text


def test_every_kind_and_status_has_words() -> None:
    """No entry of a trace is shown without the name of its kind and its status as text."""
    assert set(KIND_WORDS) == set(get_args(EntryKind))
    assert set(STATUS_WORDS) == set(get_args(StepStatus))


def test_states_show_what_can_be_done() -> None:
    """A waiting turn can be cancelled and a running one stopped; a settled one says when it ended."""
    thread = Simulator()
    thread.submit()
    thread.submit()
    thread.start()
    shown = page(thread)
    assert "Stop" in shown.find("notice-turn-1").text
    assert shown.find("answer-turn-1").attributes["aria-busy"] == "true"
    assert "Cancel" in shown.find("notice-turn-2").text
    assert "next in line" in shown.find("notice-turn-2").text
    thread.complete()
    shown = page(thread)
    assert "without an answer" in shown.find("foot-turn-1").text
    assert "No steps" in shown.find("notrace-turn-1").text


def test_a_row_says_what_went_wrong_without_being_opened() -> None:
    """A failed step names its target, its failure and what to do on the row itself; empty arguments are not shown."""
    thread = Simulator()
    thread.step("s", step="tool", name="read_file", args={"path": "src/c.py"}, status="running")
    thread.step("s", status="failed", failure=Failure(reason="no such file", next_step="check the name"))
    thread.step("e", step="tool", name="list", args={}, status="running")
    shown = page(thread)
    row = shown.find("row-turn-1:s")
    said = "".join(child.text for child in row.children if not isinstance(child, str) and child.tag == "p")
    assert "src/c.py" in said
    assert "no such file check the name" in said
    assert "Failed" in said
    assert not [node for node in shown.find("row-turn-1:e").walk() if node.tag == "details"]


@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=3), st.booleans())
def test_what_people_and_models_write_stays_text(parts: list[str], settle: bool) -> None:
    """No text of a person, a model, a tool or a file name becomes an element or an attribute of a page."""
    text = " ".join(parts)
    thread = Simulator()
    thread.submit(text)
    thread.draft(text)
    thread.step("s", step="tool", name=text, title=text, status="running", args=text, output=text, detail=text)
    thread.step("s", status="failed", failure=Failure(reason=text, next_step=text))
    thread.step(text, step="subagent", status="running", title=text)
    thread.loose("assistant", text)
    thread.loose("user", text)
    thread.event(Item(type=text, raw=encode_json({"type": text, "role": text, "content": text})), "turn-1")
    if settle:
        thread.interrupt()
    for node in page(thread).thread.walk():
        assert node.tag not in {"script", "img", "svg", "style", "iframe"}
        assert not [name for name in node.attributes if name.startswith("on") or name == "style"]
    assert "<script" not in html(fresh(thread.frames)).lower()


def test_names_times_and_places_in_words() -> None:
    """Durations, places in the line, targets and long names are short and plain."""
    assert [duration(0, end) for end in (5_000, 12_345_678, 133_000_000, 7_380_000_000)] == [
        "5 ms",
        "12.3 s",
        "2 m 13 s",
        "2 h 3 m",
    ]
    assert duration(10, 5) == duration(None, 5) == ""
    assert [queue_words(place) for place in (0, 1, 2, 3, 11, 21)] == [
        "About to start",
        "Waiting, next in line",
        "Waiting, 2nd in line",
        "Waiting, 3rd in line",
        "Waiting, 11th in line",
        "Waiting, 21st in line",
    ]
    assert argument('{"path":"a.py","mode":"r"}') == "a.py"
    assert argument('{"command":["ls","-l"]}') == "ls -l"
    assert argument('{"a":1,"b":2}') is None
    assert argument('{"path":"a') is None
    assert argument("[" * 5_000) is None
    assert len(one_line("word " * 100)) <= 120
