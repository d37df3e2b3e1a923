"""What nothing of ours would write: a store with a damaged place, a writer with a defect, a disk that never answers."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.journal import stores
from tests.journal.stores import Store, call, eventually, items, message
from turnlog.engines.protocol import Engine
from turnlog.errors import RecordDamaged, StoreBusy, StoreError
from turnlog.events.kinds import Interrupted
from turnlog.folds.history import history
from turnlog.journal import recovery, state, writer
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.state import ThreadState
from turnlog.journal.turn import Turn
from turnlog.limits import CALLS_NAMED_MAX
from turnlog.testing.traps import Hold


def begun(log: Log, thread: str = "t") -> Turn:
    turn = log.submit(thread, "question").result()
    turn.start().result()
    return turn


def damage(path: Path, sql: str) -> None:
    """Change a store that nobody has open."""
    with sqlite3.connect(path) as db:
        assert db.execute(sql).rowcount == 1
    db.close()


BROKEN: dict[str, str] = {
    "a draft with a name that says nothing": "UPDATE chunk SET draft = CAST('nonsense' AS BLOB)",
    "a draft of a kind from the future": "UPDATE chunk SET draft = CAST('0/~0/dream/0' AS BLOB)",
    "a draft that is no text": "UPDATE chunk SET text = x'41ff42'",
    "a turn row": "UPDATE turn SET fold = x'00'",
    "a thread row": "UPDATE thread SET fold = x'00'",
    "a submission": "UPDATE event SET body = x'00' WHERE kind = CAST('submitted' AS BLOB)",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_damaged_turn_keeps_nobody_from_opening(tmp_path: Path, what: str) -> None:
    """P4, P8: a dead writer's turn is settled although a place of it is damaged, and other threads are as they were."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        begun(log).draft("AB").result()
        store.kill(log)
        damage(store.path, BROKEN[what])
        other = store.open()
        assert [found.turn for found in other.recovered] != []
        with other.turn("sound", "question") as turn:
            turn.item(message("answer")).result()
        assert stores.texts(other, "sound") == ["answer"]
        assert [event.kind for event in other.events("t")][-1] == "interrupted"


def test_a_message_that_cannot_be_read_is_not_asked_again(tmp_path: Path) -> None:
    """P3, P4: asking a turn again whose message is damaged says so, and invents none."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        turn = begun(log)
        store.kill(log)
        damage(store.path, BROKEN["a submission"])
        other = store.open()
        with pytest.raises(RecordDamaged):
            other.retry("t", turn.id)
        assert len(other.turns("t").rows) == 1


def test_damaged_draft_text_is_no_answer(tmp_path: Path) -> None:
    """P3: text of a draft whose name cannot be read stays in the trace; nobody knows that it was an answer."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        begun(log).draft("AB").result()
        store.kill(log)
        damage(store.path, BROKEN["a draft of a kind from the future"])
        other = store.open()
        assert items(other) == []
        turn = other.turns("t").rows[0].turn
        assert [entry.text for entry in other.timeline("t", turn).entries if entry.kind == "reasoning"] == ["AB"]


