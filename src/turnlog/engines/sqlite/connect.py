"""Opening a database file: whose it is, how it is created, and the settings every connection has."""

from __future__ import annotations

import re
import stat
import threading
import time
from functools import cache
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Final

import apsw

from turnlog.engines.sqlite.private import create_file
from turnlog.errors import StoreError, StoreForeign, StoreUnavailable, StoreVersion

APPLICATION_ID: Final = 0x74726E6C
"""`trnl`, in the header of every store."""

PAGE_BYTES: Final = 4_096
"""Measured against 8,192: a submission touches ten pages, so the smaller ones cost a sixth less to make durable."""

_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\x00"
_BUSY_POLL_S: Final = 0.001
_CACHE_KIB: Final = 32 * 1_024
_STATEMENTS_CACHED: Final = 256

# A process that opens a file in any way but through SQLite, and closes it, drops SQLite's locks on it. So a file is
# created and closed before any thread of this process can have opened it.
_creating = threading.Lock()


def check_library(version: str) -> None:
    """Raise `StoreVersion` for a SQLite that can lose commits when one of several processes resets the WAL.

    Fixed in 3.51.3, and in 3.50.7 and 3.44.6 for these lines.
    """
    major, minor, patch = (int(part) for part in [*version.split("."), "0"][:3])
    fixed = (major, minor, patch) >= (3, 51, 3) or (minor, patch) >= {50: (50, 7), 44: (44, 6)}.get(minor, (99, 0))
    if major != 3 or not fixed:
        raise StoreVersion(detail=f"SQLite {version} can lose commits; 3.51.3 or later is needed")


class BusyWait:
    """Waits for another process's lock in equal short steps: SQLite's own, growing ones starve who waits longest."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0

    def __call__(self, tried: int) -> bool:
        """Wait a little after `tried` attempts; False when the time is over. A step may take longer than it is meant to
        on a busy machine."""
        now = time.monotonic()
        if not tried:
            self._since = now
        time.sleep(_BUSY_POLL_S)
        return now - self._since < self._seconds


def _connect(path: Path, vfs: str | None, busy_wait_s: float, flags: int) -> apsw.Connection:
    """A connection with every setting that does not depend on what it is used for."""
    db = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=_STATEMENTS_CACHED)
    db.set_busy_handler(BusyWait(busy_wait_s))
    # Spilling a batch would write pages twice; this is a bound, not what is used.
    db.pragma("cache_size", -_CACHE_KIB)
    db.pragma("trusted_schema", 0)
    # What is sorted or set aside is people's text: it stays out of files that belong to no store.
    db.pragma("temp_store", 2)
    return db


def prepare_file(path: Path, vfs: str | None) -> None:
    """Make an empty file unless there is one. Raises `StoreForeign` for a folder or a device, which is not opened."""
    check_library(apsw.sqlite_lib_version())
    if vfs is None:
        with _creating:
            create_file(path)
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreForeign(detail=f"{path} is no regular file")


def open_writer(path: Path, vfs: str | None, busy_wait_s: float) -> apsw.Connection:
    """Open the store's prepared file for writing, migrated, in WAL mode and fully synced.

    Raises `StoreForeign` or `StoreVersion` with the file untouched.
    """
    check_header(path, vfs)
    db = _connect(path, vfs, busy_wait_s, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        db.pragma("page_size", PAGE_BYTES)
        _set(db, "secure_delete", 1)
        _migrate(db)
        _set_wal(db, busy_wait_s)
        _set(db, "synchronous", 2)
        _set(db, "fullfsync", 1)
        _set(db, "checkpoint_fullfsync", 1)
        _set(db, "wal_autocheckpoint", 0)
        # Truncating the log would make every commit after it grow the file again.
        _set(db, "journal_size_limit", -1)
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path, vfs: str | None, busy_wait_s: float) -> apsw.Connection:
    """A connection to an open store that cannot write."""
    db = _connect(path, vfs, busy_wait_s, apsw.SQLITE_OPEN_READWRITE)
    _set(db, "query_only", 1)
    return db


def _set(db: apsw.Connection, name: str, value: int) -> None:
    """Set a pragma and read it back: SQLite is silent about what it does not know."""
    db.pragma(name, value)
    if (found := db.pragma(name)) != value:
        raise StoreError(detail=f"PRAGMA {name} is {found!r}, not {value}")


def _set_wal(db: apsw.Connection, busy_wait_s: float) -> None:
    """Switch to WAL. SQLite does not call the busy handler for it, so several first openers take turns here."""
    wait = BusyWait(busy_wait_s)
    for tried in count():
        try:
            mode = db.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if not wait(tried):
                raise
        else:
            if mode != "wal":
                raise StoreUnavailable(detail=f"no write-ahead log here, only {mode!r}")
            return


def check_header(path: Path, vfs: str | None) -> None:
    """Look at the file's first bytes through SQLite's own file layer, which keeps its locks, before anything else.

    Raises `StoreForeign` or `StoreVersion` with the file untouched.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    try:
        file = apsw.VFSFile(vfs or "", str(path), [flags, 0])
    except apsw.CantOpenError:
        if vfs is None:
            raise
        return
    try:
        header = file.xRead(min(_HEADER_BYTES, file.xFileSize()), 0)
    finally:
        file.xClose()
    if not header or (not any(header) and path.with_name(f"{path.name}-journal").exists()):
        # New, or its creation lost power before the first page was there: SQLite takes back what there is of it.
        return
    application = int.from_bytes(header[68:72], "big")
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC) or application != APPLICATION_ID:
        raise StoreForeign(detail=str(path))
    _check_version(int.from_bytes(header[60:64], "big"))


def migrations() -> dict[int, str]:
    """The numbered SQL scripts, by the schema version they lead to."""
    folder = resources.files(__package__) / "migrations"
    names = sorted(file.name for file in folder.iterdir() if re.fullmatch(r"\d{4}\.sql", file.name))
    return {int(name[:4]): (folder / name).read_text("utf-8") for name in names}


def _check_version(version: int) -> None:
    if version > max(migrations()):
        raise StoreVersion(detail=f"schema {version}, known up to {max(migrations())}")


def check_version(db: apsw.Connection) -> None:
    """Raise `StoreVersion` when another process has brought the store to a later version since it was opened here.

    What this version would write there may be less than what a row has to hold.
    """
    if db.pragma("user_version") != _latest():
        _check_version(db.pragma("user_version"))


@cache
def _latest() -> int:
    return max(migrations())


def _migrate(db: apsw.Connection) -> None:
    """Bring the schema up to date, in one transaction; a new file is still in rollback mode then, so that its header
    says whose it is from the first moment on."""
    version = db.pragma("user_version")
    if version == max(migrations()):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have been first.
        version = db.pragma("user_version")
        _check_version(version)
        for number, script in migrations().items():
            if number > version:
                db.execute(script)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", max(migrations()))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
