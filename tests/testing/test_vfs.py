"""The VFS: holding, failing, killing, and what SQLite makes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from turnlog.testing.disk import Disk
from turnlog.testing.killing import Child
from turnlog.testing.vfs import PowerVFS

from .accounts import NAME, Acknowledged, connect, create, insert, insert_all, losses, survivors

ROWS = 6


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def vfs(disk: Disk) -> Iterator[PowerVFS]:
    with PowerVFS("faulty", disk=disk) as vfs:
        yield vfs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live"


def rows_of(folder: Path, vfs: str | None = "faulty") -> set[int]:
    reader = apsw.Connection(str(folder / NAME), vfs=vfs)
    try:
        return {row for (row,) in reader.execute("SELECT id FROM row")}
    finally:
        reader.close()


def test_the_name_is_free_again_at_the_end() -> None:
    """A VFS is registered once under its name, and not at all after its context."""
    with PowerVFS("named"):
        assert "named" in apsw.vfs_names()
        with pytest.raises(ValueError, match="already"):
            PowerVFS("named")
    assert "named" not in apsw.vfs_names()


def test_a_held_sync_holds_the_commit(vfs: PowerVFS, disk: Disk, folder: Path, tmp_path: Path) -> None:
    """P1: while the sync is held the commit has not returned, no reader sees it, and a power loss takes it."""
    connection = connect(folder, "faulty")
    create(connection)
    insert(connection, 1)
    committed = threading.Event()

    def commit() -> None:
        insert(connection, 2)
        committed.set()

    thread = threading.Thread(target=commit)
    with vfs.hold(part="wal") as hold:
        thread.start()
        hold.wait_held()
        assert not committed.is_set()
        assert rows_of(folder) == {1}
        assert survivors(disk.now().none(), tmp_path / "held") == {1}
    assert committed.wait(10)
    thread.join()
    assert rows_of(folder) == {1, 2}
    assert survivors(disk.now().none(), tmp_path / "released") == {1, 2}
    connection.close()


def durable_operations(folder: Path) -> int:
    """Writes and syncs of the log that the commits of ROWS rows make."""
    folder.mkdir()
    with PowerVFS("counting") as vfs:
        connection = connect(folder, "counting")
        create(connection)
        before = vfs.traps.reached("write.before", "wal") + vfs.traps.reached("sync.before", "wal")
        for row in range(1, ROWS + 1):
            insert(connection, row)
        after = vfs.traps.reached("write.before", "wal") + vfs.traps.reached("sync.before", "wal")
        connection.close()
    return after - before


@pytest.mark.parametrize("code", [apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC])
def test_the_kth_failure_fails_exactly_one_commit(tmp_path: Path, code: int) -> None:
    """For every k, one commit raises the code; the others are there, and a power loss takes none of them."""
    count = durable_operations(tmp_path / "counted")
    assert count > ROWS * 3
    for k in range(1, count + 1):
        folder = tmp_path / f"live-{k}"
        folder.mkdir()
        disk = Disk()
        with PowerVFS("faulty", disk=disk) as vfs:
            connection = connect(folder, "faulty")
            create(connection)
            trap = vfs.fail(code, k=k, part="wal")
            failed: list[int] = []
            for row in range(1, ROWS + 1):
                try:
                    insert(connection, row)
                except apsw.Error as error:
                    assert error.extendedresult == code  # type: ignore[attr-defined]
                    failed.append(row)
            assert (trap.fired, len(failed)) == (1, 1)
            expected = set(range(1, ROWS + 1)) - set(failed)
            assert rows_of(folder) == expected
            assert survivors(disk.now().none(), tmp_path / f"crashed-{k}") == expected
            connection.close()


def test_a_write_that_fails_has_written_its_first_half(vfs: PowerVFS, disk: Disk, folder: Path) -> None:
    """A full disk takes a part of what it is given, so that what follows meets the remains."""
    connection = connect(folder, "faulty")
    create(connection)
    disk.forget()
    size = len(disk.now().all().files[NAME + "-wal"])
    vfs.fail(apsw.SQLITE_FULL, on=("write",), part="wal")
    with pytest.raises(apsw.FullError):
        insert(connection, 1)
    frame_header_bytes = 24
    assert len(disk.now().all().files[NAME + "-wal"]) == size + frame_header_bytes // 2
    connection.close()


def test_a_failure_lasts_until_healed(vfs: PowerVFS, folder: Path) -> None:
    """A disk that is full for ever fails every commit, and works again by itself once it is healed."""
    connection = connect(folder, "faulty")
    create(connection)
    trap = vfs.fail(apsw.SQLITE_FULL, on=("write",), forever=True)
    for row in (1, 2):
        with pytest.raises(apsw.FullError):
            insert(connection, row)
    vfs.heal()
    insert(connection, 3)
    assert trap.fired >= 2
    assert rows_of(folder) == {3}
    connection.close()


def test_a_failed_checkpoint_loses_nothing(vfs: PowerVFS, disk: Disk, folder: Path, tmp_path: Path) -> None:
    """When the sync of the database fails in a checkpoint, a later checkpoint and restart of the log keep all rows."""
    connection = connect(folder, "faulty")
    create(connection)
    acknowledged = Acknowledged(disk)
    insert_all(connection, range(1, 5), acknowledged)
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), part="db")
    with pytest.raises(apsw.IOError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    insert_all(connection, range(5, 7), acknowledged)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    insert_all(connection, range(7, 9), acknowledged)
    connection.close()
    assert "sync.failed" in {point.place for point in disk.points}
    assert losses(disk, acknowledged, tmp_path / "crashed", subsets=4) == []


def test_readers_and_the_writer_use_it_at_once(vfs: PowerVFS, disk: Disk, folder: Path, tmp_path: Path) -> None:
    """Threads that read while another commits and checkpoints see beginnings of the rows, and no crash loses one."""
    connection = connect(folder, "faulty")
    create(connection)
    acknowledged = Acknowledged(disk)
    done = threading.Event()
    wrong: list[set[int]] = []

    def look() -> None:
        while not done.is_set():
            rows = rows_of(folder)
            if rows != set(range(1, len(rows) + 1)):
                wrong.append(rows)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(1, 41, 10):
        insert_all(connection, range(first, first + 10), acknowledged)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    done.set()
    for reader in readers:
        reader.join()
    connection.close()
    assert wrong == []
    assert losses(disk, acknowledged, tmp_path / "crashed", subsets=1) == []


def test_waiting_for_a_lock_stops_nobody_else(vfs: PowerVFS) -> None:
    """While SQLite waits between two attempts to get a lock, other Python threads run."""
    waiter = threading.Thread(target=vfs.xSleep, args=(300_000,))
    waiter.start()
    looks = 0
    while waiter.is_alive():
        waiter.join(0.001)
        looks += 1
    assert looks > 20


def test_two_folders_are_not_one_disk(vfs: PowerVFS, folder: Path, tmp_path: Path) -> None:
    """A second folder is refused: its files would be mixed with those of the first."""
    connect(folder, "faulty").close()
    (tmp_path / "other").mkdir()
    with pytest.raises((ValueError, apsw.Error)):
        connect(tmp_path / "other", "faulty")


@pytest.mark.parametrize("place", ["write.before", "write.after", "sync.before", "sync.after"])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_process_is_killed_at_a_named_point(tmp_path: Path, place: str, k: int) -> None:
    """P1: a child that dies at the k-th reach of a place leaves a whole database with every row it had reported."""
    script = tmp_path / "child.py"
    script.write_text(KILLED)
    with Child(script, [str(tmp_path / NAME), place, str(k)], folder=tmp_path) as child:
        assert child.killed()
        reported = {line["row"] for line in child.lines}
    assert rows_of(tmp_path, None) in (reported, reported | {len(reported) + 1})


KILLED = """
import sys
import apsw
from turnlog.testing.killing import report
from turnlog.testing.traps import kill_self
from turnlog.testing.vfs import PowerVFS

path, place, k = sys.argv[1:]
with PowerVFS("killing") as vfs:
    connection = apsw.Connection(path, vfs="killing")
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute("CREATE TABLE row (id INTEGER PRIMARY KEY)")
    vfs.traps.set(place, kill_self, k=int(k), part="wal")
    for row in range(1, 100):
        connection.execute("INSERT INTO row VALUES (?)", (row,))
        report({"row": row})
"""
