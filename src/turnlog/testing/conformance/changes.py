"""`changes`: every write is told at least once, to everybody."""

from __future__ import annotations

import threading

from turnlog.engines.protocol import Engine
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit

LONG_S = 30.0
"""A timeout that only runs out when something is broken."""


class ChangesConformance(Conformance):
    """See the module."""

    def test_an_empty_position_means_now(self, engine: Engine) -> None:
        """What was written before is not told, and the call does not wait."""
        commit(engine, writes.note("T", base=0))
        threads, position = engine.changes(b"", LONG_S)
        assert threads == []
        assert engine.changes(position, 0.0) == ([], position)

    def test_each_changed_thread_is_told_once(self, harness: EngineHarness, engine: Engine) -> None:
        """P9: threads written since a position, by anybody, each once however often it was written."""
        other = harness.open()
        _, position = engine.changes(b"", 0.0)
        commit(engine, writes.note("A", base=0), writes.note("B", base=0))
        commit(other, writes.note("A", base=1), writes.note("C", base=0))
        for reader in (engine, other):
            threads, after = reader.changes(position, LONG_S)
            assert sorted(threads) == ["A", "B", "C"]
            assert reader.changes(after, 0.0)[0] == []

    def test_a_position_can_be_asked_again(self, engine: Engine) -> None:
        """At least once: an old position gives what came after it again."""
        _, start = engine.changes(b"", 0.0)
        commit(engine, writes.note("A", base=0))
        _, middle = engine.changes(start, LONG_S)
        commit(engine, writes.note("B", base=0))
        assert engine.changes(middle, LONG_S)[0] == ["B"]
        assert sorted(engine.changes(start, LONG_S)[0]) == ["A", "B"]

    def test_drafts_and_claims_are_changes(self, engine: Engine) -> None:
        """P9: whatever changes what a reader of the thread sees is told."""
        row = writes.started_turn(engine, "T", "t1")
        for write in (writes.draft(row, "d", b"x", after=2), writes.claim(row, "owner1", expected="owner1")):
            _, position = engine.changes(b"", 0.0)
            commit(engine, write)
            assert engine.changes(position, LONG_S)[0] == ["T"]

    def test_refused_writes_are_no_changes(self, engine: Engine) -> None:
        """A batch of which nothing was accepted wakes nobody."""
        commit(engine, writes.note("T", base=0))
        _, position = engine.changes(b"", 0.0)
        commit(engine, writes.note("T", base=5))
        assert engine.changes(position, 0.0)[0] == []

    def test_many_changes_come_in_parts(self, engine: Engine) -> None:
        """P11: asking on from each position gives every one of many threads."""
        _, position = engine.changes(b"", 0.0)
        names = [f"T{n}" for n in range(2_500)]
        for at in range(0, 2_500, 500):
            commit(engine, *[writes.note(name, base=0) for name in names[at : at + 500]])
        told: list[str] = []
        while len(told) < len(names):
            threads, position = engine.changes(position, 0.0)
            assert threads
            told += threads
        assert told == names

    def test_a_waiter_is_woken_by_its_own_engine(self, engine: Engine) -> None:
        """A commit ends the wait of another thread of the process."""
        assert _woken(engine, engine) == ["T"]

    def test_a_waiter_is_woken_by_another_engine(self, harness: EngineHarness, engine: Engine) -> None:
        """A commit ends the wait of another process."""
        assert _woken(engine, harness.open()) == ["T"]


def _woken(waiter: Engine, writer: Engine) -> list[str]:
    """What a thread that waits on one engine is told when another engine commits."""
    _, position = waiter.changes(b"", 0.0)
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.extend(waiter.changes(position, LONG_S)[0]))
    thread.start()
    commit(writer, writes.note("T", base=0))
    thread.join(LONG_S)
    return told
