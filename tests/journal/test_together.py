"""Events of one turn that wait together: one write, each its own answer, everything else as if they came one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journal.stores import StillClock, Store, call, events, eventually, kinds, message, output, unavailable
from turnlog.engines.protocol import Write
from turnlog.errors import Fenced, StoreUnavailable
from turnlog.events.kinds import ThreadLate
from turnlog.journal import lanes, recovery
from turnlog.journal import writer as writer_module
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn
from turnlog.limits import BATCH_JOBS_QUICK_MAX, COMMIT_SLOW_S, LEASE_S


def begun(log: Log, thread: str = "t") -> Turn:
    turn = log.submit(thread, "question").result()
    turn.start().result()
    return turn


def commits(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> list[list[Write]]:
    """The writes of each commit from now on."""
    seen: list[list[Write]] = []
    engine = store.faults(log)
    real = engine.commit

    def commit(writes: Any) -> Any:
        seen.append(list(writes))
        return real(writes)

    monkeypatch.setattr(engine, "commit", commit)
    return seen


def waiting(store: Store, log: Log, turn: Turn, count: int) -> list[Receipt[int]]:
    """Items and steps given while the writer is held."""
    hold = store.faults(log).hold("commit.before")
    turn.step("first")
    hold.wait_held()
    with hold:
        return [turn.item(call(f"c{n}")) if n % 2 else turn.step(f"s{n}", status="succeeded") for n in range(count)]


def test_what_waits_together_shares_a_write(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: events of one turn that wait together are one write and one sync, in order, each with its own seq."""
    turn = begun(log)
    seen = commits(store, log, monkeypatch)
    receipts = waiting(store, log, turn, 100)
    assert [receipt.result(60) for receipt in receipts] == list(range(5, 105))
    assert [len(write.events) for writes in seen for write in writes] == [1, 100]
    assert log.turn_view("t", turn.id).tools == 50


