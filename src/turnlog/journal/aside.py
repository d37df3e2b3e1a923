"""Reads beside the event loop: a follower's loop serves others while the store is read for it.

One thread for all of a log: it takes what waits together, so that a loop with hundreds of followers is woken once for
them and not once for each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from turnlog.errors import StoreClosed
from turnlog.journal.receipt import Receipt, outcome_of, settle
from turnlog.limits import CLOSE_WAIT_S, READS_TOGETHER_MAX

T = TypeVar("T")


class Aside:
    """Runs reads in a thread of its own, which begins with the first of them."""

    def __init__(self) -> None:
        # A bare lock is entered in one step, as in the writer.
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._waiting: deque[tuple[Callable[[], Any], Receipt[Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def read(self, task: Callable[[], T]) -> Receipt[T]:
        """What `task` gives or raises. Raises `StoreClosed` after `close`."""
        receipt: Receipt[T] = Receipt()
        with self._mutex:
            if self._closed:
                raise StoreClosed
            self._waiting.append((task, receipt))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="turnlog-reads", daemon=True)
                self._thread.start()
            self._wake.notify()
        return receipt

    def close(self) -> None:
        """Finish what waits, and stop. Idempotent."""
        with self._mutex:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        while tasks := self._take():
            settle([outcome_of(task, receipt) for task, receipt in tasks])

    def _take(self) -> list[tuple[Callable[[], Any], Receipt[Any]]]:
        """Wait for reads; none when it is closed."""
        with self._mutex:
            while not self._waiting and not self._closed:
                self._wake.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), READS_TOGETHER_MAX))]
