"""The timeline fold, case by case."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.simulate import Simulator, events_of
from turnlog.errors import RecordDamaged
from turnlog.events.codec import encode_json
from turnlog.events.ids import text_bytes
from turnlog.events.kinds import Damaged, Draft, Event, Failure, Interrupted, Item, Step, ThreadLate, Unknown
from turnlog.folds.entries import Entry, TimelineView, cut
from turnlog.folds.timeline import Timeline
from turnlog.limits import VIEW_TEXT_BYTES_MAX


def started() -> Simulator:
    simulator = Simulator()
    simulator.submit()
    simulator.start()
    return simulator


def view(simulator: Simulator, turn: str = "turn-1") -> TimelineView:
    timeline = Timeline(turn)
    for frame in simulator.frames:
        if isinstance(frame, Draft):
            timeline.draft(frame)
        else:
            timeline.event(frame)
    return timeline.view()


def entries(simulator: Simulator) -> dict[str, Entry]:
    return {entry.id: entry for entry in view(simulator).entries}


def shown(simulator: Simulator) -> list[tuple[str, Any, str]]:
    return [(entry.kind, entry.text or entry.output or entry.args, entry.status) for entry in view(simulator).entries]


def test_the_agents_form_of_a_submission_is_no_entry() -> None:
    """What the person said stands above the trace; the form in which the agent gives it back is no step of its work."""
    simulator = started()
    raw = encode_json({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "question"}]})
    simulator.event(Item(type="message", purpose="submission", raw=raw), "turn-1")
    simulator.message("answer")
    assert [entry.kind for entry in view(simulator).entries] == ["message"]


@pytest.mark.parametrize("type_", ["message", "reasoning"])
def test_a_summary_made_for_itself_is_a_note(type_: str) -> None:
    """What an agent made for itself in a compaction is a note of the trace, and no answer of the turn."""
    simulator = started()
    raw = encode_json({"type": type_, "role": "assistant", "content": [{"type": "output_text", "text": "all of it"}]})
    simulator.event(Item(type=type_, purpose="compaction", raw=raw), "turn-1")
    seen = view(simulator)
    (entry,) = seen.entries
    assert (entry.kind, entry.name, entry.text, entry.status) == ("note", "compaction", "all of it", "succeeded")
    assert seen.turn.answer is None


# --- merging ---------------------------------------------------------------------------------------------------------


def test_call_output_and_step_are_one_entry() -> None:
    """A call item, its output item and a step of that call id are one tool entry (C22)."""
    simulator = started()
    seq = simulator.call("c1", "fc_1")
    simulator.step("s1", call_id="c1", step="tool", status="running", title="Listing src/")
    simulator.output("c1", "a.py")
    simulator.step("s1", status="succeeded", ended_at=77)
    (entry,) = view(simulator).entries
    assert (entry.kind, entry.name, entry.title, entry.status) == ("tool", "tool", "Listing src/", "succeeded")
    assert (entry.args, entry.output, entry.call_id, entry.item, entry.ended_at) == (
        '{"final":1}',
        "a.py",
        "c1",
        seq,
        77,
    )


def test_a_step_whose_id_is_the_call_id_is_that_call() -> None:
    """A step needs no call id of its own when its id is the call's."""
    simulator = started()
    simulator.step("c1", step="tool", status="running")
    simulator.call("c1")
    assert [entry.id for entry in view(simulator).entries] == ["c1"]


def test_a_step_that_learns_its_call_later_joins_it() -> None:
    """When a step names its call only after both were shown, the earlier entry goes on, with all facts of both."""
    simulator = started()
    simulator.step("s1", step="tool", status="running", title="Reading")
    simulator.call("c1")
    simulator.step("s1", call_id="c1", status="succeeded")
    (entry,) = view(simulator).entries
    assert (entry.id, entry.title, entry.args, entry.status) == ("s1", "Reading", '{"final":1}', "succeeded")


