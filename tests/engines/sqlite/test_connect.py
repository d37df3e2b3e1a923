"""Whose file it is, how it is made, and what every connection is set to."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from turnlog.engines.protocol import Done
from turnlog.engines.sqlite import connect
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import InvalidInput, StoreForeign, StoreUnavailable, StoreVersion
from turnlog.events.clock import SystemClock
from turnlog.testing import writes


def _open(path: Path) -> SqliteEngine:
    return SqliteEngine(path, SystemClock())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=[0o000, 0o777], ids=oct)
def any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_the_writer_is_fully_synced(path: Path) -> None:
    """P1: the settings that make a commit durable are what the connection really has."""
    connect.prepare_file(path, None)
    db = connect.open_writer(path, None, 1.0)
    found = {name: db.pragma(name) for name in ("journal_mode", "synchronous", "secure_delete", "page_size")}
    assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "page_size": connect.PAGE_BYTES}
    assert (db.pragma("wal_autocheckpoint"), db.pragma("journal_size_limit"), db.pragma("fullfsync")) == (0, -1, 1)
    db.close()


def test_readers_cannot_write(path: Path) -> None:
    """A connection for reading refuses to change anything."""
    _open(path).close()
    db = connect.open_reader(path, None, 1.0)
    with pytest.raises(apsw.ReadOnlyError):
        db.execute("UPDATE store SET proofs = 0")
    db.close()


@pytest.mark.usefixtures("any_umask")
def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    """C37: under the widest umask and the narrowest, each file the engine makes is 0600, and each folder 0700."""
    top = tmp_path / "one"
    engine = _open(top / "two" / "store.db")
    engine.lease("owner1", 30.0)
    engine.commit([writes.note("T", base=0)])
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (top, *top.rglob("*"))}
    engine.close()
    files = ("store.db", "store.db-wal", "store.db-shm", "owner1.lock", "line", "gate")
    folders = ("one", "two", "store.db.owners")
    assert found == dict.fromkeys(files, 0o600) | dict.fromkeys(folders, 0o700)


def test_the_schema_is_the_sum_of_the_migrations(path: Path) -> None:
    """A store just made has exactly the schema that the numbered scripts give, and says so."""
    _open(path).close()
    made = apsw.Connection(str(path))
    summed = apsw.Connection(":memory:")
    for script in connect.migrations().values():
        summed.execute(script)
    schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    assert list(made.execute(schema)) == list(summed.execute(schema))
    assert made.pragma("user_version") == max(connect.migrations())
    assert made.pragma("application_id") == connect.APPLICATION_ID
    made.close()


def test_migrations_are_numbered_from_1() -> None:
    """No schema version is without its script."""
    assert list(connect.migrations()) == list(range(1, len(connect.migrations()) + 1))


def test_a_newer_store_is_refused_untouched(path: Path) -> None:
    """A schema that is not known is not opened."""
    _open(path).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersion):
        _open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_another_applications_database_is_untouched(path: Path, mode: str) -> None:
    """A SQLite file that is not ours is refused, and no byte of it changes; nor is anything left beside it."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", mode)
    db.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreForeign):
        _open(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"xy", b"SQLite format 3\x00", b"hello\n" * 100], ids=["short", "torn", "text"])