def test_a_shared_write_is_bounded(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a write holds no more events, and no more bytes, than its limits."""
    turn = begun(log)
    monkeypatch.setattr(lanes, "JOINED_EVENTS_MAX", 9)
    seen = commits(store, log, monkeypatch)
    for receipt in waiting(store, log, turn, 25):
        receipt.result(60)
    assert [len(write.events) for writes in seen for write in writes] == [1, 10, 10, 5]
    seen.clear()
    monkeypatch.setattr(lanes, "JOINED_BYTES_MAX", 1)
    for receipt in waiting(store, log, turn, 3):
        receipt.result(60)
    assert [len(write.events) for writes in seen for write in writes] == [1, 1, 1, 1]


def test_on_a_slow_disk_whatever_waits_shares_a_sync(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: a quick disk takes small batches, a slow one all that waits; every write is answered either way."""
    slow = False
    sizes: list[int] = []
    clock = StillClock()
    log = store.open(clock=clock)
    engine = store.faults(log)
    real = engine.commit

    def commit(writes: Any) -> Any:
        sizes.append(len(writes))
        clock.advance(2 * COMMIT_SLOW_S if slow else 0.0)
        return real(writes)

    monkeypatch.setattr(engine, "commit", commit)
    waiting_jobs = 2 * BATCH_JOBS_QUICK_MAX
    for slow in (False, True):
        log.append_message("first", {}).result()
        hold = store.faults(log).hold("commit.before")
        log.append_message("held", {})
        hold.wait_held()
        sizes.clear()
        with hold:
            receipts = [log.append_message(f"t{n}", {}) for n in range(waiting_jobs)]
        for receipt in receipts:
            receipt.result(60)
        assert sizes == ([waiting_jobs] if slow else [BATCH_JOBS_QUICK_MAX] * 2)


def test_text_between_events_stays_between_them(store: Store, log: Log) -> None:
    """C22: text given between two waiting events is shown between them, and what closes a draft shares no write."""
    turn = begun(log)
    hold = store.faults(log).hold("commit.before")
    turn.step("first")
    hold.wait_held()
    with hold:
        turn.item(call("c1"))
        turn.item(output("c1"))
        turn.draft("text one")
        turn.item(message("text one"))
        turn.item(call("c2"))
        turn.draft("text two")
        turn.item(message("text two"))
        last = turn.complete()
    last.result(60)
    view = log.timeline("t", turn.id)
    assert [entry.text or entry.kind for entry in view.entries][1:] == ["tool", "text one", "tool", "text two"]


def test_the_first_message_among_them_begins_the_answer(store: Store, log: Log) -> None:
    """The answer begins with the first assistant message, wherever it stands in a shared write."""
    turn = begun(log)
    hold = store.faults(log).hold("commit.before")
    turn.step("first")
    hold.wait_held()
    with hold:
        receipts = [turn.item(call("c1")), turn.item(message("a")), turn.item(message("b"))]
    assert [receipt.result(60) for receipt in receipts] == [5, 7, 8]
    assert kinds(log)[4:] == ["item", "assistant_started", "item", "item"]


@pytest.mark.parametrize("verb", ["commit.before", "commit.after"])
def test_all_of_them_are_told_of_a_failing_store(store: Store, log: Log, verb: str) -> None:
    """P1: when a shared write fails, each of its events is answered, and none is stored twice or without the others."""
    turn = begun(log)
    hold = store.faults(log).hold("commit.before")
    turn.step("first")
    hold.wait_held()
    with hold:
        receipts = [turn.step(f"s{n}") for n in range(5)]
        store.faults(log).fail(verb, unavailable, k=2 if verb == "commit.after" else 1)
    for receipt in receipts:
        with pytest.raises(StoreUnavailable):
            receipt.result(60)
    turn.complete().result(60)
    steps = [event.seq for event in events(log) if event.kind == "step"]
    assert steps in ([4], list(range(4, 10)))


def test_all_of_them_are_refused_by_a_fence(store: Store, log: Log) -> None:
    """P7: what waits together in a writer that was taken over is refused together, and nothing of it is stored."""
    turn = begun(log)
    with store.paused(log):
        receipts = [turn.step(f"s{n}") for n in range(5)]
        store.clock.advance(LEASE_S + 1)
        other = store.open()
        assert [found.turn for found in other.recovered] == [turn.id]
    for receipt in receipts:
        with pytest.raises(Fenced):
            receipt.result(60)
    assert "step" not in kinds(other)


def test_all_of_them_are_kept_as_late(store: Store, log: Log) -> None:
    """P5: events that wait together behind the end of their turn are each kept as late."""
    turn = begun(log)
    hold = store.faults(log).hold("commit.before")
    turn.complete()
    hold.wait_held()
    with hold:
        receipts = [turn.step(f"s{n}") for n in range(3)]
    assert [receipt.result(60) for receipt in receipts] == [5, 6, 7]
    assert [event.body.late for event in events(log) if isinstance(event.body, ThreadLate)] == ["step"] * 3
    assert log.turn_view("t", turn.id).late == [5, 6, 7]


def test_own_turns_are_never_forgotten(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: however many turns of one log are open, none of them is forgotten and taken for a dead writer's."""
    monkeypatch.setattr(writer_module, "THREADS_CACHED_MAX", 20)
    receipts = [log.submit(f"t{n}", "x") for n in range(400)]
    turns = [receipt.result(60) for receipt in receipts]
    assert log.recover() == []
    for receipt in [turn.start() for turn in turns]:
        receipt.result(60)
    for receipt in [turn.complete() for turn in turns]:
        receipt.result(60)
    log.append_message("last", {}).result()
    eventually(lambda: len(log._writer._states) <= 20 or not log.append_message("last", {}).result(60))


def test_a_submission_nobody_knows_of_among_many(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: a submission that was stored although its commit raised is settled, however many own turns are open."""
    monkeypatch.setattr(recovery, "RECOVER_TURNS_MAX", 3)
    store.faults(log).fail("commit.after", unavailable)
    with pytest.raises(StoreUnavailable):
        log.submit("lost", "x").result()
    for n in range(10):
        begun(log, f"t{n}")
    eventually(lambda: log.turns("lost").rows[0].state == "interrupted")


def test_every_part_of_a_draft_is_kept(log: Log) -> None:
    """P2: of a call's output that was written in several parts, all that was shown is in the trace after the end."""
    for end in ("interrupt", "complete"):
        turn = begun(log, end)
        turn.step("c1", kind="tool", status="running").result()
        turn.draft("AAA ", target="c1", kind="output", part=0).result()
        turn.draft("BBB ", target="c1", kind="output", part=1).result()
        (turn.interrupt("failed") if end == "interrupt" else turn.complete()).result()
        entries = log.timeline(end, turn.id).entries
        shown = "".join((entry.output or "") + (entry.text or "") for entry in entries)
        assert ("AAA " in shown, "BBB " in shown) == (True, True)


def test_parts_are_put_together_in_their_order(log: Log) -> None:
    """P2: a step that settles takes over the parts of its output in the order of their numbers."""
    turn = begun(log)
    turn.draft("second", target="c1", kind="output", part=1).result()
    turn.draft("first ", target="c1", kind="output", part=0).result()
    turn.step("c1", kind="tool", status="succeeded").result()
    assert [entry.output for entry in log.timeline("t", turn.id).entries] == ["first second"]


def test_whatever_was_accepted_can_be_retried(log: Log) -> None:
    """P1: the largest message that is accepted can be submitted again by a retry."""
    low, high = 60_000, 66_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            turn = log.submit(f"t{middle}", "x" * middle, turn="t" * 256).result()
        except Exception:
            high = middle
        else:
            low = middle
            turn.interrupt("cancelled").result()
    assert log.retry(f"t{low}", "t" * 256).result().state == "submitted"


def test_an_exception_that_cannot_say_what_it_is(log: Log) -> None:
    """P5: work that raises something without words ends its turn all the same, and the exception goes on."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    with pytest.raises(Mute), log.turn("t", "question"):
        raise Mute
    view = log.turns("t").rows[0]
    assert (view.state, view.reason) == ("interrupted", "failed")
