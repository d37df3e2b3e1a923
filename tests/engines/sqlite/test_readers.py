"""The pool of reading connections."""

from __future__ import annotations

import threading

import apsw
import pytest

from turnlog.engines.sqlite.readers import Readers
from turnlog.errors import StoreClosed
from turnlog.limits import READERS_MAX


class Interrupted(apsw.Connection):
    """A connection that begins a transaction and is interrupted before it says so."""

    interrupts = 0

    def execute(self, statement: str, *arguments: object) -> apsw.Cursor:  # type: ignore[override]
        cursor = super().execute(statement)
        if statement == "BEGIN" and self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return cursor


class StuckRollback(apsw.Connection):
    """A connection that is interrupted before it ends its first transaction."""

    stuck = True

    def execute(self, statement: str, *arguments: object) -> apsw.Cursor:  # type: ignore[override]
        if statement == "ROLLBACK" and self.stuck:
            self.stuck = False
            raise KeyboardInterrupt
        return super().execute(statement)


def _read(readers: Readers) -> int:
    with readers.snapshot() as db:
        return int(db.execute("SELECT 7").get)


def test_an_interrupt_while_beginning_leaves_no_transaction() -> None:
    """P11: however often a read is interrupted as it begins, later reads are answered, also by that connection."""
    connections: list[Interrupted] = []

    def connect() -> apsw.Connection:
        connections.append(Interrupted(":memory:"))
        connections[-1].interrupts = 3 * READERS_MAX
        return connections[-1]

    readers = Readers(connect)
    for _ in range(3 * READERS_MAX):
        with pytest.raises(KeyboardInterrupt):
            _read(readers)
    assert _read(readers) == 7
    assert len(connections) == 1


def test_an_interrupt_while_ending_leaves_no_transaction() -> None:
    """P11: a connection whose transaction an interrupt has left open begins its next one all the same."""
    readers = Readers(lambda: StuckRollback(":memory:"))
    with pytest.raises(KeyboardInterrupt):
        _read(readers)
    assert _read(readers) == 7


def test_readers_are_bounded_and_take_turns() -> None:
    """P11: more threads than connections are all answered, by no more connections than there may be."""
    made: list[apsw.Connection] = []

    def connect() -> apsw.Connection:
        made.append(apsw.Connection(":memory:"))
        return made[-1]

    readers, answers = Readers(connect), list[int]()
    threads = [threading.Thread(target=lambda: answers.append(_read(readers))) for _ in range(3 * READERS_MAX)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [7] * 3 * READERS_MAX
    assert len(made) <= READERS_MAX


def test_closed_readers_refuse() -> None:
    """A pool that was closed gives no connection any more, and may be closed again."""
    readers = Readers(lambda: apsw.Connection(":memory:"))
    assert _read(readers) == 7
    readers.close()
    readers.close()
    with pytest.raises(StoreClosed):
        _read(readers)
