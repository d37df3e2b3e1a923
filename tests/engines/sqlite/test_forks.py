"""Stores in forked children: SQLite's memory of its locks is copied, and the locks are not."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import ForkedLog
from turnlog.events.clock import SystemClock
from turnlog.testing import writes
from turnlog.testing.writes import commit

WAIT_S = 30.0


def opened(path: Path) -> SqliteEngine:
    return SqliteEngine(path, SystemClock(), busy_wait_s=1.0)


def in_child(act: Callable[[], None]) -> str:
    """What becomes of an act in a forked child: "done", or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "done"
        try:
            act()
        except BaseException as error:
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], WAIT_S)
    said = os.read(reading, 100).decode() if ready else "it hangs"
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said


def write(path: Path) -> None:
    engine = opened(path)
    commit(engine, writes.submission("T", f"of {os.getpid()}"))
    engine.close()


def test_a_store_that_was_open_at_the_fork_is_refused(tmp_path: Path) -> None:
    """C31, P7: a child is told at once, under whatever name, instead of waiting for itself or writing unlocked."""
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    engine = opened(path)
    link.symlink_to(path)
    try:
        assert in_child(lambda: write(path)) == ForkedLog.__name__
        assert in_child(lambda: write(link)) == ForkedLog.__name__
        assert in_child(lambda: write(tmp_path / "other.db")) == "done"
        commit(engine, writes.submission("T", "of the parent"))
    finally:
        engine.close()


def test_a_store_that_was_closed_before_the_fork_is_opened(tmp_path: Path) -> None:
    """C31: a child of a process that has closed a store, and its parent again, write to it as anybody does."""
    path = tmp_path / "store.db"
    opened(path).close()
    assert in_child(lambda: write(path)) == "done"
    engine = opened(path)
    try:
        assert len(engine.turns(thread="T", limit=9).rows) == 1
    finally:
        engine.close()