def test_a_turn_that_cannot_be_recovered_says_so(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: whatever keeps recovery from reading one turn, that turn ends `recovery_exhausted` and the others as ever."""
    begun(log, "bad")
    begun(log, "good")
    store.kill(log)

    def load(engine: Engine, thread: str, owner: str) -> ThreadState:
        if thread == "bad":
            raise ValueError("poison")
        return state.load(engine, thread, owner)

    monkeypatch.setattr(recovery, "load", load)
    other = store.open()
    ends = {
        thread: (event.body.reason, event.body.detail)
        for thread in ("bad", "good")
        for event in other.events(thread)
        if isinstance(event.body, Interrupted)
    }
    assert ends == {"bad": ("recovery_exhausted", "ValueError: poison"), "good": ("process_died", None)}


def test_more_dead_owners_than_one_round_looks_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: one recovery settles every dead writer's turn, however many dead writers had none."""
    monkeypatch.setattr(recovery, "DEAD_OWNERS_MAX", 2)
    logs = [store.open() for _ in range(7)]
    turn = begun(logs[3])
    for log in logs:
        store.kill(log)
    assert [found.turn for found in store.open().recovered] == [turn.id]


def test_late_drafts_behind_many_events(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: recovery finds the drafts of a turn also when others appended more than a page after it."""
    monkeypatch.setattr("turnlog.journal.state.READ_EVENTS_MAX", 3)
    begun(log).draft("seen").result()
    for number in range(8):
        log.append_message("t", {"n": number}).result()
    store.kill(log)
    assert stores.texts(store.open()) == ["seen"]


@pytest.mark.parametrize("way", ["outcome_of", "Writer._release"])
def test_a_defect_in_the_writer_leaves_nobody_waiting(
    store: Store, log: Log, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """P8: should the writer end by a defect, whoever waits is told at once, and whoever comes, and closing ends."""
    turn, behind = begun(log), log.submit("t", "next", when_busy="queue").result()
    parked = behind.ready()
    log.append_message("t", {}).result()  # and it waits by now
    hold = Hold()
    store.faults(log).traps.set({"commit.before"}, hold)
    receipts: list[Receipt[Any]] = [turn.step("held"), parked]
    with hold:
        hold.wait_held()
        receipts += [turn.draft("text"), turn.step("queued"), log.submit("u", "queued")]

        def defect(*_: object, **__: object) -> object:
            raise RuntimeError("defect")

        monkeypatch.setattr(f"turnlog.journal.writer.{way}", defect)
        log._writer.call(lambda: None)
        hold.release()
        eventually(lambda: not log._writer._thread.is_alive())
        monkeypatch.undo()
    for receipt in receipts[1:]:
        with pytest.raises(StoreError, match="defect"):
            receipt.result(stores.WAIT_S)
    with pytest.raises(StoreError, match="defect"):
        turn.step("late")
    log.close()
    assert [found.turn for found in store.open().recovered] == [turn.id, behind.id]


def test_closing_waits_within_a_bound(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: closing over a disk that does not answer says so after its limit, stays owner, and goes on when it can."""
    turn = begun(log)
    monkeypatch.setattr(writer, "CLOSE_WAIT_S", 0.01)
    hold = Hold()
    store.faults(log).traps.set({"commit.before"}, hold)
    turn.step("held")
    with hold:
        hold.wait_held()
        with pytest.raises(StoreBusy):
            log.close()
        assert store.open().recovered == []
    monkeypatch.setattr(writer, "CLOSE_WAIT_S", stores.WAIT_S)
    log.close()
    assert store.open().turn_view("t", turn.id).reason == "cancelled"


def test_calls_that_are_not_named_are_counted(log: Log) -> None:
    """P4: a terminal event that cannot name every call with an unknown outcome says how many it leaves out."""
    ends: list[Interrupted] = []
    for ids in ([f"{n:04}" + "x" * 1_000 for n in range(40)], [f"{n}" for n in range(CALLS_NAMED_MAX + 5)]):
        turn = begun(log)
        for call_id in ids:
            turn.item(call(call_id))
        turn.interrupt("failed", "boom").result()
        end = next(event.body for event in log.events("t", turn=turn.id) if isinstance(event.body, Interrupted))
        ends.append(end)
        left = len(ids) - len(end.unknown_calls)
        assert end.detail == f"boom; {left} more calls have an unknown outcome"
    assert [len(end.unknown_calls) for end in ends] == [32, CALLS_NAMED_MAX]


def test_a_pair_without_a_turn_stays_a_pair(log: Log) -> None:
    """C26, C27: a call and its output that belong to no turn keep their ids, so that history gives them both."""
    raws = [call("c1", id="fc1"), stores.output("c1")]
    for raw in raws:
        log.append_message("t", raw).result()
    given = history(log.events("t"))
    assert (len(given.items), given.added, given.omitted) == (2, (), ())
