"""A folder as it really is: listed and read within bounds, never outside of it, never waiting on a strange file.

Links are never followed. Each file is reached from the root, one folder at a time, so that a folder swapped for a link
meanwhile leads nowhere. Files that this process holds, those of the open log above all, are never opened: see `held`.
Every method blocks; it is called in a thread.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol

from turnlog.agents.demo.bounds import (
    BINARY_PROBE_BYTES,
    DEPTH_MAX,
    ENTRIES_MAX,
    FILE_BYTES_MAX,
    TOTAL_BYTES_MAX,
)
from turnlog.agents.demo.shown import shown_name
from turnlog.events.kinds import Failure
from turnlog.held import close_other, is_held

Parts = tuple[str, ...]
SkipWhy = Literal[
    "hidden", "generated", "link", "special file", "binary", "too deep", "over the limit", "the store of this log"
]

GENERATED: Final = frozenset({"node_modules", "bower_components", "__pycache__", "venv", "site-packages"})
"""Folders that tools fill: their text is somebody else's."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A FIFO opened for reading would wait for a writer, a terminal would become ours.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Opener(Protocol):
    """`os.open`, or what a test gives in its place."""

    def __call__(self, path: str | Path, flags: int, mode: int = ..., *, dir_fd: int | None = None) -> int:
        """See `os.open`."""
        ...


@dataclass(frozen=True)
class File:
    """A regular file: its path from the workspace, part by part, and its size in bytes."""

    parts: Parts
    bytes: int

    @property
    def path(self) -> str:
        """The path for people."""
        return shown_name("/".join(self.parts))

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot, in lower case, or ""."""
        return PurePosixPath(self.parts[-1]).suffix.lower()


@dataclass(frozen=True)
class Problem:
    """A path that could not be read, and why."""

    path: str
    failure: Failure


@dataclass
class Listing:
    """What a folder holds. `skipped` has the paths that were left out, by reason."""

    files: list[File] = field(default_factory=list)
    folders: list[Parts] = field(default_factory=list)
    skipped: dict[SkipWhy, list[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def skip(self, why: SkipWhy, path: str) -> None:
        """Note a path that is left out."""
        self.skipped.setdefault(why, []).append(path)

    def add(self, other: Listing) -> None:
        """Take over all that another listing found."""
        self.files += other.files
        self.folders += other.folders
        self.problems += other.problems
        for why, paths in other.skipped.items():
            self.skipped.setdefault(why, []).extend(paths)


@dataclass(frozen=True)
class Text:
    """A file's lines, without their ends. `cut` tells that the file is longer than what was read."""

    lines: list[str]
    cut: bool


