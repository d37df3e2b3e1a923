"""One rich store, made by the journal: what is damaged in `damages` is a copy of it."""

from __future__ import annotations

from pathlib import Path

from tests.journal.stores import Store, call, eventually, message, output, reasoning
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn


class Numbers:
    """Ids that are the same in every store."""

    def __init__(self) -> None:
        self._count = 0

    def turn_id(self, now_us: int) -> str:
        self._count += 1
        return f"turn-{self._count}"

    def owner_id(self) -> str:
        self._count += 1
        return f"owner-{self._count}"


SNAPSHOTS = (("t", "a"), ("t", "c"), ("long", "l0"), ("long", "l1"), ("long", "l2"))
"""The turns that are worth a snapshot."""

INFOS = {"orphan_call t/c event 20", "late_event t/d event 33"}
"""What the audit tells of the store without any damage: a call whose outcome is unknown, as the end of its turn says,
and an item that came late."""


def write_store(folder: Path) -> Path:
    """The file of such a store, which nobody has open."""
    with Store("sqlite", folder) as store:
        log = store.open(ids=Numbers())
        fill(log)
        engine = store.faults(log)
        eventually(lambda: all(engine.snapshot(thread, turn) is not None for thread, turn in SNAPSHOTS))
    return store.path


def fill(log: Log) -> None:
    """Write threads: `t` has all that a turn can have, `open` turns that did not end, `long` large bodies, `other` is
    to stay as it is."""
    _plain(log, "other", "o")
    _tools(log)  # 1 to 12 of t
    _edited(log)
    _retried(log)
    _late(log)
    _plain(log, "t", "z")
    _long(log)
    log.submit("open", "is it done?", turn="running", key="k").result()
    running = log.submit("open", "and this?", turn="waiting", when_busy="queue").result()
    assert running.id == "waiting"


def _plain(log: Log, thread: str, turn_id: str) -> None:
    turn = _begun(log, thread, turn_id)
    turn.item(message("fine")).result()
    turn.complete().result()


def _long(log: Log) -> None:
    """Events that take a page of the file each."""
    for number in range(3):
        turn = _begun(log, "long", f"l{number}")
        turn.item(message(f"page {number} " + "x" * 3_000)).result()
        turn.item(message(f"more {number} " + "y" * 3_000)).result()
        turn.complete().result()


def _begun(log: Log, thread: str, turn_id: str) -> Turn:
    turn = log.submit(thread, f"question {turn_id}", turn=turn_id, key=f"key-{turn_id}").result()
    turn.start(agent="scripted").result()
    return turn


def _tools(log: Log) -> None:
    turn = _begun(log, "t", "a")
    turn.item(reasoning("hm")).result()
    turn.item(call("c1")).result()
    turn.step("c1", kind="tool", status="succeeded", output="done").result()
    turn.item(output("c1")).result()
    turn.draft("the ans").result()
    turn.item(message("the answer")).result()
    turn.complete(usage={"total": 3}).result()


def _edited(log: Log) -> None:
    turn = _begun(log, "t", "b")
    turn.item(message("wrong")).result()
    turn.complete().result()
    log.truncate("t", "b").result()


def _retried(log: Log) -> None:
    turn = _begun(log, "t", "c")
    turn.draft("half an answer").result()
    turn.item(call("c2")).result()
    turn.interrupt("failed", "the network").result()
    again = log.retry("t", "c").result()
    again.start(agent="scripted").result()
    again.item(message("whole")).result()
    again.complete().result()


def _late(log: Log) -> None:
    turn = _begun(log, "t", "d")
    turn.item(message("in time")).result()
    turn.complete().result()
    turn.item(message("late")).result()
