"""Owner locks: one file an owner, locked by `flock`, which the kernel frees when the process ends in any way.

A lock belongs to the open file, so closing another descriptor of it never disturbs the holder, and a second descriptor
in the same process is refused like one of another process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
import weakref
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from turnlog import held
from turnlog.engines.sqlite.private import FILE_MODE, create_folder, give_to_owner_of
from turnlog.errors import StoreError
from turnlog.events.ids import text_bytes
from turnlog.limits import DEAD_OWNERS_MAX

_SUFFIX: Final = ".lock"
_PLAIN: Final = re.compile("[0-9a-z]{1,64}")


class OwnerLocks:
    """The locks beside one store, and those this engine holds."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._folder = store.with_name(f"{store.name}.owners")
        self._shut: list[held.FileId] = []
        self._locks: dict[str, int] = {}
        self._guard = threading.Lock()
        _everybody.add(self)

    @property
    def held(self) -> frozenset[str]:
        """The owners whose locks this engine holds."""
        with self._guard:
            return frozenset(self._locks)

    def take(self, owner: str) -> None:
        """Hold the owner's lock, or raise `StoreError` when somebody else does."""
        with self._guard:
            if owner in self._locks:
                return
            self.make_folder()
            file = _lock(self._path(owner), create=True)
            if file is None:
                raise StoreError(detail="the owner's lock is held elsewhere")
            self._locks[owner] = file
            give_to_owner_of(self._store, file)

    def make_folder(self) -> Path:
        """The folder, made if need be; it is held until `close`."""
        create_folder(self._folder)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give_to_owner_of(self._store, folder)
            if not self._shut:
                self._shut = [held.file_id(os.fstat(folder))]
                held.hold(self._shut)
        finally:
            os.close(folder)
        return self._folder

    def is_held(self, owner: str) -> bool:
        """Whether anybody holds the owner's lock. A missing file counts as free, one we may not open as held: then the
        lease alone tells."""
        if owner in self.held:
            return True
        try:
            file = os.open(self._path(owner), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except PermissionError:
            return True
        try:
            # Shared, so that two who look at once do not take each other for the holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def remove(self, owner: str) -> None:
        """Free the owner's lock and delete its file, under the lock; nothing happens while somebody else holds it."""
        path = self._path(owner)
        with self._guard:
            file = self._locks.pop(owner, None)
        _delete(path, _lock(path, create=False) if file is None else file)

    def sweep(self, owners: Iterable[str]) -> None:
        """Delete lock files, at most `DEAD_OWNERS_MAX`, that nobody holds and that are of none of `owners`.

        A process that is killed between taking its lock and storing its row leaves one. Called under the store's write
        lock, under which locks are taken, so that no file is met before it is locked.
        """
        known = {self._path(owner).name for owner in owners}
        with os.scandir(self._folder) as found:
            names = (entry.name for entry in found if entry.name not in known and entry.is_file(follow_symlinks=False))
            orphans = list(islice((name for name in names if name.endswith(_SUFFIX)), DEAD_OWNERS_MAX))
        for name in orphans:
            _delete(self._folder / name, _lock(self._folder / name, create=False))

    def close(self) -> None:
        """Free the locks; their files stay, as they would after the death of the process."""
        with self._guard:
            files, self._locks = list(self._locks.values()), {}
            held.release(self._shut)
            self._shut = []
        for file in files:
            _free(file)

    def forget(self) -> None:
        """In a forked child: let go of the files and leave the locks to the parent."""
        files, self._locks, self._guard = list(self._locks.values()), {}, threading.Lock()
        for file in files:
            os.close(file)

    def _path(self, owner: str) -> Path:
        """An owner id is any text, and none may lead out of the folder or share a file with another."""
        name = owner if _PLAIN.fullmatch(owner) else f"x-{hashlib.sha256(text_bytes(owner)).hexdigest()}"
        return self._folder / f"{name}{_SUFFIX}"


_everybody: weakref.WeakSet[OwnerLocks] = weakref.WeakSet()


def _forget_all() -> None:
    for locks in _everybody:
        locks.forget()


os.register_at_fork(after_in_child=_forget_all)


def _lock(path: Path, *, create: bool) -> int | None:
    """Open and lock the file at `path`; None when there is none, or somebody holds it or keeps it from us."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    while True:
        try:
            file = os.open(path, flags, FILE_MODE)
        except FileNotFoundError:
            return None
        except PermissionError:
            if create:
                raise
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if create:
                os.fchmod(file, FILE_MODE)
            if _is_at(file, path):
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        # Deleted by somebody between our two steps: a lock on a file that nobody can find proves nothing.
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))


def _delete(path: Path, file: int | None) -> None:
    """Delete a lock's file, unless it could not be locked."""
    if file is not None:
        path.unlink(missing_ok=True)
        _free(file)


def _free(file: int) -> None:
    # Unlocked explicitly: a child forked a moment ago may not have closed its copy yet.
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)
