"""Records and rows read back: what lies in the events is the truth, and a row that cannot be read is folded again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from turnlog.engines.protocol import Chunk, Engine, Phase, Record, ThreadRow, TurnRow
from turnlog.errors import RecordDamaged, StoreDamaged
from turnlog.events.codec import decode_body
from turnlog.events.ids import bytes_text
from turnlog.events.kinds import Damaged, Draft, Event, Submitted, ThreadCreated, ThreadLate
from turnlog.events.thread_kinds import ThreadForked, ThreadRenamed, ThreadSettings, ThreadTruncated
from turnlog.folds.states import State
from turnlog.folds.thread import ThreadFold, decode_thread_fold, fold_thread
from turnlog.folds.turn import TurnView, decode_view, fold_turn
from turnlog.limits import READ_BYTES_MAX, READ_EVENTS_MAX


def decode_record(thread: str, record: Record) -> Event:
    """The event that an engine's record holds."""
    return Event(
        thread=thread,
        seq=record.seq,
        turn=record.turn,
        at=record.at,
        kind=record.kind,
        v=record.v,
        body=decode_body(record.kind, record.v, record.body),
        data=record.body,
    )


def decode_chunk(chunk: Chunk) -> Draft:
    """The draft chunk that an engine's chunk holds."""
    return Draft(
        turn=chunk.turn,
        draft=chunk.draft,
        after=chunk.after,
        rev=chunk.rev,
        chunk_rev=chunk.chunk_rev,
        offset=chunk.offset,
        text=_chunk_text(chunk.text),
    )


def _chunk_text(data: bytes) -> str:
    """The text of a chunk. Where it is damaged, the bytes are shown as such: the rest of it was seen by somebody."""
    try:
        return bytes_text(data)
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def read_events(
    engine: Engine,
    thread: str,
    after: int,
    *,
    before: int | None = None,
    turn: str | None = None,
    kinds: Collection[str] | None = None,
    bytes_max: int = READ_BYTES_MAX,
) -> Iterator[Event]:
    """Events with `after` < seq < `before`, of one turn or some kinds, in order, page by page of `bytes_max`."""
    while True:
        try:
            page = engine.read(
                thread,
                after=after,
                before=before,
                turn=turn,
                kinds=kinds,
                limit=READ_EVENTS_MAX,
                bytes_max=bytes_max,
            )
        except StoreDamaged as damage:
            stop = _head(engine, thread, damage)
            stop = stop if before is None else min(stop, before - 1)
            last = min(stop, after + READ_EVENTS_MAX)
            yield from _around(engine, thread, range(after + 1, last + 1), turn, kinds)
            if last >= stop:
                return
            after = last
            continue
        for record in page.rows:
            after = record.seq
            yield decode_record(thread, record)
        if page.next is None:
            return


def _head(engine: Engine, thread: str, damage: StoreDamaged) -> int:
    """How far a thread goes that cannot be read as a whole."""
    rows = engine.threads(thread=thread, limit=1).rows
    if not rows:
        raise damage
    return rows[0].head


def _around(
    engine: Engine, thread: str, seqs: range, turn: str | None, kinds: Collection[str] | None
) -> Iterator[Event]:
    """Events read one by one, because the store is damaged where one of them lies: that one is told by its place.

    Of one whose bytes cannot be read nobody knows the turn: whoever reads a turn is told of those that lie in it.
    """
    within = seqs if turn is None else _within(engine, thread, turn)
    for seq in seqs:
        try:
            rows = engine.read(thread, after=seq - 1, before=seq + 1, limit=1, bytes_max=READ_BYTES_MAX).rows
        except StoreDamaged as damage:
            if kinds is None and seq in within:
                yield _unreadable(thread, seq, turn, damage)
            continue
        for record in rows:
            if turn in (None, record.turn) and (kinds is None or record.kind in kinds):
                yield decode_record(thread, record)


def _within(engine: Engine, thread: str, turn: str) -> range:
    rows = engine.turns(thread=thread, turn=turn, limit=1).rows
    return range(rows[0].seq_first, rows[0].seq_last + 1) if rows else range(0)


def _unreadable(thread: str, seq: int, turn: str | None, damage: StoreDamaged) -> Event:
    body = Damaged(problem=damage.detail or "the store is damaged here")
    return Event(thread=thread, seq=seq, turn=turn, at=0, kind=Damaged.kind, body=body, data=b"")


def turn_view(engine: Engine, row: TurnRow) -> TurnView:
    """The view in a row; a damaged one is folded again from the turn's events, and `damaged` tells."""
    try:
        return decode_view(row.fold)
    except RecordDamaged:
        return replace(refold_turn(engine, row), damaged=True)


def stored_view(engine: Engine, row: TurnRow) -> TurnView:
    """The same for a writer to go on from: what it writes next is a sound row again."""
    try:
        return decode_view(row.fold)
    except RecordDamaged:
        return refold_turn(engine, row)


def refold_turn(engine: Engine, row: TurnRow) -> TurnView:
    """A turn's view from its events; where none says what the turn is, from the columns of its row."""
    fold = None
    for event in read_events(engine, row.thread, row.seq_first - 1, turn=row.turn):
        fold = fold_turn(fold, event)
    if fold is None:
        return bare_view(row)
    if row.phase is not Phase.SETTLED:
        return fold.view
    after = read_events(engine, row.thread, row.seq_last, kinds={ThreadLate.kind})
    late = [event.seq for event in after if isinstance(event.body, ThreadLate) and event.body.of == row.turn]
    return replace(fold.view, late=late)


_BEGINNING: Final = frozenset({ThreadCreated.kind, Submitted.kind})
_WHOLE: Final = frozenset({ThreadRenamed.kind, ThreadSettings.kind, ThreadTruncated.kind, ThreadForked.kind})


def bare_view(row: TurnRow) -> TurnView:
    """A turn's view from the columns of its row alone."""
    state: State = "submitted" if row.phase is Phase.SUBMITTED else "worker_started"
    return TurnView(turn=row.turn, state=state, seq_first=row.seq_first, seq_last=row.seq_last, submitted_at=0)


def refold_thread(engine: Engine, row: ThreadRow) -> ThreadFold:
    """A thread's fold from its first events, what happened to it as a whole, its newest turn and its row's columns.

    A title is looked for among the first `READ_EVENTS_MAX` events, so that not every message of the thread is read.
    """
    fold = ThreadFold()
    for event in read_events(engine, row.thread, 0, before=READ_EVENTS_MAX + 1, kinds=_BEGINNING):
        fold = fold_thread(fold, event)
    for event in read_events(engine, row.thread, 0, kinds=_WHOLE):
        fold = fold_thread(fold, event)
    newest = engine.turns(thread=row.thread, limit=1).rows
    latest = newest[0].turn if newest else None
    if newest and newest[0].seq_first < (fold.truncated or 0):
        latest = fold.latest
    return replace(fold, updated_at=row.updated_at, latest=latest, importing=row.importing)


def thread_fold(engine: Engine, row: ThreadRow) -> ThreadFold:
    """The fold in a row; a damaged one is folded again."""
    try:
        return decode_thread_fold(row.fold)
    except RecordDamaged:
        return refold_thread(engine, row)
