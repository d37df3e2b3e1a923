"""One turn with its whole trace: its own page, and the rows that a thread's page fetches when a trace is opened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from turnlog.errors import InvalidInput
from turnlog.events.kinds import Submitted
from turnlog.folds.entries import Brief, Entry
from turnlog.folds.states import TERMINAL
from turnlog.folds.summary import is_row
from turnlog.journal.listed import ListedTurn
from turnlog.journal.log import Log
from turnlog.limits import TRACE_ROWS_SHOWN
from turnlog.web.page.fragments import Place, Rows, TurnLayout, names_of
from turnlog.web.page.markup import Element, dom_id
from turnlog.web.page.rendering import leaf
from turnlog.web.page.view import TurnSource
from turnlog.web.paths import path_id

_TRIES: Final = 5
"""Readings of what came meanwhile, before a page is shown without the drafts of a turn that never rests."""


class TracePages(NamedTuple):
    """Which rows of a trace a page shows, counted from 1, and where the others are."""

    first: int
    last: int
    all: int
    before: str | None
    after: str | None


class TurnPage(NamedTuple):
    """A turn's own page. `text` is the message, where it is text alone: what can be edited."""

    title: str
    at: str
    section: Element
    pages: TracePages | None
    running: bool
    hidden: bool
    text: str | None


def turn_page(log: Log, thread: str, turn: str, start: int) -> TurnPage:
    """The page with the rows of the trace from the number `start` on. Blocks. Raises `UnknownTurn`."""
    row = log.turn_view(thread, turn)
    source = _source(log, thread, row)
    place = Place(path_id(thread), path_id(turn))
    shown = source.view(row.queue_place)
    rows, count = _rows(log, thread, turn, start, shown.entries if source.open else None)
    element = TurnLayout(thread, turn, alone=True).element(shown, rows)
    return TurnPage(
        title=log.thread(thread).title,
        at=f"{log.epoch}.{source.touched}",
        section=element,
        pages=_pages(place, count, start),
        running=row.state not in TERMINAL,
        hidden=row.hidden_by is not None,
        text=_text(log, thread, turn),
    )


def _text(log: Log, thread: str, turn: str) -> str | None:
    first = next(log.events(thread, turn=turn), None)
    asked = first.body if first is not None and isinstance(first.body, Submitted) else None
    return asked.content if asked is not None and isinstance(asked.content, str) and not asked.attachments else None


def trace_rows(log: Log, thread: str, turn: str) -> list[Element]:
    """The first rows of a turn's trace, and where the others are. Blocks. Raises `UnknownTurn`."""
    rows, count = _rows(log, thread, turn, 0)
    over = count - TRACE_ROWS_SHOWN
    if over > 0:
        place = Place(path_id(thread), path_id(turn))
        rows.append(leaf("rest", f"rest-{dom_id(turn)}", over=over, href=f"{place.page}?from={TRACE_ROWS_SHOWN}"))
    return rows


def _rows(
    log: Log, thread: str, turn: str, start: int, known: Sequence[Entry] | None = None
) -> tuple[list[Element], int]:
    """The rows of a trace from the number `start` on, and how many it has in all. `known` is the trace of a turn that
    was folded already."""
    chosen = _Chosen(start)
    entries: Sequence[Entry]
    if known is None:
        entries = log.timeline_rows(thread, turn, chosen.numbers)
    else:
        entries = [known[number] for number in chosen.numbers(known)]
    if start and start >= chosen.count:
        raise InvalidInput(field="from", problem="is beyond the end of the trace")
    shown, parents = entries[: chosen.shown], entries[chosen.shown :]
    place = Place(path_id(thread), path_id(turn))
    return Rows(place, dom_id(turn)).elements(shown, names_of(parents)), chosen.count


class _Chosen:
    """Which entries stand on a page of a trace: `shown` rows of its `count`, and behind them their parents, of which
    the names are told, where they stand on another page."""

    def __init__(self, start: int) -> None:
        self._start = start
        self.count = self.shown = 0

    def numbers(self, briefs: Sequence[Brief | Entry]) -> list[int]:
        """Their numbers."""
        ordered = in_tree(briefs)
        shown = ordered[self._start : self._start + TRACE_ROWS_SHOWN]
        self.count, self.shown = len(ordered), len(shown)
        parents = {briefs[number].parent for number in shown} - {briefs[number].id for number in shown}
        return [*shown, *(number for number in ordered if briefs[number].id in parents)]


def _pages(place: Place, count: int, start: int) -> TracePages | None:
    if count <= TRACE_ROWS_SHOWN:
        return None
    last = min(count, start + TRACE_ROWS_SHOWN)
    before = f"{place.page}?from={max(0, start - TRACE_ROWS_SHOWN)}" if start else None
    return TracePages(start + 1, last, count, before, f"{place.page}?from={last}" if last < count else None)


def _source(log: Log, thread: str, row: ListedTurn) -> TurnSource:
    source = TurnSource(row.turn, row.seq_first)
    gist = log.gist(thread, row.turn)
    if gist is not None:
        source.tell(gist)
    else:
        _fold(log, thread, row, source)
    if row.retried_by is not None:
        source.retried(row.retried_by, 0)
    if row.hidden_by is not None:
        source.hide(0)
    return source


def _fold(log: Log, thread: str, row: ListedTurn, source: TurnSource) -> None:
    """Take all the turn's events, those that came late, and the drafts that were open behind the last of them."""
    after = row.seq_first - 1
    for _ in range(_TRIES):
        for event in log.events(thread, after=after, turn=row.turn):
            source.event(event)
            after = event.seq
        drafts = log.drafts(thread)
        if next(log.events(thread, after=after, turn=row.turn), None) is None:
            for draft in (draft for draft in drafts if draft.turn == row.turn):
                source.draft(draft)
            break
    for seq in row.late:
        for event in islice(log.events(thread, after=seq - 1, bytes_max=1), 1):
            source.event(event)


def in_tree(entries: Sequence[Brief | Entry]) -> list[int]:
    """The numbers of the rows of a trace, each parent directly before what is in it."""
    rows = [number for number, entry in enumerate(entries) if is_row(entry)]
    inside: dict[str | None, list[int]] = {}
    known = {entries[number].id for number in rows}
    for number in rows:
        parent = entries[number].parent
        inside.setdefault(parent if parent in known else None, []).append(number)
    ordered: list[int] = []
    waiting = list(reversed(inside.pop(None, ())))
    while waiting:
        number = waiting.pop()
        ordered.append(number)
        waiting.extend(reversed(inside.pop(entries[number].id, ())))
    return ordered