@pytest.mark.parametrize("call_id", ["call_0", "", None])
def test_reused_call_ids_are_told_apart(call_id: str | None) -> None:
    """A provider that gives every call the same id, or none, still gets an entry a call, each with its own output."""
    simulator = started()
    for number in range(3):
        simulator.call(call_id)
        simulator.output(call_id, f"output {number}")
    assert [(e.output, e.status) for e in view(simulator).entries] == [(f"output {n}", "succeeded") for n in range(3)]


def test_parallel_calls_of_one_id_are_answered_in_order() -> None:
    """Of two unanswered calls with one id, the first output belongs to the first."""
    simulator = started()
    simulator.call("c")
    simulator.call("c")
    simulator.output("c", "one")
    simulator.output("c", "two")
    assert [entry.output for entry in view(simulator).entries] == ["one", "two"]


def test_a_new_attempt_does_not_answer_the_old_ones_calls() -> None:
    """After a dropped attempt, an output belongs to the newest call of its id."""
    simulator = started()
    simulator.call("c")
    simulator.drop_attempt()
    simulator.call("c")
    simulator.output("c", "mine")
    calls = [entry for entry in view(simulator).entries if entry.kind == "tool"]
    assert [entry.output for entry in calls] == [None, "mine"]


def test_a_reused_step_id_keeps_the_earlier_entry() -> None:
    """A step that runs again after it was over is a new entry: the earlier output is not overwritten."""
    simulator = started()
    for number in range(2):
        simulator.step("call_0", step="tool", status="running")
        simulator.step("call_0", status="succeeded", output=f"output {number}")
    found = view(simulator).entries
    assert [entry.output for entry in found] == ["output 0", "output 1"]
    assert len({entry.id for entry in found}) == 2


def test_empty_fields_never_erase() -> None:
    """Absent fields of a step keep their value, and an empty one never erases."""
    simulator = started()
    simulator.step("s", step="tool", status="running", title="T", output="out", args={"a": 1}, text="said")
    simulator.step("s", title="", output="", args={}, text="")
    (entry,) = view(simulator).entries
    assert (entry.title, entry.output, entry.args, entry.text) == ("T", "out", '{"a":1}', "said")


def test_hosted_calls_come_with_their_outcome() -> None:
    """A call that the model's own side carries out awaits no output, and is not unknown when the turn ends (P3)."""
    simulator = started()
    raw = encode_json({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}})
    simulator.event(Item(type="web_search_call", id="ws_1", raw=raw), "turn-1")
    simulator.interrupt()
    entry = view(simulator).entries[0]
    assert (entry.name, entry.args, entry.status) == ("web_search", '{"query":"q"}', "succeeded")


# --- order and drafts ------------------------------------------------------------------------------------------------


def test_interleaving_survives() -> None:
    """Text, thinking, tool, text, tool, text stay in that order, with their kinds, open or closed (C22)."""
    simulator = started()
    simulator.draft("one")
    simulator.draft("hm", kind="reasoning")
    simulator.call("c1")
    simulator.output("c1", "r1")
    simulator.draft("two")
    simulator.call("c2")
    simulator.draft("three")
    order = [("message", "one"), ("reasoning", "hm"), ("tool", "r1"), ("message", "two"), ("tool", '{"final":1}')]
    assert [(kind, text) for kind, text, _ in shown(simulator)] == [*order, ("message", "three")]
    simulator.message("ONE")
    simulator.message("TWO")
    simulator.reasoning("HM")
    simulator.complete()
    closed = [("message", "ONE"), ("reasoning", "HM"), ("tool", "r1"), ("message", "TWO"), ("tool", '{"final":1}')]
    assert [(kind, text) for kind, text, _ in shown(simulator)] == [*closed, ("message", "three")]


