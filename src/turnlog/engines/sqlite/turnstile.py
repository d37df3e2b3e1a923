"""Whose turn it is to write: processes that commit in a loop let each other in, in the order in which they came.

SQLite's own lock keeps two from writing at once, but whoever lets go of it and comes back takes it before those who
wait. So writers first pass two lock files: they stand in the *line*, its first one waits at the *gate*, and leaves the
line once the gate is its own. Who comes out of the gate and wants in again finds somebody in the line already.

Nothing but fairness rests on this. Who waits in vain, as somebody stands still inside, goes on without, and SQLite's
own lock decides.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

from turnlog import held
from turnlog.engines.sqlite.private import FILE_MODE, give_to_owner_of


class _Place(Enum):
    """Where this process's writer is."""

    AWAY = auto()
    WAITING = auto()
    INSIDE = auto()
    GIVEN_UP = auto()
    """The thread that waits is still in the line; it lets the next one in as soon as it gets through."""
    CLOSED = auto()


class Turnstile:
    """The two files in `folder`, opened for one writer: it is used by one thread at a time.

    A lock that is waited for in the kernel is handed over in the order of asking, and costs nothing meanwhile; but such
    a wait has no end, so a thread of its own does it, which is started when first somebody has to wait.
    """

    def __init__(self, store: Path, folder: Path, wait_s: float) -> None:
        self._wait_s = wait_s
        self._line, self._gate = (_open(store, folder / name) for name in ("line", "gate"))
        self._files: tuple[int, ...] = (self._line, self._gate)
        self._held = [held.file_id(os.fstat(file)) for file in (self._line, self._gate)]
        held.hold(self._held)
        self._guard = threading.Lock()
        self._moved = threading.Condition(self._guard)
        self._place = _Place.AWAY
        self._thread: threading.Thread | None = None
        _everybody.add(self)

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Inside for the time of a `with`, once it is our turn; after `wait_s` seconds all the same."""
        inside = self._enter()
        try:
            yield
        finally:
            if inside:
                self._leave()

    def _enter(self) -> bool:
        with self._guard:
            if self._place is not _Place.AWAY:
                return False
            if _lock_at_once(self._line) and _lock_at_once(self._gate):
                _unlock(self._line)
                self._place = _Place.INSIDE
                return True
            try:
                self._place = _Place.WAITING
                self._send_thread()
                self._moved.wait_for(lambda: self._place is not _Place.WAITING, self._wait_s)
            except BaseException:  # an interrupt from the keyboard
                self._turn_away()
                raise
            if self._place is _Place.WAITING:
                self._place = _Place.GIVEN_UP
            return self._place is _Place.INSIDE

    def _turn_away(self) -> None:
        """Who waited goes away. The caller holds the guard."""
        if self._place is _Place.WAITING:
            self._place = _Place.GIVEN_UP
        elif self._place is _Place.INSIDE:
            self._place = _Place.AWAY
            _unlock(self._gate)

    def _leave(self) -> None:
        with self._guard:
            self._place = _Place.AWAY
            _unlock(self._gate)

    def _send_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="turnlog-turnstile", daemon=True)
            self._thread.start()
        self._moved.notify_all()

    def _wait(self) -> None:
        """Stand in the line whenever the writer has to, in a thread of its own."""
        while True:
            with self._guard:
                # Also for who gave up before this thread had seen it wait: its place in the line is still to be left.
                self._moved.wait_for(lambda: self._place not in (_Place.AWAY, _Place.INSIDE))
                if self._is_closed():
                    self._close_files()
                    return
            fcntl.flock(self._line, fcntl.LOCK_EX)
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            with self._guard:
                if self._is_closed():
                    self._close_files()
                    return
                _unlock(self._line)
                if self._place is _Place.WAITING:
                    self._place = _Place.INSIDE
                    self._moved.notify_all()
                else:
                    self._place = _Place.AWAY
                    _unlock(self._gate)

    def _is_closed(self) -> bool:
        return self._place is _Place.CLOSED

    def close(self) -> None:
        """Give the files back. Who is still in the line with them closes them when it gets through."""
        with self._guard:
            place, self._place = self._place, _Place.CLOSED
            if place is _Place.CLOSED:
                return
            held.release(self._held)
            self._moved.notify_all()
            if place is not _Place.GIVEN_UP:
                self._close_files()
        if self._thread is not None and place is not _Place.GIVEN_UP:
            self._thread.join()

    def _close_files(self) -> None:
        """Once, by whoever comes first."""
        files, self._files = self._files, ()
        # Unlocked explicitly: a child forked a moment ago may not have closed its copy yet.
        for file in files:
            _unlock(file)
            os.close(file)

    def forget(self) -> None:
        """In a forked child: let go of the files and leave the locks to the parent."""
        self._guard = threading.Lock()
        self._moved = threading.Condition(self._guard)
        if self._place is not _Place.CLOSED:
            self._place = _Place.CLOSED
            for file in self._files:
                os.close(file)


_everybody: weakref.WeakSet[Turnstile] = weakref.WeakSet()


def _forget_all() -> None:
    for turnstile in _everybody:
        turnstile.forget()


os.register_at_fork(after_in_child=_forget_all)


def _open(store: Path, path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        if os.fstat(file).st_uid == os.geteuid():
            os.fchmod(file, FILE_MODE)
            give_to_owner_of(store, file)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock_at_once(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)
