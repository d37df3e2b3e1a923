"""Comparing what is kept with what the events give: the views of turns, and their snapshots."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from turnlog.engines.protocol import Engine, TurnRow
from turnlog.errors import RecordDamaged, StoreDamaged
from turnlog.events.kinds import ThreadLate
from turnlog.folds.audit_turn import is_unread
from turnlog.folds.findings import Finding, finding
from turnlog.folds.pages import differs, read_page
from turnlog.folds.states import TERMINAL
from turnlog.folds.turn import TurnFold, TurnView, fold_turn
from turnlog.journal.records import read_events, turn_view
from turnlog.journal.traces import covered, fold_settled
from turnlog.limits import STILL_TRIES_MAX


def whole_view(engine: Engine, thread: str, turn: str) -> TurnView | None:
    """A turn's view from all of its events, wherever its row says that they are; None when none says what it is."""
    fold: TurnFold | None = None
    for event in read_events(engine, thread, 0, turn=turn):
        fold = fold_turn(fold, event)
    if fold is None or fold.view.state not in TERMINAL:
        return None if fold is None else fold.view
    events = read_events(engine, thread, fold.view.seq_first, kinds={ThreadLate.kind})
    late = [event.seq for event in events if isinstance(event.body, ThreadLate) and event.body.of == turn]
    return replace(fold.view, late=late)


def snapshot_findings(engine: Engine, row: TurnRow) -> Iterator[Finding]:
    """What is wrong with a turn's snapshot, while neither is replaced: what comes late makes both anew."""
    for _ in range(STILL_TRIES_MAX):
        found, before = _differing_snapshot(engine, row), row
        if found is None:
            return
        again = _differing_snapshot(engine, row)
        row = next(iter(engine.turns(thread=row.thread, turn=row.turn, limit=1).rows), row)
        if row == before and found == again:
            yield found
            return


def _differing_snapshot(engine: Engine, row: TurnRow) -> Finding | None:
    """What is wrong with a turn's snapshot. One that covers less than there is, nobody reads."""
    view = turn_view(engine, row)
    try:
        first = engine.snapshot(row.thread, row.turn)
        if first is None or first.seq < covered(row, view):
            return None
        entry, whole = 0, False
        if first.seq == covered(row, view):
            found = differs(_pages(engine, row, first.pages), fold_settled(engine, row, view))
            if found is None:
                return None
            entry, whole = found, _is_whole(engine, row, first.pages)
        lost = _has_lost(engine, row, first.body, whole=whole)
    except (RecordDamaged, StoreDamaged):
        return None
    detail = f"the snapshot of its timeline differs from its events at entry {entry}"
    if lost:
        detail += "; it may tell of what is lost, cannot be read or was changed, so it stays"
    return finding("snapshot_differs", "snapshot", detail, thread=row.thread, turn=row.turn, repairable=not lost)


def _is_whole(engine: Engine, row: TurnRow, pages: int) -> bool:
    """Whether each page of a snapshot is as it was written: it is kept with a checksum, which an event is not."""
    try:
        return all(read_page(body, row.turn) for body in _pages(engine, row, pages))
    except RecordDamaged:
        return False


def _has_lost(engine: Engine, row: TurnRow, first_page: bytes, *, whole: bool) -> bool:
    """Whether a turn's snapshot may be the last that knows of some of its events. A `whole` one that differs, and was
    made of as many events as there are, tells what one of them was before it was changed."""
    if any(is_unread(event) for event in read_events(engine, row.thread, 0, turn=row.turn)):
        return True
    try:
        stored = read_page(first_page, row.turn).view
    except RecordDamaged:
        return False
    view = whole_view(engine, row.thread, row.turn)
    if stored is None or view is None:
        return False
    more = view.events + view.illegal - stored.events - stored.illegal
    return more < 0 or (more == 0 and whole)


def _pages(engine: Engine, row: TurnRow, pages: int) -> Iterator[bytes]:
    """The pages of a snapshot; one that cannot be had is empty, which no page is."""
    for number in range(pages):
        try:
            page = engine.snapshot(row.thread, row.turn, page=number)
        except StoreDamaged:
            page = None
        yield b"" if page is None else page.body
