"""The files of an open store: kept from being opened in another way, and looked after that they stay what they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from turnlog import held
from turnlog.errors import ForkedLog, StoreUnavailable


class StoreFiles:
    """The database, its write-ahead log and that log's index, as they were when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = [path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))]
        self._known: dict[Path, held.FileId] = {}
        self._bytes = 0

    def hold_database(self) -> None:
        """Hold the database alone, before there is a connection to it: until then, whoever else closes the store last
        takes the other two away."""
        self._hold(self._names[:1])

    def hold(self) -> None:
        """Hold those files that are there and not held yet; SQLite makes the last two when it first needs them."""
        self._hold(self._names)

    def _hold(self, names: Iterable[Path]) -> None:
        for path in names:
            if path not in self._known and (found := _found(path)) is not None:
                self._known[path] = held.file_id(found)
                held.hold([self._known[path]])

    def refuse_inherited(self) -> None:
        """Raise `ForkedLog` for a store that was open when this process was forked: SQLite believes that the locks on
        it are still held, so it would wait for itself, or write while others take it for unused."""
        for path in self._names:
            if (found := _found(path)) is not None and held.was_held_before_fork(found):
                raise ForkedLog

    def release(self) -> None:
        """Let go of the files, once SQLite has closed them."""
        held.release(self._known.values())
        self._known.clear()

    def check(self) -> None:
        """Raise `StoreUnavailable` when a file is gone, another one in its place, or the database shorter than before.

        What is written into such a file is lost, though SQLite writes and syncs it without complaint.
        """
        for path, known in self._known.items():
            if (wrong := self._wrong(path, known)) is not None:
                raise StoreUnavailable(detail=f"the store's file {wrong}: {path}")

    def _wrong(self, path: Path, known: held.FileId) -> str | None:
        found = _found(path)
        if found is None:
            return "is gone"
        if held.file_id(found) != known:
            return "was replaced"
        if path == self._path:
            # A store never becomes shorter.
            if found.st_size < self._bytes:
                return "was cut short"
            self._bytes = found.st_size
        return None


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
