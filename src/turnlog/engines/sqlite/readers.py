"""A bounded pool of reading connections."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import TypeVar

import apsw

from turnlog.engines.sqlite.faults import translated
from turnlog.errors import StoreClosed
from turnlog.limits import READERS_MAX

T = TypeVar("T")


class _Reader:
    """One place for a connection. A bare lock is entered and left in one step: no interrupt leaves it taken."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.db: apsw.Connection | None = None


class Readers:
    """At most `READERS_MAX` connections, opened when first needed; more threads than that take turns.

    An interrupt from the keyboard may come between any two steps: it neither loses a connection to the others nor
    leaves one inside a transaction.
    """

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._readers = [_Reader() for _ in range(READERS_MAX)]
        self._turns = count()
        self._closed = False

    def read(self, use: Callable[[apsw.Connection], T]) -> T:
        """What `use` gives of a connection in a read transaction of its own.

        No context manager: between its `__enter__`, if that is a generator's, and the body of the `with` an interrupt
        would leave the lock taken.
        """
        reader = self._free() or self._readers[next(self._turns) % READERS_MAX]
        with reader.lock:
            if self._closed:
                raise StoreClosed
            with translated():
                db = reader.db = reader.db or self._connect()
                _end_transaction(db)
                try:
                    db.execute("BEGIN")
                    return use(db)
                finally:
                    _end_transaction(db)

    def _free(self) -> _Reader | None:
        """A place that nobody is in. Somebody may be quicker to take it: then both take turns."""
        return next((reader for reader in self._readers if not reader.lock.locked()), None)

    def close(self) -> None:
        """Close every connection, waiting for those in use. Idempotent."""
        self._closed = True
        for reader in self._readers:
            with reader.lock:
                if reader.db is not None:
                    reader.db.close()
                reader.db = None


def _end_transaction(db: apsw.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")
