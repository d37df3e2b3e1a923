"""Files whose POSIX locks this process holds: nothing else in it may open one of them.

Such a lock belongs to the process, not to a descriptor: closing any descriptor of the file drops it, and another
process then takes the file for one that nobody uses. An engine holds the files of its store here before it locks them.
Whoever opens files that somebody else has named, a tool of an agent above all, asks first and closes through this
module.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

FileId: TypeAlias = tuple[int, int]
"""Device and inode: links to a file, hard ones too, have the same."""

_held: Final[Counter[FileId]] = Counter()
_before_fork: Final[set[FileId]] = set()
_guard: Final = threading.Lock()


def file_id(found: os.stat_result) -> FileId:
    """What `os.stat` found, by the numbers that tell one file from all others."""
    return found.st_dev, found.st_ino


def hold(files: Iterable[FileId]) -> None:
    """Let nobody else open these files, or folders, until they are released as many times."""
    with _guard:
        _held.update(files)


def release(files: Iterable[FileId]) -> None:
    """Take back one `hold`."""
    with _guard:
        for file in files:
            _held[file] = max(0, _held[file] - 1)


def is_held(found: os.stat_result) -> bool:
    """Whether what `os.stat` or `os.lstat` found is not to be opened."""
    return _held[file_id(found)] > 0


def was_held_before_fork(found: os.stat_result) -> bool:
    """Whether the process that this one was forked from had the file in hold: what a library remembers of its locks was
    copied, and the locks were not."""
    return file_id(found) in _before_fork


def close_other(file: int) -> None:
    """Close a descriptor that was opened when its file was not held. If it is by now, the descriptor is left open."""
    with _guard:
        if not is_held(os.fstat(file)):
            os.close(file)


def _forget_all() -> None:
    """In a forked child: locks are not inherited."""
    _before_fork.update(file for file, times in _held.items() if times)
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_all)
