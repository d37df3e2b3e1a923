"""Items, steps and the end of a turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.journal.stores import Store, call, events, items, kinds, message, output, run, texts, together
from turnlog.errors import (
    AlreadySettled,
    Fenced,
    IllegalTransition,
    InvalidInput,
    NotJson,
    Overloaded,
    TooLarge,
    TurnlogError,
    UnknownThread,
    UnknownTurn,
)
from turnlog.events.kinds import Completed, Interrupted, Step, ThreadLate
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import BODY_BYTES_MAX, EVENTS_LATE_MAX


@pytest.fixture
def turn(log: Log) -> Turn:
    started = log.submit("t", "question").result()
    started.start(agent="demo", agent_version="1").result()
    return started


def test_raw_items_come_back_byte_for_byte(log: Log, turn: Turn) -> None:
    """P10, C18, C21: the bytes of an item are kept: spacing, escapes, order, doubled keys, large numbers."""
    raws = [
        b'{ "type" : "message",\n "role": "assistant", "n": 9007199254740993 , "1e400": 1 }',
        b'{"type":"x","__proto__":1,"constructor":{},"type":"y"}',
        b'{"output":"\\u0000","raw":"\\\\u0000","half":"\\ud83d","sep":"\xe2\x80\xa8"}',
    ]
    for raw in raws:
        turn.item(raw).result()
    assert [item.raw for item in items(log)] == raws


def test_a_mapping_is_encoded_once(log: Log, turn: Turn) -> None:
    """P10: an item given as a mapping is kept as compact JSON with its own order of keys."""
    seq = turn.item({"b": 1, "a": [None, True, 1.5, "é"]}).result()
    assert items(log)[0].raw == '{"b":1,"a":[null,true,1.5,"é"]}'.encode()
    assert events(log)[-1].seq == seq


BAD: dict[str, tuple[type[Exception], Callable[[Turn], Any]]] = {
    "no JSON": (NotJson, lambda turn: turn.item(b"{")),
    "no object": (NotJson, lambda turn: turn.item(b"[]")),
    "no UTF-8": (NotJson, lambda turn: turn.item(b'{"a":"\xff"}')),
    "text": (NotJson, lambda turn: turn.item("{}")),  # type: ignore[arg-type]
    "NaN": (NotJson, lambda turn: turn.item(b'{"a":NaN}')),
    "NaN in a mapping": (NotJson, lambda turn: turn.item({"a": math.nan})),
    "deep": (TooLarge, lambda turn: turn.item(b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}")),
    "large": (TooLarge, lambda turn: turn.item({"a": "x" * BODY_BYTES_MAX})),
    "no format": (InvalidInput, lambda turn: turn.item({}, format="")),
    "a step without id": (InvalidInput, lambda turn: turn.step("")),
    "a step of no kind": (InvalidInput, lambda turn: turn.step("s", kind="dance")),  # type: ignore[arg-type]
    "a step of no status": (InvalidInput, lambda turn: turn.step("s", status="maybe")),  # type: ignore[arg-type]
    "a step with NaN": (NotJson, lambda turn: turn.step("s", args=[math.inf])),
    "a large step": (TooLarge, lambda turn: turn.step("s", output="x" * BODY_BYTES_MAX)),
    "no reason": (InvalidInput, lambda turn: turn.interrupt("bored")),  # type: ignore[arg-type]
    "a long detail": (TooLarge, lambda turn: turn.interrupt("failed", "x" * BODY_BYTES_MAX)),
    "a detail that is no text": (InvalidInput, lambda turn: turn.interrupt("failed", 7)),  # type: ignore[arg-type]
    "usage that is no mapping": (InvalidInput, lambda turn: turn.complete(usage=[1])),  # type: ignore[arg-type]
    "a reason to finish that is no text": (InvalidInput, lambda turn: turn.complete(finish_reason=5)),  # type: ignore[arg-type]
    "a reason to drop that is no text": (InvalidInput, lambda turn: turn.drop_attempt(5)),  # type: ignore[arg-type]
    "nanoseconds": (InvalidInput, lambda turn: turn.step("s", started_at=1_796_000_000_000_000_000)),
    "a time that is none": (InvalidInput, lambda turn: turn.step("s", ended_at=-1)),
    "a title that is no text": (InvalidInput, lambda turn: turn.step("s", title=3)),  # type: ignore[arg-type]
    "a part that is a truth": (InvalidInput, lambda turn: turn.draft("x", target="m", part=True)),
    "half a part": (InvalidInput, lambda turn: turn.draft("x", target="m", part=1.5)),  # type: ignore[arg-type]
    "a part that is text": (InvalidInput, lambda turn: turn.draft("x", target="m", part="a")),  # type: ignore[arg-type]
    "a part out of range": (InvalidInput, lambda turn: turn.draft("x", target="m", part=10**30)),
    "usage with NaN": (NotJson, lambda turn: turn.complete(usage={"n": math.nan})),
    "large usage": (TooLarge, lambda turn: turn.complete(usage={"n": "x" * BODY_BYTES_MAX})),
    "a long reason to finish": (TooLarge, lambda turn: turn.complete(finish_reason="x" * BODY_BYTES_MAX)),
    "a long reason to drop": (TooLarge, lambda turn: turn.drop_attempt("x" * BODY_BYTES_MAX)),
    "a long agent": (TooLarge, lambda turn: turn.start(agent="x" * BODY_BYTES_MAX)),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_raises_at_once_and_stores_nothing(log: Log, turn: Turn, what: str) -> None:
    """C21, P4: what cannot be kept exactly is refused typed, by the call itself, and the turn goes on."""
    error, action = BAD[what]
    before = events(log)
    with pytest.raises(error):
        action(turn)
    assert events(log) == before
    turn.complete().result()


def test_items_and_steps_of_one_call_are_one_entry(log: Log, turn: Turn) -> None:
    """A call, its live status, its output draft and its result are merged into one entry by the call id."""
    turn.item(call("c1", '{"path":"a"}')).result()
    turn.step("s1", kind="tool", call_id="c1", status="running", title="Reading a").result()
    turn.draft("line", target="c1", kind="output").result()
    (entry,) = log.timeline("t", turn.id).entries
    assert (entry.kind, entry.title, entry.status, entry.args, entry.output) == (
        "tool",
        "Reading a",
        "running",
        '{"path":"a"}',
        "line",
    )
    turn.item(output("c1", "lines")).result()
    turn.step("s1", status="succeeded").result()
    (entry,) = log.timeline("t", turn.id).entries
    assert (entry.status, entry.output) == ("succeeded", "lines")


def test_a_step_is_an_upsert(log: Log, turn: Turn) -> None:
    """DESIGN 3: a step's absent fields keep their value."""
    turn.step("s", kind="subagent", name="reader", title="Reads", status="running").result()
    turn.step("s", status="succeeded").result()
    (entry,) = log.timeline("t", turn.id).entries
    assert (entry.kind, entry.name, entry.title, entry.status) == ("subagent", "reader", "Reads", "succeeded")
    assert [event.body.name for event in events(log) if isinstance(event.body, Step)] == ["reader", None]


