"""A database of numbered rows, one commit each, and what a crash left of it: the measure for the VFS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from turnlog.testing.disk import Disk, Image

NAME = "rows.db"


@dataclass
class Acknowledged:
    """Rows by the position of the disk at which their commit had returned."""

    disk: Disk
    rows: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: int) -> None:
        self.rows.append((self.disk.position, row))

    def by(self, position: int) -> set[int]:
        return {row for at, row in self.rows if at <= position}


def connect(folder: Path, vfs: str | None, *, journal: str = "wal", synchronous: str = "full") -> apsw.Connection:
    connection = apsw.Connection(str(folder / NAME), vfs=vfs)
    connection.set_busy_timeout(10_000)
    assert connection.pragma("journal_mode", journal) == journal
    connection.pragma("synchronous", synchronous)
    connection.pragma("wal_autocheckpoint", 0)
    return connection


def create(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS row (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE)")


def insert(connection: apsw.Connection, row: int) -> None:
    # Every third row fills some pages, so that one commit is several writes to be torn and lost apart.
    connection.execute("INSERT INTO row VALUES (?, ?)", (row, f"row {row}".encode() * (1 + row % 3 * 1_000)))


def insert_all(connection: apsw.Connection, rows: Iterable[int], acknowledged: Acknowledged) -> None:
    for row in rows:
        insert(connection, row)
        acknowledged.add(row)


def survivors(image: Image, folder: Path) -> set[int]:
    """The rows after a crash that left this image, opened as after a restart; the database must be whole."""
    image.write(folder)
    if not (folder / NAME).exists():
        return set()
    connection = apsw.Connection(str(folder / NAME))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'row'").get:
            return set()
        return {row for (row,) in connection.execute("SELECT id FROM row")}
    finally:
        connection.close()


def losses(disk: Disk, acknowledged: Acknowledged, folder: Path, *, subsets: int) -> list[str]:
    """Every image of every point in which an acknowledged row is missing, or that is not a beginning of the rows."""
    found = []
    for number, point in enumerate(disk.points):
        expected = acknowledged.by(point.position)
        for n, image in enumerate(point.images(subsets)):
            rows = survivors(image, folder / f"{number}-{n}")
            if missing := expected - rows:
                found.append(f"{point}: lost {sorted(missing)}, kept {image.kept}")
            if rows != set(range(1, len(rows) + 1)):
                found.append(f"{point}: not a beginning: {sorted(rows)}, kept {image.kept}")
    return found