class Folder:
    """The workspace of one question. `stop` ends its work early, when nobody waits for it any more."""

    def __init__(self, root: Path, *, opener: Opener = os.open) -> None:
        self.root = root
        self.stop = threading.Event()
        self._opener = opener
        self._bytes_left = TOTAL_BYTES_MAX

    def listing(self, start: Parts = ()) -> Listing:
        """All files and folders under `start`, in order of their paths.

        A folder inside that cannot be opened is a problem of the listing; `OSError` is raised when `start` itself
        cannot.
        """
        listing = Listing()
        waiting, left = [start], ENTRIES_MAX
        while waiting and not self.stop.is_set():
            parts = waiting.pop()
            if left <= 0:
                listing.skip("over the limit", shown_name("/".join(parts)))
                continue
            try:
                folders, looked = self._list_one(parts, left, listing)
            except OSError as error:
                if parts == start:
                    raise
                listing.problems.append(problem(parts, error))
                continue
            left -= looked
            listing.folders += folders
            waiting += reversed(folders)
        return listing

    def _list_one(self, parts: Parts, left: int, listing: Listing) -> tuple[list[Parts], int]:
        """Note the files of one folder; return its folders, sorted, and how many names were looked at."""
        folders: list[Parts] = []
        with self._opened(parts) as fd, os.scandir(fd) as found:
            entries = list(islice(found, left + 1))
            if len(entries) > left:
                entries.pop()
                listing.skip("over the limit", shown_name("/".join((*parts, "…"))))
            for entry in sorted(entries, key=lambda entry: entry.name):
                try:
                    self._note(entry, (*parts, entry.name), listing, folders)
                except OSError as error:
                    listing.problems.append(problem((*parts, entry.name), error))
        return folders, len(entries)

    def _note(self, entry: os.DirEntry[str], parts: Parts, listing: Listing, folders: list[Parts]) -> None:
        why = self._left_out(entry, parts)
        if why is not None:
            listing.skip(why, shown_name("/".join(parts)))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(parts)
        else:
            listing.files.append(File(parts, entry.stat(follow_symlinks=False).st_size))

    @staticmethod
    def _left_out(entry: os.DirEntry[str], parts: Parts) -> SkipWhy | None:
        if entry.is_symlink():
            return "link"
        if is_held(entry.stat(follow_symlinks=False)):
            return "the store of this log"
        if entry.name.startswith("."):
            return "hidden"
        if entry.is_dir(follow_symlinks=False):
            return "generated" if entry.name in GENERATED else "too deep" if len(parts) > DEPTH_MAX else None
        return None if entry.is_file(follow_symlinks=False) else "special file"

    def read(self, file: File) -> Text | SkipWhy:
        """The text of a file (at most `FILE_BYTES_MAX` of it), or why it has none. Raises `OSError`."""
        with self._opened(file.parts[:-1]) as folder:
            if is_held(os.stat(file.parts[-1], dir_fd=folder, follow_symlinks=False)):
                return "the store of this log"
            fd = self._opener(file.parts[-1], _FILE, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return "special file"
            data = bytearray()
            while more := os.read(fd, FILE_BYTES_MAX + 1 - len(data)):
                data += more
        finally:
            close_other(fd)
        self._bytes_left -= len(data)
        text = decode(bytes(data[:FILE_BYTES_MAX]))
        return "binary" if text is None else Text(lines_of(text), len(data) > FILE_BYTES_MAX)

    @property
    def read_enough(self) -> bool:
        """Whether as much was read as one question may: a search ends here, single files can still be quoted."""
        return self._bytes_left <= 0

    @contextmanager
    def _opened(self, parts: Parts) -> Iterator[int]:
        """A descriptor of the folder `parts`, reached without following any link."""
        fd = self._opener(self.root, _DIRECTORY)
        try:
            for part in parts:
                inner = self._opener(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes) -> str | None:
    """The text of a file's bytes, or None when it is binary.

    UTF-8 with a few damaged bytes keeps all that is sound. Bytes that are nowhere UTF-8 are read as Windows-1252, the
    usual encoding of old Western files.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        return None
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text and not any(char > "\x7f" and char != "\ufffd" for char in text):
        text = data.decode("cp1252", "replace")
    return text


def lines_of(text: str) -> list[str]:
    """The lines of a text as editors number them: CR LF, LF and CR end one, nothing else does."""
    lines = re.split("\r\n|\n|\r", text)
    return lines[:-1] if lines and not lines[-1] else lines


_REASONS: Final = {
    errno.EACCES: ("permission denied", "give this user read permission on it and ask again"),
    errno.EPERM: ("permission denied", "give this user read permission on it and ask again"),
    errno.ENOENT: ("it is gone", "it was moved or deleted while I looked: ask again"),
    errno.ELOOP: ("it is a link, and links are not followed", "ask about the file it points to"),
    errno.ENOTDIR: ("it is no folder any more", "it changed while I looked: ask again"),
    errno.EIO: ("the disk cannot read it", "check the disk, or restore the file from a backup"),
    errno.EMFILE: ("too many files are open", "close some programs and ask again"),
}


def problem(parts: Parts, error: OSError) -> Problem:
    """What went wrong with a path, in words, with what a person can do about it."""
    known = _REASONS.get(error.errno or 0)
    reason, next_step = known or (error.strerror or type(error).__name__, "check the file and ask again")
    return Problem(shown_name("/".join(parts)) or ".", Failure(reason=reason, next_step=next_step))