def test_order_is_seq_whatever_the_clock_says() -> None:
    """Equal and backward times change no order and raise nothing (C09)."""
    simulator = started()
    for number in range(50):
        simulator.clock = 5_000 if number % 2 else 5_000 - 7_200_000_000
        simulator.step(f"s{number}", step="tool", status="succeeded")
    assert [entry.id for entry in view(simulator).entries] == [f"s{number}" for number in range(50)]


def test_the_final_items_text_wins_and_the_entry_stays() -> None:
    """The item that closes a draft gives the text; the entry keeps the draft's id and place (P2)."""
    simulator = started()
    draft = simulator.draft("draf", "msg_1")
    place = [(e.id, e.seq, e.rev) for e in view(simulator).entries]
    seq = simulator.message("final", "msg_1")
    (entry,) = view(simulator).entries
    assert (entry.id, entry.text, entry.item, entry.draft) == (draft, "final", seq, False)
    assert [(entry.id, entry.seq, entry.rev)] == place


def test_parts_of_one_item_are_one_entry() -> None:
    """Drafts that differ in their part alone are one entry, the parts in order."""
    simulator = started()
    simulator.draft("second", "rs_1", "reasoning", 1)
    simulator.draft("first", "rs_1", "reasoning", 0)
    (entry,) = view(simulator).entries
    assert entry.text == "first\n\nsecond"


def test_arguments_and_output_stream_into_the_call() -> None:
    """Drafts of arguments and of output fill the tool entry of their call, which they create when it is not there."""
    simulator = started()
    id_ = simulator.draft('{"pa', "c1", "args")
    assert [(e.id, e.kind, e.args, e.status, e.draft) for e in view(simulator).entries] == [
        (id_, "tool", '{"pa', "running", True)
    ]
    simulator.call("c1")
    simulator.draft("line 1\n", "c1", "output")
    assert [(e.id, e.args, e.output) for e in view(simulator).entries] == [(id_, '{"final":1}', "line 1\n")]


def test_a_chunk_replaces_from_its_offset() -> None:
    """A chunk is applied as text[:offset] + chunk, so that one sent twice does no harm."""
    simulator = started()
    simulator.draft("hello")
    chunk = simulator.frames[-1]
    assert isinstance(chunk, Draft)
    simulator.frames += [chunk, chunk]
    assert entries(simulator)[chunk.draft].text == "hello"


def test_a_chunk_of_a_closed_draft_is_the_past() -> None:
    """A chunk that a reader gets after the event that closed its draft opens nothing again (P9)."""
    simulator = started()
    simulator.draft("hello")
    chunk = simulator.frames[-1]
    simulator.message("hello!")
    before = view(simulator)
    simulator.frames.append(chunk)
    assert view(simulator) == before


def test_halves_of_a_character_meet() -> None:
    """An emoji cut between its UTF-16 halves is whole again; a lone half stays as it is and nothing raises (C19)."""
    simulator = started()
    simulator.draft("\ud83d", "m")
    simulator.draft("\ude00", "m")
    lone = simulator.draft("\ud83d", "n")
    assert [entry.text for entry in view(simulator).entries] == ["\U0001f600", "\ud83d"]
    simulator.complete()
    assert entries(simulator)[lone].text == "\ud83d"


def test_a_dropped_attempt_stays_in_the_trace() -> None:
    """Text of a given-up attempt stays where it was, marked as dropped, beside the next attempt's; a note says why."""
    simulator = started()
    first = simulator.draft("first try")
    simulator.drop_attempt()
    second = simulator.draft("second try")
    found = [(e.id, e.text, e.mark, e.status) for e in view(simulator).entries if e.name is None]
    assert found == [(first, "first try", "dropped", "interrupted"), (second, "second try", None, "running")]
    assert ("stream lost", "dropped") in [(e.title, e.mark) for e in view(simulator).entries]


# --- nesting ---------------------------------------------------------------------------------------------------------


