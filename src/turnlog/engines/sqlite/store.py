"""Storing a decision, in about one statement a table.

`OR ROLLBACK`: a constraint that fails ends the whole transaction. It would anyway, and so SQLite need not copy every
page aside to take back a single statement.
"""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

from turnlog.engines.decide import Decision, Pair
from turnlog.engines.protocol import Chunk, Record, ThreadRow, TurnRow
from turnlog.engines.sqlite.facts import UNREAD, Stored
from turnlog.engines.sqlite.places import PLACE_BITS, cluster_ids, place_id
from turnlog.engines.sqlite.rows import SqlRow, write_rows
from turnlog.engines.sqlite.snapshots import store_parts
from turnlog.events.ids import text_bytes

_THREADS: Final = """
INSERT OR ROLLBACK INTO thread (id, thread, head, rev, updated_at, mark, fold, pinned, importing) VALUES {rows}
ON CONFLICT (id) DO UPDATE SET head = excluded.head, rev = excluded.rev, updated_at = excluded.updated_at,
    mark = excluded.mark, fold = excluded.fold, pinned = excluded.pinned, importing = excluded.importing
"""

# Without the columns that drafts leave alone, and the index of one of them.
_THREADS_MOVED: Final = """
WITH moved (id, head, rev, mark) AS (VALUES {rows})
UPDATE OR ROLLBACK thread SET head = moved.head, rev = moved.rev, mark = moved.mark FROM moved
WHERE thread.id = moved.id
"""

_TURNS: Final = """
INSERT OR ROLLBACK INTO turn
    (id, thread, turn, key, digest, retry_of, phase, owner, fence, seq_first, seq_last, places, fold)
VALUES {rows}
ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, owner = excluded.owner, fence = excluded.fence,
    seq_first = excluded.seq_first, seq_last = excluded.seq_last, places = excluded.places, fold = excluded.fold
"""

# The greatest place alone: what is stored may have holes.
_PLACES: Final = f"SELECT (max(id) & {(1 << PLACE_BITS) - 1}) + 1 FROM event WHERE id BETWEEN ? AND ?"  # noqa: S608

_EVENTS: Final = "INSERT OR ROLLBACK INTO event (id, thread, seq, at, v, kind, body) VALUES {rows}"

_CHUNKS: Final = """
INSERT OR ROLLBACK INTO chunk (thread, turn, draft, after, rev, chunk_rev, "offset", text) VALUES {rows}
"""

_DROPS: Final = """
DELETE FROM chunk WHERE thread IN (SELECT value ->> 0 FROM json_each(?1))
    AND (turn, draft) IN (SELECT value ->> 1, unhex(value ->> 2) FROM json_each(?1))
"""


def store(db: apsw.Connection, decision: Decision, stored: Stored) -> None:
    """Write what was decided, inside a transaction."""
    for name in decision.threads:
        if name not in stored.thread_ids:
            stored.thread_ids[name] = stored.next_number()
    _find_places(db, decision, stored)
    events = _event_rows(decision, stored)
    turns = _turn_rows(decision, stored)
    # The marks come last: they are the greatest numbers, and that is how the next batch knows which are taken.
    _store_threads(db, decision, stored)
    write_rows(db, _TURNS, turns)
    write_rows(db, _EVENTS, events)
    _store_drafts(db, decision, stored)
    store_parts(db, decision.snapshots, stored.thread_ids, stored.turn_ids)


def _find_places(db: apsw.Connection, decision: Decision, stored: Stored) -> None:
    for pair in decision.rebuilt:
        stored.places[pair] = db.execute(_PLACES, cluster_ids(_turn_id(pair, stored))).get or 0
        stored.grown.add(pair)


def _event_rows(decision: Decision, stored: Stored) -> list[SqlRow]:
    """Events with their places. New turns get their numbers on the way, so that a batch's events lie in one stretch."""
    own_clusters: dict[str, int] = {}
    own_places: dict[str, int] = {}
    rows: list[SqlRow] = []
    for name, event in decision.events:
        if event.turn is None:
            cluster = own_clusters.get(name) or own_clusters.setdefault(name, stored.next_number())
            place = own_places.get(name, 0)
            own_places[name] = place + 1
        else:
            pair = (name, event.turn)
            cluster = _turn_id(pair, stored)
            place = stored.places.get(pair, 0)
            stored.places[pair] = place + 1
            stored.grown.add(pair)
        rows.append(_event_row(place_id(cluster, place), stored.thread_ids[name], event))
    return rows


def _event_row(number: int, thread: int, event: Record) -> SqlRow:
    return number, thread, event.seq, event.at, event.v, text_bytes(event.kind), event.body


def _turn_id(pair: Pair, stored: Stored) -> int:
    return stored.turn_ids.get(pair) or stored.turn_ids.setdefault(pair, stored.next_number())


def _store_threads(db: apsw.Connection, decision: Decision, stored: Stored) -> None:
    whole: list[SqlRow] = []
    moved: list[SqlRow] = []
    for name, row in decision.threads.items():
        number, mark = stored.thread_ids[name], stored.next_number()
        if row.fold is UNREAD:
            moved.append((number, row.head, row.rev, mark))
        else:
            whole.append(_thread_row(number, row, mark))
    write_rows(db, _THREADS, whole)
    write_rows(db, _THREADS_MOVED, moved)


def _thread_row(number: int, row: ThreadRow, mark: int) -> SqlRow:
    return number, text_bytes(row.thread), row.head, row.rev, row.updated_at, mark, row.fold, row.pinned, row.importing


def _turn_rows(decision: Decision, stored: Stored) -> list[SqlRow]:
    # Settled turns first: the index lets a thread's next turn start only when the last one is not started any more.
    rows = sorted(decision.turns.items(), key=lambda item: -item[1].phase)
    return [
        _turn_row(_turn_id(pair, stored), stored.thread_ids[row.thread], row, stored.places.get(pair, 0))
        for pair, row in rows
        if row != stored.turns.get(pair) or pair in stored.grown
    ]


def _turn_row(number: int, thread: int, row: TurnRow, places: int) -> SqlRow:
    return (
        number,
        thread,
        text_bytes(row.turn),
        _text(row.key),
        text_bytes(row.digest),
        _text(row.retry_of),
        int(row.phase),
        _text(row.owner),
        row.fence,
        row.seq_first,
        row.seq_last,
        places,
        row.fold,
    )


def _text(text: str | None) -> bytes | None:
    return None if text is None else text_bytes(text)


def _store_drafts(db: apsw.Connection, decision: Decision, stored: Stored) -> None:
    drops = [
        (stored.thread_ids[pair[0]], _turn_id(pair, stored), text_bytes(draft).hex())
        for pair, drafts in decision.drops.items()
        for draft in drafts
    ]
    if drops:
        db.execute(_DROPS, (msgspec.json.encode(drops).decode(),))
    rows = [
        _chunk_row(stored.thread_ids[pair[0]], _turn_id(pair, stored), chunk)
        for pair, chunks in decision.chunks.items()
        for chunk in chunks
    ]
    write_rows(db, _CHUNKS, rows)


def _chunk_row(thread: int, turn: int, chunk: Chunk) -> SqlRow:
    place = (chunk.after, chunk.rev, chunk.chunk_rev, chunk.offset)
    return thread, turn, text_bytes(chunk.draft), *place, chunk.text
