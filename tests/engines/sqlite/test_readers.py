"""The pool of reading connections."""

from __future__ import annotations

import linecache
import sys
import threading
from pathlib import Path
from types import FrameType

import apsw
import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.engines.sqlite.readers import Readers
from turnlog.errors import StoreClosed
from turnlog.events.clock import SystemClock
from turnlog.limits import READERS_MAX

WAIT_S = 20.0


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
    return readers.read(lambda db: int(db.execute("SELECT 7").get))


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


FILES = ("readers.py", "sqlite/engine.py", "contextlib.py")


class InterruptedAt:
    """Raises an interrupt at the `n`-th line that is run in some files, in this thread.

    Not where a tracer can raise and no signal is looked for: at a `try`, and at the end of a `with`, which is its line.
    """

    def __init__(self, n: int) -> None:
        self.left = n
        self._entered: set[tuple[FrameType, int]] = set()

    def __call__(self, frame: FrameType, event: str, arg: object) -> InterruptedAt:
        if event == "line" and frame.f_code.co_filename.endswith(FILES) and not self._is_nowhere(frame):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def _is_nowhere(self, frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if not line.startswith("with "):
            return line == "try:"
        place = (frame, frame.f_lineno)
        again = place in self._entered
        self._entered.add(place)
        return again


@pytest.mark.parametrize("what", ["read", "write"])
def test_an_interrupt_at_any_line_keeps_nobody_waiting(tmp_path: Path, what: str) -> None:
    """P8, P11: wherever an interrupt meets a read or a write, the store closes at once, and others write to it."""
    before, done, n = sys.gettrace(), False, 0
    caught: KeyboardInterrupt | None = None
    while not done:
        n += 1
        engine = SqliteEngine(tmp_path / "store.db", SystemClock())
        sys.settrace(InterruptedAt(n))
        try:
            if what == "read":
                engine.threads(limit=9)
            else:
                engine.lease("owner1", 30.0)
            done = True
        except KeyboardInterrupt as error:
            caught = error  # whoever handles it still has its frames, and what these hold
        finally:
            sys.settrace(before)
        closing = threading.Thread(target=engine.close, daemon=True)
        closing.start()
        closing.join(WAIT_S)
        assert not closing.is_alive(), f"interrupt number {n}"
    assert n > 10
    assert caught is not None