def test_a_file_that_is_no_database_is_untouched(path: Path, content: bytes) -> None:
    """Any other file is refused too."""
    path.write_bytes(content)
    with pytest.raises(StoreForeign):
        _open(path)
    assert path.read_bytes() == content


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    """A folder, or what is not to be waited for, is refused as `StoreForeign`, and what cannot be made a file as
    `StoreUnavailable`."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("hello")
    for foreign in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(StoreForeign):
            _open(foreign)
    with pytest.raises(StoreUnavailable):
        _open(tmp_path / "text" / "store.db")


def test_looking_at_a_file_keeps_the_locks_of_an_open_store(path: Path) -> None:
    """Opening a store a second time in one process, or failing to, leaves the first one its locks."""
    first, second = _open(path), _open(path)
    other = multiprocessing.get_context("spawn").Process(target=_try_exclusive, args=(str(path),))
    other.start()
    other.join(60)
    first.close()
    second.close()
    assert other.exitcode == 0


def _try_exclusive(path: str) -> None:
    """In another process: leaving WAL mode needs the lock that every open store shares."""
    db = apsw.Connection(path)
    try:
        db.pragma("journal_mode", "delete")
    except apsw.BusyError:
        return
    raise AssertionError("the store's lock was not held")


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.50.7", "3.44.6", "3.54.1"])
def test_a_library_without_the_defect_is_taken(version: str) -> None:
    """C32: releases that keep acknowledged commits when a write-ahead log is reset."""
    connect.check_library(version)


@pytest.mark.parametrize("version", ["3.51.2", "3.50.6", "3.44.5", "3.45.0", "3.7.0", "3.51"])
def test_a_library_that_loses_commits_is_refused(version: str) -> None:
    """C32: releases that can lose them."""
    with pytest.raises(StoreVersion):
        connect.check_library(version)


def test_many_processes_open_a_new_store_at_once(path: Path) -> None:
    """C31: eight processes make and open one store at the same instant; none is refused, and all commits stand."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(8)
    processes = [context.Process(target=_open_and_commit, args=(str(path), n, gate)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 8
    engine = _open(path)
    assert {row.thread for row in engine.threads(limit=99).rows} == {f"T{n}" for n in range(8)}
    engine.close()


def _open_and_commit(path: str, number: int, gate: threading.Barrier) -> None:
    gate.wait(60)
    engine = _open(Path(path))
    for base in range(10):
        assert engine.commit([writes.note(f"T{number}", base=base)]) == [Done(head=base + 1, rev=0, fence=0)]
    engine.close()


def test_an_own_commit_ends_a_wait_without_polling(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: within a process a change is told when it happens, not at the next look at what others wrote."""
    monkeypatch.setattr("turnlog.engines.sqlite.engine.WRITER_POLL_S", 20.0)
    engine = _open(path)
    for base in range(20):
        _, position = engine.changes(b"", 0.0)
        told: list[str] = []
        waiter = threading.Thread(target=lambda at, to: to.extend(engine.changes(at, 60.0)[0]), args=(position, told))
        waiter.start()
        engine.commit([writes.note("T", base=base)])
        waiter.join(10.0)
        assert told == ["T"]
    engine.close()


class _NotingVFS(apsw.VFS):
    """Keeps the flags of every file that is opened."""

    def __init__(self) -> None:
        super().__init__("noting", "")
        self.flags: list[int] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        self.flags.append(flags[0])
        return apsw.VFSFile("", name, flags)


def test_nothing_is_written_outside_the_store(path: Path) -> None:
    """P12: however large a batch or a list, no text goes into temporary files."""
    vfs = _NotingVFS()
    engine = SqliteEngine(path, SystemClock(), vfs="noting")
    for base in range(2):
        batch = [writes.submission(f"T{n}", f"t{n}-{base}", base=base, key=f"k{n}-{base}") for n in range(3_000)]
        assert {type(outcome) for outcome in engine.commit(batch)} == {Done}
    assert len(engine.turns(open_only=True, limit=9_999).rows) == 6_000
    engine.close()
    ours = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
    assert [flags for flags in vfs.flags if not flags & ours] == []
    vfs.unregister()


def test_a_cursor_of_another_list_is_refused(path: Path) -> None:
    """Bytes that are no position in a list raise, and are not taken for one."""
    engine = _open(path)
    with pytest.raises(InvalidInput):
        engine.threads(before=b"x", limit=1)
    with pytest.raises(InvalidInput):
        engine.changes(b"x", 0.0)
    engine.close()
