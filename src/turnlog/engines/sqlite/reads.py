"""The reading statements. Each function is called inside one read transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from turnlog.engines.asked import INT64_MAX
from turnlog.engines.protocol import Chunk, Page, Record, Tail, ThreadRow
from turnlog.engines.sqlite.cursors import number_bytes, thread_place, thread_place_bytes
from turnlog.engines.sqlite.places import PLACE_BITS
from turnlog.engines.sqlite.rows import check_shape, shape, stored_text
from turnlog.errors import StoreDamaged
from turnlog.events.ids import bytes_text, text_bytes
from turnlog.limits import READ_EVENTS_MAX

_EVENT_COLUMNS: Final = "e.seq, t.turn, e.at, e.v, e.kind, e.body"
_EVENTS: Final = f"event AS e LEFT JOIN turn AS t ON t.id = e.id >> {PLACE_BITS}"
_THREAD_COLUMNS: Final = "t.pinned, t.updated_at, t.id, t.thread, t.head, t.rev, t.importing, t.fold"

_EVENT: Final = shape("iBiibb")
_CHUNK: Final = shape("bbiiiib")
_THREAD: Final = shape("iiibiii")
_HEAD: Final = shape("iiii")
_CHANGE: Final = shape("bii")

_EventRow: TypeAlias = tuple[int, bytes | None, int, int, bytes, bytes]


def read_tail(db: apsw.Connection, epoch: str, thread: str, *, after: int, rev: int, limit: int) -> Tail:
    """See `Engine.tail`."""
    found = db.execute("SELECT id, head, rev, floor FROM thread WHERE thread = ?", (text_bytes(thread),)).get
    if found is None:
        return Tail(epoch=epoch, head=0, rev=0, floor=0, events=(), chunks=())
    check_shape(found, _HEAD)
    number, head, thread_rev, floor = found
    # An event of the thread itself has no turn, so a read by seq looks each event's turn up.
    sql = f"SELECT {_EVENT_COLUMNS} FROM {_EVENTS} WHERE e.thread = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"  # noqa: S608
    events = tuple(_record(row) for row in db.execute(sql, (number, after, limit)))
    whole = max(after, events[-1].seq if events else 0) >= head
    chunks = tuple(_chunks(db, number, rev)) if whole else ()
    return Tail(epoch=epoch, head=head, rev=thread_rev, floor=floor, events=events, chunks=chunks)


def _chunks(db: apsw.Connection, thread: int, rev: int) -> Iterator[Chunk]:
    sql = """
    SELECT t.turn, c.draft, c.after, c.rev, c.chunk_rev, c."offset", c.text
    FROM chunk AS c CROSS JOIN turn AS t ON t.id = c.turn
    WHERE c.thread = ? AND c.chunk_rev > ? ORDER BY c.chunk_rev, c.id
    """
    for row in db.execute(sql, (thread, rev)):
        check_shape(row, _CHUNK)
        turn, draft, after, draft_rev, chunk_rev, offset, text = row
        yield Chunk(
            turn=stored_text(turn),
            draft=bytes_text(draft),
            after=after,
            rev=draft_rev,
            chunk_rev=chunk_rev,
            offset=offset,
            text=text,
        )


def read_events(
    db: apsw.Connection,
    thread: str,
    *,
    after: int,
    before: int | None,
    turn: str | None,
    kinds: Collection[str] | None,
    reverse: bool,
    limit: int,
    bytes_max: int,
) -> Page[Record]:
    """See `Engine.read`."""
    if turn is None:
        source, place = "e.thread = (SELECT id FROM thread WHERE thread = :thread)", "e.seq"
    else:
        source, place = _within_turn(), "e.id"
    kind = "" if kinds is None else "AND e.kind IN (SELECT unhex(value) FROM json_each(:kinds))"
    sql = f"""
    SELECT {_EVENT_COLUMNS} FROM {_EVENTS} WHERE {source} AND e.seq > :after AND e.seq < :before {kind}
    ORDER BY {place} {"DESC" if reverse else "ASC"} LIMIT :limit
    """  # noqa: S608
    values = {
        "thread": text_bytes(thread),
        "turn": text_bytes(turn or ""),
        "after": after,
        "before": INT64_MAX if before is None else before,
        "kinds": msgspec.json.encode([text_bytes(kind).hex() for kind in kinds or ()]).decode(),
        "limit": limit + 1,
    }
    try:
        return _event_page(db.execute(sql, values), limit, bytes_max)
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        place = f"seq {before} or before" if reverse else f"the event after seq {after}"
        raise StoreDamaged(detail=f"{place} of thread {thread!r}: {error}") from error


def _within_turn() -> str:
    """A turn's events by id, which lie together in order of seq. A page goes on from the id of the event it ended at,
    so that the last page of a long turn costs what the first one does."""
    cluster = """(SELECT id FROM turn WHERE thread = (SELECT id FROM thread WHERE thread = :thread) AND turn = :turn)"""
    ended = """(SELECT id FROM event WHERE thread = (SELECT id FROM thread WHERE thread = :thread) AND seq = {seq}
        AND id >> {bits} = {cluster})"""
    after = ended.format(seq=":after", bits=PLACE_BITS, cluster=cluster)
    before = ended.format(seq=":before", bits=PLACE_BITS, cluster=cluster)
    return f"""e.id > coalesce({after}, ({cluster} << {PLACE_BITS}) - 1)
        AND e.id < coalesce({before}, ({cluster} + 1) << {PLACE_BITS})"""


def _event_page(rows: apsw.Cursor, limit: int, bytes_max: int) -> Page[Record]:
    events: list[Record] = []
    size, more = 0, False
    try:
        for row in rows:
            if len(events) == limit or size >= bytes_max:
                more = True
                break
            events.append(_record(row))
            size += len(events[-1].body)
    except (apsw.CorruptError, UnicodeDecodeError):
        # What is sound before the damage is a page of its own; the next one begins with it, and raises.
        if not events:
            raise
        more = True
    rows.close(True)
    return Page(rows=tuple(events), next=number_bytes(events[-1].seq) if more else None)


def _record(row: _EventRow) -> Record:
    check_shape(row, _EVENT)
    seq, turn, at, v, kind, body = row
    return Record(
        seq=seq, turn=None if turn is None else stored_text(turn), at=at, v=v, kind=bytes_text(kind), body=body
    )


def read_threads(
    db: apsw.Connection, thread: str | None, before: bytes | None, limit: int, *, importing: bool = False
) -> Page[ThreadRow]:
    """See `Engine.threads`."""
    if thread is not None:
        sql = f"SELECT {_THREAD_COLUMNS} FROM thread AS t WHERE t.thread = ?"  # noqa: S608
        return Page(rows=tuple(_thread_row(row) for row in db.execute(sql, (text_bytes(thread),))))
    sql = f"""
    SELECT {_THREAD_COLUMNS} FROM thread AS t
    WHERE t.importing = {int(importing)} AND (t.pinned, t.updated_at, t.id) < (?, ?, ?)
    ORDER BY t.pinned DESC, t.updated_at DESC, t.id DESC LIMIT ?
    """  # noqa: S608
    rows = list(db.execute(sql, (*thread_place(before), limit + 1)))
    shown = tuple(_thread_row(row) for row in rows[:limit])
    more = thread_place_bytes(*rows[len(shown) - 1][:3]) if shown and len(rows) > limit else None
    return Page(rows=shown, next=more)


def _thread_row(row: Sequence[Any]) -> ThreadRow:
    check_shape(row[:-1], _THREAD)
    pinned, updated_at, _, thread, head, rev, importing, fold = row
    return ThreadRow(
        thread=stored_text(thread),
        head=head,
        rev=rev,
        updated_at=updated_at,
        pinned=bool(pinned),
        importing=bool(importing),
        fold=fold if isinstance(fold, bytes) else b"",  # damage of it alone is told of its thread, and hides no other
    )


def read_changes(db: apsw.Connection, since: int) -> tuple[list[str], int]:
    """Threads marked after `since`, in order of their marks, at most `READ_EVENTS_MAX`; and the last mark of them.

    Those that are being imported count, and are not told.
    """
    sql = "SELECT thread, mark, importing FROM thread WHERE mark > ? ORDER BY mark LIMIT ?"
    rows = list(db.execute(sql, (since, READ_EVENTS_MAX)))
    for row in rows:
        check_shape(row, _CHANGE)
    told = [stored_text(thread) for thread, _, importing in rows if not importing]
    return told, rows[-1][1] if rows else since


def read_mark(db: apsw.Connection) -> int:
    """The greatest mark."""
    return int(db.execute("SELECT coalesce(max(mark), 0) FROM thread").get)
