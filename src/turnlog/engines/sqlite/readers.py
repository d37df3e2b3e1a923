"""A bounded pool of reading connections."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from turnlog.engines.sqlite.faults import translated
from turnlog.errors import StoreClosed
from turnlog.limits import READERS_MAX


class Readers:
    """At most `READERS_MAX` connections, opened when first needed; more threads than that take turns."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._free: queue.LifoQueue[apsw.Connection | None] = queue.LifoQueue()
        self._closed = False
        for _ in range(READERS_MAX):
            self._free.put(None)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection in a read transaction of its own."""
        db = self._free.get()
        try:
            if self._closed:
                raise StoreClosed
            with translated():
                db = db or self._connect()
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
        finally:
            self._free.put(db)

    def close(self) -> None:
        """Close every connection, waiting for those in use. Idempotent."""
        if self._closed:
            return
        self._closed = True
        # Whoever waits for a connection now gets one back, sees that this is closed, and passes it on.
        free = [self._free.get() for _ in range(READERS_MAX)]
        for db in free:
            if db is not None:
                db.close()
            self._free.put(None)
