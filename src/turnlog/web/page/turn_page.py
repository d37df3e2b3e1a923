"""One turn with its whole trace: its own page, and the rows that a thread's page fetches when a trace is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from turnlog.errors import InvalidInput
from turnlog.folds.entries import Entry
from turnlog.folds.states import TERMINAL
from turnlog.journal.listed import ListedTurn
from turnlog.journal.log import Log
from turnlog.limits import TRACE_ROWS_SHOWN
from turnlog.web.page.fragments import Place, Rows, TurnLayout, names_of
from turnlog.web.page.markup import Element, dom_id
from turnlog.web.page.rendering import leaf
from turnlog.web.page.view import TurnSource, rows_of
from turnlog.web.paths import path_id


class TracePages(NamedTuple):
    """Which rows of a trace a page shows, counted from 1, and where the others are."""

    first: int
    last: int
    all: int
    before: str | None
    after: str | None


class TurnPage(NamedTuple):
    """A turn's own page."""

    title: str
    at: str
    section: Element
    pages: TracePages | None
    running: bool


def turn_page(log: Log, thread: str, turn: str, start: int) -> TurnPage:
    """The page with the rows of the trace from the number `start` on. Blocks. Raises `UnknownTurn`."""
    row = log.turn_view(thread, turn)
    source = _source(log, thread, row)
    place, entries = Place(path_id(thread), path_id(turn)), in_tree(log.timeline(thread, turn).entries)
    rows = _rows(place, turn, entries, start)
    element = TurnLayout(thread, turn, alone=True).element(source.view(row.queue_place), rows)
    return TurnPage(
        title=log.thread(thread).title,
        at=f"{log.epoch}.{source.touched}",
        section=element,
        pages=_pages(place, len(entries), start),
        running=row.state not in TERMINAL,
    )


def trace_rows(log: Log, thread: str, turn: str) -> list[Element]:
    """The first rows of a turn's trace, and where the others are. Blocks. Raises `UnknownTurn`."""
    place, entries = Place(path_id(thread), path_id(turn)), in_tree(log.timeline(thread, turn).entries)
    rows = _rows(place, turn, entries, 0)
    over = len(entries) - TRACE_ROWS_SHOWN
    if over > 0:
        rows.append(leaf("rest", f"rest-{dom_id(turn)}", over=over, href=f"{place.page}?from={TRACE_ROWS_SHOWN}"))
    return rows


def _rows(place: Place, turn: str, entries: Sequence[Entry], start: int) -> list[Element]:
    if start and start >= len(entries):
        raise InvalidInput(field="from", problem="is beyond the end of the trace")
    shown = entries[start : start + TRACE_ROWS_SHOWN]
    parents = {entry.parent for entry in shown} - {entry.id for entry in shown}
    return Rows(place, dom_id(turn)).elements(shown, names_of(entry for entry in entries if entry.id in parents))


def _pages(place: Place, count: int, start: int) -> TracePages | None:
    if count <= TRACE_ROWS_SHOWN:
        return None
    last = min(count, start + TRACE_ROWS_SHOWN)
    before = f"{place.page}?from={max(0, start - TRACE_ROWS_SHOWN)}" if start else None
    return TracePages(start + 1, last, count, before, f"{place.page}?from={last}" if last < count else None)


def _source(log: Log, thread: str, row: ListedTurn) -> TurnSource:
    source = TurnSource(row.turn, row.seq_first)
    for event in log.events(thread, turn=row.turn):
        source.event(event)
    for draft in log.drafts(thread):
        if draft.turn == row.turn:
            source.draft(draft)
    if row.retried_by is not None:
        source.retried(row.retried_by, 0)
    return source


def in_tree(entries: Sequence[Entry]) -> list[Entry]:
    """The rows of a trace, each parent directly before what is in it."""
    entries = rows_of(entries)
    inside: dict[str | None, list[Entry]] = {}
    known = {entry.id for entry in entries}
    for entry in entries:
        inside.setdefault(entry.parent if entry.parent in known else None, []).append(entry)
    ordered: list[Entry] = []
    waiting = list(reversed(inside.pop(None, ())))
    while waiting:
        entry = waiting.pop()
        ordered.append(entry)
        waiting.extend(reversed(inside.pop(entry.id, ())))
    return ordered
