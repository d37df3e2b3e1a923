"""What SQLite and the operating system report, in turnlog's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from turnlog.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)

_KINDS: Final[tuple[tuple[type[Exception], type[StoreError]], ...]] = (
    (apsw.BusyError, StoreBusy),
    (apsw.FullError, StoreUnavailable),
    (apsw.IOError, StoreUnavailable),
    (apsw.ReadOnlyError, StoreUnavailable),
    (apsw.CantOpenError, StoreUnavailable),
    (apsw.PermissionsError, StoreUnavailable),
    (apsw.CorruptError, StoreDamaged),
    # The header says that the file is ours before SQLite ever looks at it.
    (apsw.NotADBError, StoreDamaged),
    # A text that is none: no text was stored so.
    (UnicodeDecodeError, StoreDamaged),
    (apsw.ConnectionClosedError, StoreClosed),
    # Raised by files of ours, and let through by a VFS written in Python.
    (OSError, StoreUnavailable),
)


_LOST: Final = ("no such table", "no such column", "no such index", "malformed database schema")
"""What SQLite says of a table or an index that it has had, once the page that describes it is damaged."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise what goes wrong inside as a `StoreError`, with its cause. What has no name of its own is our defect."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        found = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), StoreError)
        if isinstance(error, apsw.SQLError) and str(error).startswith(_LOST):
            found = StoreDamaged
        raise found(detail=f"{type(error).__name__}: {error}") from error
