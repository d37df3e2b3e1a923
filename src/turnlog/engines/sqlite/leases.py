"""The rows of owners: until when each has its lease. Each function is called inside a transaction."""

from __future__ import annotations

from typing import Final

import apsw

from turnlog.engines.sqlite.rows import check_shape, shape
from turnlog.events.ids import bytes_text, text_bytes

_OWNER: Final = shape("b")
_LEASE: Final = shape("bf")
_END: Final = shape("f")


def lease_end_of(db: apsw.Connection, owner: str) -> float | None:
    """When an owner's lease ends, None when it has none."""
    found: tuple[float] | None = db.execute(
        "SELECT lease_end FROM owner WHERE owner = ?", (text_bytes(owner),)
    ).fetchone()
    if found is None:
        return None
    check_shape(found, _END)
    return found[0]


def read_leases(db: apsw.Connection) -> list[tuple[str, float]]:
    """All leases, the ended ones too."""
    rows = list(db.execute("SELECT owner, lease_end FROM owner"))
    for row in rows:
        check_shape(row, _LEASE)
    return [(name, end) for owner, end in rows if (name := _name(owner)) is not None]


def read_owners(db: apsw.Connection) -> list[str]:
    """Owners of open turns, and those that have a lease."""
    rows = list(
        db.execute("SELECT owner FROM turn WHERE phase < 2 AND owner IS NOT NULL UNION SELECT owner FROM owner")
    )
    for row in rows:
        check_shape(row, _OWNER)
    return [name for (owner,) in rows if (name := _name(owner)) is not None]


def _name(owner: bytes) -> str | None:
    """None for what is no owner's name any more: nobody has that lease, and others are not to wait for it."""
    try:
        return bytes_text(owner)
    except UnicodeDecodeError:
        return None