def three_levels() -> Simulator:
    simulator = started()
    simulator.call("c1")
    simulator.step("A", step="subagent", parent="c1", status="running", title="a")
    simulator.step("B", step="subagent", parent="A", status="running", title="b")
    simulator.step("b/tool:1", step="tool", parent="B", status="running")
    simulator.draft("thinking aloud", "B")
    return simulator


def test_three_levels_nest_and_settle_at_every_level() -> None:
    """Sub-agents nest to any depth, live and after a crash, and none of them stays running (C23, C42)."""
    simulator = three_levels()
    simulator.interrupt()
    found = {e.id: (e.parent, e.status) for e in view(simulator).entries if e.kind != "note"}
    call = next(e.id for e in view(simulator).entries if e.call_id == "c1")
    assert found == {
        call: (None, "unknown"),
        "A": (call, "interrupted"),
        "B": ("A", "interrupted"),
        "b/tool:1": ("B", "unknown"),
        "0/B/text/0": ("B", "interrupted"),
    }


def test_text_inside_a_step_stays_an_entry_when_the_step_settles() -> None:
    """Text streamed inside a sub-agent stays where it was when the sub-agent's step takes it over (P2)."""
    simulator = three_levels()
    simulator.step("B", status="succeeded")
    entry = entries(simulator)["0/B/text/0"]
    assert (entry.kind, entry.parent, entry.text, entry.status) == ("message", "B", "thinking aloud", "succeeded")


def test_orphans_go_to_the_turn() -> None:
    """A child whose parent never comes is appended to the turn, and is nested once it does come (C23)."""
    simulator = started()
    simulator.step("child", step="tool", parent="late parent", status="succeeded")
    assert entries(simulator)["child"].parent is None
    simulator.step("late parent", step="subagent", status="running")
    assert entries(simulator)["child"].parent == "late parent"


def test_a_cycle_of_parents_loses_nothing() -> None:
    """Steps that name each other as parents are all shown, the first of them at the turn (C23)."""
    simulator = started()
    for child, parent in (("a", "c"), ("b", "a"), ("c", "b"), ("self", "self"), ("tail", "b")):
        simulator.step(child, step="subagent", parent=parent, status="running")
    found = {entry.id: entry.parent for entry in view(simulator).entries}
    assert found == {"a": None, "b": "a", "c": "b", "self": None, "tail": "b"}


@pytest.mark.parametrize("id_", ["#5", "~x", "0/~0/text/0", "../x", "a\nb", "\x00", "\ud800"])
def test_ids_are_opaque(id_: str) -> None:
    """A step id of any shape makes an entry of its own, never taken for the id of an item or a draft (C23)."""
    simulator = started()
    simulator.draft("anonymous")
    simulator.call(None)
    simulator.step(id_, step="subagent", status="running")
    simulator.step("child", step="tool", parent=id_, status="running")
    found = view(simulator).entries
    assert len({entry.id for entry in found}) == 4
    parent = next(entry for entry in found if entry.kind == "subagent")
    assert next(entry for entry in found if entry.id == "child").parent == parent.id


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_call_without_output_is_unknown() -> None:
    """A call whose output was not recorded is neither succeeded nor failed, however the turn ended (P3, C42)."""
    for end in ("interrupt", "complete"):
        simulator = started()
        simulator.call("c1")
        simulator.draft("half a line", "c1", "output")
        getattr(simulator, end)()
        entry = view(simulator).entries[0]
        assert (entry.status, entry.output) == ("unknown", "half a line")


def test_partial_arguments_are_an_interrupted_step() -> None:
    """A crash in mid tool arguments leaves them in the trace as interrupted: no call was issued (C28)."""
    simulator = started()
    id_ = simulator.draft('{"path":"/tm', "c1", "args")
    simulator.interrupt()
    entry = entries(simulator)[id_]
    assert (entry.kind, entry.args, entry.status) == ("tool", '{"path":"/tm', "interrupted")


