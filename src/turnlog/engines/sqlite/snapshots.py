"""Snapshots: pages that are read one at a time, and given only when all of them are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from turnlog.engines.decide import Pair, SnapshotState
from turnlog.engines.protocol import SnapshotPage, SnapshotPart
from turnlog.engines.sqlite.places import PLACE_BITS, cluster_ids, place_id
from turnlog.engines.sqlite.rows import check_shape, shape
from turnlog.events.ids import text_bytes

_PAGE: Final = f"""
SELECT s.seq, s.pages, p.body
FROM turn AS t CROSS JOIN snapshot AS s ON s.turn = t.id
    CROSS JOIN snapshot_page AS p ON p.id = (s.turn << {PLACE_BITS}) + ?
WHERE t.thread = (SELECT id FROM thread WHERE thread = ?) AND t.turn = ? AND s.whole = 1
"""  # noqa: S608

_READ: Final = shape("iib")
_STATE: Final = shape("iii")

_OLDER: Final = "SELECT turn FROM snapshot WHERE thread = ? ORDER BY turn DESC LIMIT -1 OFFSET ?"


def read_snapshot(db: apsw.Connection, thread: str, turn: str, page: int) -> SnapshotPage | None:
    """See `Engine.snapshot`."""
    if page >> PLACE_BITS:
        return None
    found = db.execute(_PAGE, (page, text_bytes(thread), text_bytes(turn))).get
    if found is None:
        return None
    check_shape(found, _READ)
    seq, pages, body = found
    return SnapshotPage(seq=seq, page=page, pages=pages, body=body)


def snapshot_state(db: apsw.Connection, turn: int) -> SnapshotState | None:
    """What is stored of a turn's snapshot."""
    found = db.execute("SELECT seq, pages, whole FROM snapshot WHERE turn = ?", (turn,)).get
    if found is None:
        return None
    check_shape(found, _STATE)
    return SnapshotState(found[0], found[1], bool(found[2]))


def store_parts(
    db: apsw.Connection,
    parts: Sequence[tuple[Pair, SnapshotPart]],
    thread_ids: dict[str, int],
    turn_ids: dict[Pair, int],
) -> None:
    """Store what was decided, inside a transaction."""
    for pair, part in parts:
        _store_part(db, thread_ids[pair[0]], turn_ids[pair], part)


def _store_part(db: apsw.Connection, thread: int, turn: int, part: SnapshotPart) -> None:
    pages = part.first + len(part.pages)
    if part.first == 0:
        _delete(db, turn)
        db.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?)", (turn, thread, part.seq, pages, part.last))
    else:
        db.execute("UPDATE snapshot SET pages = ?, whole = ? WHERE turn = ?", (pages, part.last, turn))
        if db.changes() == 0:
            return
    for place, body in enumerate(part.pages, start=part.first):
        db.execute("INSERT INTO snapshot_page VALUES (?, ?)", (place_id(turn, place), body))
    if part.last:
        for older in list(db.execute(_OLDER, (thread, part.keep))):
            _delete(db, int(older[0]))


def _delete(db: apsw.Connection, turn: int) -> None:
    db.execute("DELETE FROM snapshot WHERE turn = ?", (turn,))
    db.execute("DELETE FROM snapshot_page WHERE id BETWEEN ? AND ?", cluster_ids(turn))
