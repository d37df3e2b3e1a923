"""The write-ahead log: grown before it is needed, emptied when it is long, and neither while a commit waits for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from turnlog.engines.sqlite.connect import BusyWait
from turnlog.limits import WAL_PAGES_CHECKPOINT

_BUSY_PAGES: Final = 4 * WAL_PAGES_CHECKPOINT


class WriteAheadLog:
    """The log of the connection that writes, under whose lock all of this is called."""

    def __init__(self, db: apsw.Connection, path: Path, busy_wait: BusyWait, pregrown_bytes: int) -> None:
        self._db = db
        self._path = path
        self._busy_wait = busy_wait
        self._grow_to = pregrown_bytes
        self._pages = 0
        db.set_wal_hook(self._note_pages)

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def after_commit(self) -> None:
        """Empty a log that has grown long without a rest. The commit stands: a failure loses nothing, and whoever
        writes next to the same disk is told."""
        if self._pages >= _BUSY_PAGES:
            try:
                self._checkpoint()
            except (apsw.Error, OSError):
                self._pages = _BUSY_PAGES

    def rest(self) -> None:
        """Grow the log once, and empty it when it is long."""
        if self._grow_to:
            self._grow()
        if self._pages >= WAL_PAGES_CHECKPOINT:
            self._checkpoint()

    def _checkpoint(self) -> None:
        # Busy: another process is emptying it at this moment.
        with suppress(apsw.BusyError):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        # All of it is in the database now, unless a reader or another process is in the way; then the next commit
        # tells how long it still is.
        self._pages = 0

    def _grow(self) -> None:
        """Write pages of a transaction that is taken back: the file keeps its size and is overwritten later.

        Only a gain in speed, so it waits for nobody, and a disk without room for it is no error.
        """
        size, self._grow_to = self._grow_to, 0
        if self._path.exists() and self._path.stat().st_size >= size:
            return
        cache = self._db.pragma("cache_size")
        self._db.pragma("cache_size", 1)
        self._db.set_busy_handler(None)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            with suppress(apsw.FullError):
                self._db.execute("CREATE TABLE growth (body); INSERT INTO growth VALUES (zeroblob(?))", (size,))
        except apsw.BusyError:
            self._grow_to = size
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._db.set_busy_handler(self._busy_wait)
            self._db.pragma("cache_size", cache)