def test_arguments_and_output_left_open_settle_as_one_entry() -> None:
    """What was one entry while it streamed is one entry after the end (P9)."""
    simulator = started()
    id_ = simulator.draft("args", "c1", "args")
    simulator.draft("output", "c1", "output")
    simulator.interrupt()
    tools = [(e.id, e.args, e.output) for e in view(simulator).entries if e.kind == "tool"]
    assert tools == [(id_, "args", "output")]


def test_a_waiting_approval_settles() -> None:
    """An approval nobody decided is interrupted with its turn; a decided one says what was decided (P3)."""
    simulator = started()
    simulator.step("ask1", step="approval", status="waiting")
    simulator.step("ask2", step="approval", status="waiting")
    simulator.request("ask2")
    simulator.interrupt()
    found = entries(simulator)
    assert (found["ask1"].status, found["ask1"].output) == ("interrupted", None)
    assert (found["ask2"].status, found["ask2"].output) == ("succeeded", "yes")


def test_partial_text_is_marked() -> None:
    """Text that a crash cut is kept, interrupted, and marked as synthesized beside it (P3, C28)."""
    simulator = started()
    id_ = simulator.draft("half an ans")
    simulator.interrupt()
    entry = entries(simulator)[id_]
    assert (entry.text, entry.status, entry.synthesized) == ("half an ans", "interrupted", "interrupted")


def test_the_end_says_why() -> None:
    """An interrupted turn ends its trace with a note of reason and detail."""
    simulator = started()
    simulator.event(Interrupted(reason="timed_out", detail="silent for 300 s"), "turn-1")
    last = view(simulator).entries[-1]
    assert (last.kind, last.title, last.text, last.failure) == (
        "note",
        "timed_out",
        "silent for 300 s",
        Failure(reason="timed_out"),
    )


def test_late_events_are_shown_and_change_nothing() -> None:
    """What comes after the end is a note marked late and named in the row; all else of both stays (P5)."""
    simulator = started()
    simulator.step("s", step="tool", status="succeeded")
    simulator.complete()
    before = view(simulator)
    simulator.late("too late")
    step = Step(id="s", status="failed", output="no")
    simulator.event(ThreadLate(of="turn-1", late="step", raw=encode_json(step)), None)
    after = view(simulator)
    late = [simulator.head - 1, simulator.head]
    assert (after.turn, after.entries[:-2]) == (msgspec.structs.replace(before.turn, late=late), before.entries)
    assert [(e.kind, e.text or e.output, e.mark) for e in after.entries[-2:]] == [
        ("note", "too late", "late"),
        ("note", "no", "late"),
    ]


def test_events_after_the_end_are_illegal_and_late() -> None:
    """A hand-written second terminal or item is counted and shown as late; the first terminal stands (P5, C10)."""
    simulator = started()
    simulator.complete()
    simulator.event(Interrupted(reason="failed"), "turn-1")
    simulator.event(Step(id="s", step="tool", status="running"), "turn-1")
    found = view(simulator)
    assert (found.turn.state, found.turn.illegal, found.turn.reason) == ("completed", 2, None)
    assert [(entry.name, entry.mark) for entry in found.entries] == [("interrupted", "late"), ("step", "late")]


# --- damage, size ----------------------------------------------------------------------------------------------------


def test_damaged_and_unknown_records_are_shown() -> None:
    """A record that cannot be read, or of a newer kind, is a note at its place, and what follows it is folded (P4)."""
    simulator = started()
    for seq, (kind, body) in enumerate([("step", Damaged(problem="torn")), ("from_the_future", Unknown())], 4):
        simulator.head = seq
        simulator.frames.append(
            Event(thread="t", seq=seq, turn="turn-1", at=1, kind=kind, body=body, data=b"?")  # type: ignore[arg-type]
        )
    simulator.step("after", step="tool", status="succeeded")
    found = view(simulator)
    assert [(e.seq, e.kind, e.name) for e in found.entries[:2]] == [(4, "note", "step"), (5, "note", "from_the_future")]
    assert (found.entries[2].id, found.turn.illegal) == ("after", 0)


