"""Damage of the store itself where one turn lies: it opens, the others are recovered, and nothing is invented."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.journal.stores import Store, events, kinds
from turnlog.engines.protocol import Outcome, Write
from turnlog.errors import Busy, StoreDamaged
from turnlog.events.kinds import Interrupted
from turnlog.journal.log import Log
from turnlog.testing.faults import FaultEngine


def leave_open_turns(store: Store, *threads: str) -> None:
    """Each in a process of its own, which dies."""
    logs = [store.open() for _ in threads]
    for log, thread in zip(logs, threads, strict=True):
        log.submit(thread, "question").result().start().result()
    for log in logs:
        store.kill(log)


def damaged(engine: FaultEngine, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Let every write of one step to thread `bad` meet damage, as the whole batch then does."""
    real = engine.commit

    def commit(writes: Sequence[Write]) -> list[Outcome]:
        bad = [write for write in writes if write.thread == "bad" and not write.submission]
        steps = ["end" if write.claim is None else "claim" for write in bad]
        if step in steps:
            raise StoreDamaged(detail="malformed")
        return real(writes)

    monkeypatch.setattr(engine, "commit", commit)


@pytest.mark.parametrize("step", ["claim", "end"])
def test_a_turn_that_cannot_be_written_stays_open(store: Store, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """P3, P4, P8: the others are settled, nothing is invented about that one, and later it is settled as ever."""
    leave_open_turns(store, "a", "bad", "z")
    engine = store.engine()
    damaged(engine, monkeypatch, step)
    log = store.open(engine=engine)
    assert sorted(found.thread for found in log.recovered) == ["a", "z"]
    assert kinds(log, "bad") == ["thread_created", "submitted", "worker_started"]
    assert log.turns("bad").rows[0].state == "worker_started"
    assert log.recover() == []
    with pytest.raises(Busy):
        log.submit("bad", "next").result()
    with log.turn("a", "next"):
        pass
    monkeypatch.undo()
    assert [(found.thread, found.reason) for found in log.recover()] == [("bad", "process_died")]


def test_a_row_that_cannot_be_read_hides_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4, P8: a dead writer's turns whose rows cannot be read stay open, those of other dead writers are settled."""
    leave_open_turns(store, "bad", "good")
    engine = store.engine()
    bad = engine.turns(thread="bad", open_only=True, limit=1).rows[0].owner
    real = engine.turns

    def turns(**asked: Any) -> Any:
        if asked.get("owner") == bad:
            raise StoreDamaged(detail="malformed")
        return real(**asked)

    monkeypatch.setattr(engine, "turns", turns)
    log = store.open(engine=engine)
    assert [found.thread for found in log.recovered] == ["good"]
    monkeypatch.undo()
    assert [found.thread for found in log.recover()] == ["bad"]


def test_pages_that_are_no_pages(tmp_path: Path) -> None:
    """P3, P4, P8: a turn whose message lies on a page that was overwritten ends by what its row tells, and says why."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        log.submit("bad", "MARK" * 10_000).result().start().result()
        log.submit("good", "question").result().start().result()
        store.kill(log)
        content = bytearray(store.path.read_bytes())
        place = content.index(b"MARK" * 900) // 4_096 * 4_096
        content[place : place + 4_096] = b"\xa5" * 4_096
        store.path.write_bytes(content)
        other = store.open()
        assert {found.thread: found.reason for found in other.recovered} == {
            "bad": "recovery_exhausted",
            "good": "process_died",
        }
        row = other.turns("bad").rows[0]
        assert (row.state, row.seq_last) == ("interrupted", 4)
        assert "StoreDamaged" in _reason(other, "bad", after=3)
        assert events(other, "good")[-1].kind == "interrupted"
        assert other.recover() == []


def _reason(log: Log, thread: str, after: int) -> str:
    (event,) = log.events(thread, after=after)
    assert isinstance(event.body, Interrupted)
    return event.body.detail or ""