def test_a_turn_completes_once(log: Log, turn: Turn) -> None:
    """P5, C10: the first terminal event wins, and every second one is refused, naming the state that stands."""
    turn.item(message("answer")).result()
    turn.complete(usage={"tokens": 7}, finish_reason="stop").result()
    for again in (turn.complete(), turn.interrupt("failed"), turn.start()):
        with pytest.raises(AlreadySettled) as caught:
            again.result()
        assert caught.value.state == "completed"
    (end,) = [event.body for event in events(log) if isinstance(event.body, Completed)]
    assert (end.usage, end.finish_reason, end.answer) == ({"tokens": 7}, "stop", items_seq(log))
    view = log.turn_view("t", turn.id)
    assert (view.state, view.agent, view.usage, turn.state) == ("completed", "demo", {"tokens": 7}, "completed")


def items_seq(log: Log) -> int:
    return next(event.seq for event in events(log) if event.kind == "item")


def test_interrupted_names_what_is_unknown(log: Log, turn: Turn) -> None:
    """P3, C42: calls that were begun and have no result are named as unknown, those with a result are not."""
    turn.item(call("c1")).result()
    turn.item(call("c2")).result()
    turn.step("s1", kind="tool", status="running").result()
    turn.step("s2", kind="tool", status="running").result()
    turn.item(output("c1")).result()
    turn.step("s2", status="failed").result()
    turn.interrupt("timed_out", "30 s").result()
    (end,) = [event.body for event in events(log) if isinstance(event.body, Interrupted)]
    assert (end.reason, end.detail, end.unknown_calls) == ("timed_out", "30 s", ["c2", "s1"])
    assert log.turn_view("t", turn.id).reason == "timed_out"


def test_a_turn_that_never_started_can_be_interrupted(log: Log) -> None:
    """A waiting turn may be interrupted, and may neither complete nor take items before it has started."""
    turn = log.submit("t", "question").result()
    for early in (turn.complete(), turn.item({}), turn.step("s"), turn.drop_attempt()):
        with pytest.raises(IllegalTransition) as caught:
            early.result()
        assert caught.value.state == "submitted"
    turn.interrupt("cancelled").result()
    assert kinds(log) == ["thread_created", "submitted", "interrupted"]


