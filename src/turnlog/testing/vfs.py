"""A VFS for SQLite that sees every open, write, truncate, sync and delete, and can fail, hold or die at each.

    disk = Disk()
    with PowerVFS("power", disk=disk):
        database = apsw.Connection(path, vfs="power")
        ...
        database.close()
    for number, point in enumerate(disk.points):
        for n, image in enumerate(point.images(100)):
            image.write(folder / f"{number}-{n}")     # open it with the ordinary VFS: what did the power loss leave?

It passes everything on to the default VFS, so write-ahead logs and shared memory work. All connections to a database
must use it while it is watched. Places for traps: `write`, `truncate`, `sync` and `delete`, each `.before` and
`.after`; parts: `db`, `wal`, `journal`. Temporary files are not watched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Final

import apsw

from turnlog.testing.disk import Disk
from turnlog.testing.traps import Hold, Trap, Traps, raising

_JOURNALS: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
_WATCHED: Final = {apsw.SQLITE_OPEN_MAIN_DB: "db", apsw.SQLITE_OPEN_WAL: "wal", _JOURNALS: "journal"}
_READ_BYTES: Final = 1024 * 1024


class PowerVFS(apsw.VFS):
    """The VFS of this name, registered while the object is used as a context manager. Thread-safe.

    `disk` records what it sees; without one nothing is recorded. `traps` say what happens where.
    """

    def __init__(self, name: str, *, disk: Disk | None = None) -> None:
        if name in apsw.vfs_names():
            raise ValueError(f"there is a VFS {name!r} already")
        super().__init__(name, "")
        self.name: Final = name
        self.traps: Final = Traps()
        self._disk = disk
        self._folder: Path | None = None

    def __enter__(self) -> PowerVFS:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.traps.heal()
        self.unregister()

    # --- what tests set -----------------------------------------------------------------------------------------

    def hold(self, *, k: int = 1, part: str | None = None) -> Hold:
        """Block the k-th sync from now before it is done, until the hold is released."""
        return self.traps.hold("sync.before", k=k, part=part)

    def fail(
        self,
        code: int,
        *,
        on: Collection[str] = ("write", "sync"),
        k: int = 1,
        part: str | None = None,
        forever: bool = False,
    ) -> Trap:
        """Let the k-th operation from now of these kinds fail with this SQLite code, once or `forever` (until `heal`).

        A write that fails has written its first half; a sync that fails has made nothing durable, and no later sync
        makes it so.
        """
        places = [f"{operation}.before" for operation in on]
        return self.traps.set(places, raising(lambda: _made_to_fail(code)), k=k, part=part, forever=forever)

    def heal(self) -> None:
        """Remove all traps, so that everything works again, and release who is held."""
        self.traps.heal()

    # --- what SQLite calls --------------------------------------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file, watched if it is a database, its journal or its write-ahead log."""
        part = next((part for flag, part in _WATCHED.items() if flags[0] & flag), None)
        if name is None or part is None:
            return apsw.VFSFile("", name, flags)
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        return _File(self, name, flags, path, part)

    def xSleep(self, microseconds: int) -> int:
        """Wait for a lock. The inherited one would keep every other Python thread waiting too."""
        threading.Event().wait(microseconds / 1e6)
        return microseconds

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Delete a file; if `syncdir`, so that it stays deleted."""
        path = Path(filename)
        part = "wal" if path.name.endswith("-wal") else "journal"
        if not path.exists():
            super().xDelete(filename, syncdir)
            return
        self.traps.reach("delete.before", part)
        super().xDelete(filename, syncdir)
        if self._disk is not None:
            self._disk.deleted(path.name)
            if syncdir:
                mark = self._disk.mark(path.name, "delete.before")
                self._disk.folder_synced(path.name, mark)
        self.traps.reach("delete.after", part)

    def watch(self, path: Path, existed: bool, read: Callable[[], bytes]) -> Disk | None:
        """A file was opened, which `existed` before or not; the disk to tell what happens to it, None without one."""
        if self._disk is None:
            return None
        if self._folder not in (None, path.parent):
            raise ValueError(f"one disk is one folder: {path.parent} is not {self._folder}")
        self._folder = path.parent
        if not existed:
            self._disk.deleted(path.name)
            self._disk.created(path.name)
        elif not self._disk.knows(path.name):
            self._disk.found(path.name, read())
        return self._disk


def _made_to_fail(code: int) -> Exception:
    error = apsw.exception_for(code)
    error.args = (f"{apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes[code]}, made by a test",)
    return error


class _File(apsw.VFSFile):
    """One watched open file."""

    def __init__(self, vfs: PowerVFS, name: str | apsw.URIFilename, flags: list[int], path: Path, part: str) -> None:
        existed = path.exists()
        # As SQLite's own VFS does: the first sync of a journal that may be new syncs its folder too.
        self._syncs_folder = part != "db" and bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)
        self._name = path.name
        self._part = part
        self._traps = vfs.traps
        self._disk = vfs.watch(path, existed, self._read_all)
        if part == "db":
            self._watch_companions(vfs, path)

    def _watch_companions(self, vfs: PowerVFS, path: Path) -> None:
        """SQLite opens an older log or journal later, but it is on the disk from the beginning."""
        for suffix in ("-wal", "-journal"):
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                vfs.watch(companion, True, companion.read_bytes)

    def _read_all(self) -> bytes:
        # By SQLite's own descriptor: closing another one would drop the locks this process has on the file.
        size = self.xFileSize()
        return b"".join(self.xRead(min(_READ_BYTES, size - at), at) for at in range(0, size, _READ_BYTES))

    def xWrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write `data`; half of it when a trap makes the write fail."""
        content = bytes(data)
        try:
            self._traps.reach("write.before", self._part)
        except apsw.Error:
            self._write(content[: len(content) // 2], offset)
            raise
        self._write(content, offset)
        self._traps.reach("write.after", self._part)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._disk is not None:
            self._disk.wrote(self._name, offset, data)

    def xTruncate(self, newsize: int) -> None:
        """Cut or lengthen the file."""
        self._traps.reach("truncate.before", self._part)
        super().xTruncate(newsize)
        if self._disk is not None:
            self._disk.truncated(self._name, newsize)
        self._traps.reach("truncate.after", self._part)

    def xSync(self, flags: int) -> None:
        """Make durable what was written before this call."""
        mark = 0 if self._disk is None else self._disk.mark(self._name, "sync.before")
        try:
            self._traps.reach("sync.before", self._part)
            super().xSync(flags)
        except apsw.Error:
            if self._disk is not None:
                self._disk.synced(self._name, mark, failed=True)
            raise
        if self._disk is not None:
            self._disk.synced(self._name, mark)
            if self._syncs_folder:
                self._disk.folder_synced(self._name, mark)
        self._syncs_folder = False
        self._traps.reach("sync.after", self._part)
