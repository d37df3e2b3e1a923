"""A store that an older version made is opened, brought up to date, and read as it was written."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from turnlog.engines.sqlite import connect
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreVersion
from turnlog.events.clock import SystemClock
from turnlog.testing import writes
from turnlog.testing.writes import commit, stored_turn


def _older(new: Path, path: Path, version: int) -> None:
    """Make `path` as the scripts up to `version` do, with the rows of `new`."""
    db = apsw.Connection(str(path))
    for number, script in connect.migrations().items():
        if number <= version:
            db.execute(script)
    db.execute("ATTACH ? AS new", (str(new),))
    for (table,) in list(db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")):
        columns = ", ".join(f'"{name}"' for _, name, *_ in db.execute(f"PRAGMA main.table_info({table})"))
        db.execute(f"DELETE FROM main.{table}")
        db.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    db.pragma("application_id", connect.APPLICATION_ID)
    db.pragma("user_version", version)
    db.execute("DETACH new")
    db.pragma("journal_mode", "wal")
    db.close()


def test_a_store_of_the_first_version_is_migrated(tmp_path: Path) -> None:
    """P10: threads, turns, events and drafts are read as they were; pins and snapshots can be stored from then on."""
    new, path = tmp_path / "new.db", tmp_path / "store.db"
    engine = SqliteEngine(new, SystemClock())
    row = writes.started_turn(engine, "T", "t1")
    commit(engine, writes.draft(row, "d", b"text", after=2))
    commit(engine, *[writes.note(f"U{n}", base=0, updated_at=n) for n in range(3)])
    epoch, tail, threads = engine.epoch, engine.tail("T", after=0, rev=0, limit=9), engine.threads(limit=9)
    engine.close()
    _older(new, path, 1)
    engine = SqliteEngine(path, SystemClock())
    assert (engine.epoch, engine.tail("T", after=0, rev=0, limit=9), engine.threads(limit=9)) == (epoch, tail, threads)
    assert stored_turn(engine, "T", "t1") == row
    pinned = replace(writes.note("U0", base=1), thread_row=replace(writes.thread_row("U0", updated_at=0), pinned=True))
    commit(engine, pinned, writes.snapshot("T", "t1", b"page", seq=2))
    assert [thread.thread for thread in engine.threads(limit=9).rows] == ["U0", "T", "U2", "U1"]
    assert engine.snapshot("T", "t1") is not None
    assert list(engine.check()) == []
    engine.close()
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == max(connect.migrations())
    db.close()


def test_a_store_that_became_newer_is_written_no_more(tmp_path: Path) -> None:
    """P4: a process that has a store open while a newer version migrates it is refused, and nothing of it is stored."""
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, SystemClock())
    commit(engine, writes.note("T", base=0))
    db = apsw.Connection(str(path))
    db.pragma("user_version", max(connect.migrations()) + 1)
    with pytest.raises(StoreVersion):
        commit(engine, writes.note("T", base=1))
    with pytest.raises(StoreVersion):
        engine.lease("owner1", 30.0)
    db.pragma("user_version", max(connect.migrations()))
    db.close()
    commit(engine, writes.note("T", base=1))
    assert engine.threads(limit=9).rows[0].head == 2
    engine.close()