def test_an_item_that_is_not_json_is_shown() -> None:
    """An item whose payload is damaged becomes a note with its place (P4)."""
    simulator = started()
    seq = simulator.event(Item(type="message", raw=b"{torn"), "turn-1")
    (entry,) = view(simulator).entries
    assert (entry.seq, entry.status, entry.item) == (seq, "failed", seq)


@pytest.mark.parametrize(("body", "illegal"), [(Damaged(problem="torn"), 1), (Unknown(), 0)], ids=["damaged", "newer"])
def test_a_submission_that_cannot_be_read_still_makes_a_turn(body: Damaged | Unknown, illegal: int) -> None:
    """A turn whose submission is damaged, or of a newer version, is there, with what can be read of it (P4)."""
    simulator = started()
    simulator.step("s", step="tool", status="succeeded")
    timeline = Timeline("turn-1")
    for event in events_of(simulator.frames):
        found = body if event.kind == "submitted" else event.body
        timeline.event(Event(thread="t", seq=event.seq, turn=event.turn, at=1, kind=event.kind, body=found, data=b""))
    assert [entry.id for entry in timeline.view().entries] == ["#2", "s"]
    assert (timeline.view().turn.illegal, timeline.view().turn.state) == (illegal, "worker_started")


def test_a_turn_without_any_event_is_refused() -> None:
    """A view of nothing is an error, not an invented turn (P3)."""
    with pytest.raises(RecordDamaged):
        Timeline("nobody").view()


def test_long_output_is_cut_and_says_so() -> None:
    """A view cuts long output and gives the size of the whole (P4, P11)."""
    simulator = started()
    simulator.draft("é" * VIEW_TEXT_BYTES_MAX, "c1", "output")
    (entry,) = view(simulator).entries
    assert entry.output is not None
    assert (len(entry.output), entry.output_bytes, entry.truncated) == (
        VIEW_TEXT_BYTES_MAX // 2,
        2 * VIEW_TEXT_BYTES_MAX,
        True,
    )


@given(st.text(st.characters(), max_size=3), st.sampled_from(["é", "\ud800", "\U0001f600", "x"]))
def test_cutting_ends_between_code_points(head: str, filler: str) -> None:
    """A cut text is the longest beginning of the whole within the limit (P4, C19)."""
    whole = head + filler * VIEW_TEXT_BYTES_MAX + "end"
    found = cut(whole)
    assert found.text is not None
    assert whole.startswith(found.text)
    assert found.truncated
    assert found.whole_bytes == len(text_bytes(whole))
    size = len(text_bytes(found.text))
    assert VIEW_TEXT_BYTES_MAX - 4 < size <= VIEW_TEXT_BYTES_MAX


def test_bare_token_counts_are_in_the_row_only() -> None:
    """A step that brings token counts alone is no entry: the turn's row shows them."""
    simulator = started()
    simulator.step("usage", step="note", usage={"tokens": 3})
    assert (view(simulator).entries, view(simulator).turn.usage) == ((), {"tokens": 3})


def test_no_step_is_scanned_twice() -> None:
    """A turn of 3,000 calls of one id costs no more a call than one of 300: the work is counted, not timed (P11)."""

    def work(calls: int) -> int:
        simulator, lines = started(), 0
        for _ in range(calls):
            simulator.call("call_0")
        for _ in range(calls):
            simulator.output("call_0")
        timeline = Timeline("turn-1")

        def count(_frame: Any, event: str, _arg: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            for event in events_of(simulator.frames):
                timeline.event(event)
            timeline.view()
        finally:
            sys.settrace(before)
        return lines

    assert work(3_000) < 11 * work(300)
