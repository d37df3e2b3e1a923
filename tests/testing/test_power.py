"""Power loss with plain SQLite databases: loss is found where SQLite promises no durability, and only there."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from turnlog.testing.disk import Disk
from turnlog.testing.replay import Kept, Operation, Wrote, tear
from turnlog.testing.vfs import PowerVFS

from .accounts import NAME, Acknowledged, connect, create, insert, insert_all, losses, survivors

SUBSETS = 12


def record(folder: Path, *, journal: str, synchronous: str) -> tuple[Disk, Acknowledged]:
    """Rows written in two openings with a checkpoint in each, recorded from the first byte to the last close."""
    folder.mkdir()
    disk = Disk()
    acknowledged = Acknowledged(disk)
    with PowerVFS("power", disk=disk):
        for first in (1, 9):
            connection = connect(folder, "power", journal=journal, synchronous=synchronous)
            create(connection)
            insert_all(connection, range(first, first + 4), acknowledged)
            if journal == "wal":
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            insert_all(connection, range(first + 4, first + 8), acknowledged)
            connection.close()
    return disk, acknowledged


@pytest.mark.parametrize(("journal", "synchronous"), [("wal", "full"), ("delete", "extra"), ("truncate", "full")])
def test_a_committed_row_survives_every_crash(tmp_path: Path, journal: str, synchronous: str) -> None:
    """P1: at every sync, whatever was kept of the unsynced, the database is whole with all acknowledged rows."""
    disk, acknowledged = record(tmp_path / "live", journal=journal, synchronous=synchronous)
    assert len(disk.points) > 40
    assert losses(disk, acknowledged, tmp_path / "crashed", subsets=SUBSETS) == []


@pytest.mark.parametrize(("journal", "synchronous"), [("wal", "normal"), ("wal", "off"), ("delete", "full")])
def test_the_harness_finds_loss_where_there_is_no_promise(tmp_path: Path, journal: str, synchronous: str) -> None:
    """A setting that does not sync every commit (a deletion, in mode DELETE) loses acknowledged rows in some crash."""
    disk, acknowledged = record(tmp_path / "live", journal=journal, synchronous=synchronous)
    none = disk.now().none()
    assert survivors(none, tmp_path / "end") <= {row for _, row in acknowledged.rows}
    points = [disk.now(), *disk.points]
    lost = [
        point
        for n, point in enumerate(points)
        if acknowledged.by(point.position) - survivors(point.none(), tmp_path / str(n))
    ]
    assert lost


def test_without_any_sync_random_subsets_are_not_whole(tmp_path: Path) -> None:
    """With synchronous=OFF and a checkpoint, subsets of the writes leave a database damaged or without its rows."""
    (tmp_path / "live").mkdir()
    disk = Disk()
    with PowerVFS("power", disk=disk):
        connection = connect(tmp_path / "live", "power", synchronous="full")
        create(connection)
        disk.forget()
        connection.pragma("synchronous", "off")
        for row in range(1, 30):
            insert(connection, row)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        point = disk.now()
        connection.close()
    damaged = 0
    for n, image in enumerate(point.images(60)):
        try:
            damaged += survivors(image, tmp_path / str(n)) != set(range(1, 30))
        except (AssertionError, apsw.Error):
            damaged += 1
    assert damaged > 10


def test_a_torn_write_is_noticed(tmp_path: Path) -> None:
    """Of a commit whose every write was kept but one page torn, WAL shows nothing, and what was before is whole."""
    (tmp_path / "live").mkdir()
    disk = Disk()
    with PowerVFS("power", disk=disk):
        connection = connect(tmp_path / "live", "power")
        create(connection)
        insert(connection, 1)
        disk.forget()
        insert(connection, 2)
        before_sync = disk.points[0]
        connection.close()

    def all_but_one_sector(operations: list[Operation]) -> list[Kept]:
        pages = [n for n, one in enumerate(operations) if isinstance(one, Wrote) and len(one.data) >= 4_096]
        kept = [Kept(n) for n in range(len(operations))]
        kept[pages[-1]] = Kept(pages[-1], tuple(range(1, len(tear(operations[pages[-1]])))))
        return kept

    assert survivors(before_sync.all(), tmp_path / "all") == {1, 2}
    torn = disk.image(before_sync.position, all_but_one_sector)
    assert survivors(torn, tmp_path / "torn") == {1}


@pytest.mark.parametrize("settles", [False, True])
def test_a_process_may_show_what_the_power_still_takes(tmp_path: Path, settles: bool) -> None:
    """P2: a row whose process was killed before its sync is seen next, and lost unless a new sync covers it."""
    (tmp_path / "live").mkdir()
    disk = Disk()
    with PowerVFS("power", disk=disk):
        connection = connect(tmp_path / "live", "power")
        create(connection)
        insert(connection, 1)
        disk.forget()
        insert(connection, 2)
        before_sync = disk.points[0]
        connection.close()
    after = before_sync.killed(tmp_path / "killed")
    with PowerVFS("power", disk=after):
        connection = connect(tmp_path / "killed", "power")
        if settles:
            connection.pragma("user_version", 1)
        assert {row for (row,) in connection.execute("SELECT id FROM row")} == {1, 2}
        point = after.now()
        connection.close()
    assert survivors(point.none(), tmp_path / "lost") == ({1, 2} if settles else {1})


def test_a_database_that_was_there_before_is_known(tmp_path: Path) -> None:
    """A database with rows in its write-ahead log, opened through the VFS, has them in every crash from then on."""
    (tmp_path / "earlier").mkdir()
    earlier = connect(tmp_path / "earlier", None)
    create(earlier)
    insert(earlier, 1)
    (tmp_path / "live").mkdir()
    for file in (tmp_path / "earlier").iterdir():
        if not file.name.endswith("-shm"):
            (tmp_path / "live" / file.name).write_bytes(file.read_bytes())
    earlier.close()
    disk = Disk()
    acknowledged = Acknowledged(disk)
    acknowledged.rows.append((0, 1))
    with PowerVFS("power", disk=disk):
        connection = apsw.Connection(str(tmp_path / "live" / NAME), vfs="power")
        at_open = disk.now()
        connection.close()
        connection = connect(tmp_path / "live", "power")
        insert_all(connection, range(2, 6), acknowledged)
        connection.close()
    assert survivors(at_open.none(), tmp_path / "open") == {1}
    assert losses(disk, acknowledged, tmp_path / "crashed", subsets=SUBSETS) == []