@pytest.mark.parametrize("end", ["complete", "interrupt"])
def test_what_comes_late_is_kept_as_late(store: Store, log: Log, turn: Turn, end: str) -> None:
    """P5: an item or step after the end, under the turn's own fence, is kept, shown as late, and changes nothing."""
    (turn.complete() if end == "complete" else turn.interrupt("failed")).result()
    turn.item(message("late words")).result()
    turn.step("s", title="late step", status="succeeded").result()
    turn.drop_attempt("late drop").result()
    late = [event for event in events(log) if isinstance(event.body, ThreadLate)]
    assert [event.turn for event in late] == [None] * 3
    assert [event.body.late for event in late if isinstance(event.body, ThreadLate)] == [
        "item",
        "step",
        "attempt_dropped",
    ]
    assert events(log, turn=turn.id)[-1].kind in ("completed", "interrupted")
    view = log.turn_view("t", turn.id)
    assert (view.late, view.illegal) == ([event.seq for event in late], 0)
    for place in (log, store.open()):
        entries = place.timeline("t", turn.id).entries[-3:]
        assert ["late" in repr(entry) for entry in entries] == [True] * 3
        assert "late words" in repr(entries[0])
    assert texts(log) == []


def test_late_events_are_bounded(log: Log, turn: Turn) -> None:
    """P11: an agent that goes on for ever after its turn has ended is refused by the name of the limit."""
    turn.complete().result()
    for receipt in [turn.step(f"s{n}") for n in range(EVENTS_LATE_MAX)]:
        receipt.result()
    with pytest.raises(Overloaded) as caught:
        turn.step("more").result()
    assert caught.value.limit == "EVENTS_LATE_MAX"


def test_late_events_of_two_turns_and_a_new_one(log: Log, turn: Turn) -> None:
    """P5: late items reach the log in order while the next turn of the thread runs, and that one is not disturbed."""
    turn.complete().result()
    with log.turn("t", "next") as following:
        turn.item(message("late")).result()
        following.item(message("answer")).result()
    assert texts(log) == ["answer"]
    assert log.turn_view("t", turn.id).late
    assert log.turn_view("t", following.id).late == []


def test_an_end_is_raced_a_thousand_times(store: Store) -> None:
    """C10, P5: complete and interrupt raced from two threads: one wins and is stored, the other is refused."""
    log = store.open()
    count = 1_000 if store.kind == "memory" else 100
    turns = [log.submit(f"t{n}", "x") for n in range(count)]
    for receipt in turns:
        receipt.result().start()
    won = together(
        2,
        lambda side: [
            outcome(turn.result().complete() if side else turn.result().interrupt("cancelled")) for turn in turns
        ],
    )
    assert isinstance(won[0], list)
    assert isinstance(won[1], list)
    for n, pair in enumerate(zip(*won, strict=True)):
        assert sorted(pair) == ["AlreadySettled", "done"]
        ends = [kind for kind in kinds(log, f"t{n}") if kind in ("completed", "interrupted")]
        assert ends == ["interrupted" if pair[0] == "done" else "completed"]


def outcome(receipt: Any) -> str:
    try:
        receipt.result(30)
    except TurnlogError as error:
        return type(error).__name__
    return "done"


def test_a_fenced_writer_is_refused_everything(store: Store, log: Log, turn: Turn) -> None:
    """P7, C08: a writer that was taken over is refused items, steps, drafts and ends, and the log has none of them."""
    with store.paused(log):
        store.clock.advance(31)
        other = store.open()
    before = events(other)
    assert before[-1].kind == "interrupted"
    for write in (
        turn.item(message("x")),
        turn.step("s"),
        turn.draft("x"),
        turn.drop_attempt(),
        turn.complete(),
        turn.interrupt("failed"),
        turn.start(),
    ):
        with pytest.raises(Fenced):
            write.result(30)
    assert events(other) == before
    assert turn.settled


def test_unknown_things_are_typed(log: Log) -> None:
    """Reading or asking a thread or turn that is not there raises which of both is unknown."""
    log.append_message("t", {"a": 1}).result()
    for read in (log.thread, log.turns, log.transcript, log.history, lambda t: list(log.events(t)), log.drafts):
        with pytest.raises(UnknownThread):
            read("nowhere")
    for reading in (log.turn_view, log.timeline, log.retry, lambda t, turn: log.request(t, turn).result()):
        with pytest.raises(UnknownTurn):
            reading("t", "nowhere")
    with pytest.raises(UnknownThread):
        log.timeline("nowhere", "x")


def test_a_message_without_a_turn(log: Log) -> None:
    """A turn-less item gives its seq, makes its thread, and is read by all who read the thread."""
    assert log.append_message("t", message("hello"), format="responses").result() == 2
    assert kinds(log) == ["thread_created", "thread_item"]
    assert "hello" in repr(log.transcript("t"))
    assert "hello" in repr(log.history("t"))

    async def main() -> int:
        return await log.append_message("t", b'{"type":"message","role":"user","content":"x"}')

    assert run(main()) == 3
