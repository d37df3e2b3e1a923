"""One turn's trace to be read in parts: from its snapshot, or folded from its events. Both give the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from turnlog.engines.protocol import Engine, Phase, SnapshotPage, TurnRow
from turnlog.errors import RecordDamaged, StoreDamaged
from turnlog.events.kinds import Event
from turnlog.folds.entries import Brief, Entry, TimelineView
from turnlog.folds.pages import (
    PageHead,
    Place,
    StoredPage,
    TimelinePage,
    page_of,
    part_of,
    place_of,
    read_briefs,
    read_head,
    read_page,
)
from turnlog.folds.summary import Summary, summary_of
from turnlog.folds.timeline import Timeline
from turnlog.folds.turn import TurnView
from turnlog.journal.records import read_events

PageT = TypeVar("PageT", bound=PageHead)


class SnapshotGone(Exception):
    """A page of a snapshot cannot be had: it is damaged, or the snapshot was replaced or went out of the ring."""


class Trace(Protocol):
    """What one turn shows, and parts of it."""

    def whole(self) -> TimelineView:
        """All of it."""
        ...

    def part(self, after: bytes | None, limit: int) -> TimelinePage:
        """At most `limit` entries behind a cursor."""
        ...

    def briefs(self) -> Sequence[Brief]:
        """All entries in order, with what tells where they stand."""
        ...

    def numbered(self, numbers: Sequence[int]) -> list[Entry]:
        """The entries of these numbers, counted from 0, in the order of `numbers`."""
        ...

    def summary(self) -> tuple[TurnView, Summary]:
        """The turn's row, and its entries in numbers."""
        ...


class FoldedTrace:
    """A trace in memory."""

    def __init__(self, view: TimelineView) -> None:
        self._view = view

    def whole(self) -> TimelineView:
        """See `Trace`."""
        return self._view

    def part(self, after: bytes | None, limit: int) -> TimelinePage:
        """See `Trace`."""
        return part_of(self._view.turn, self._view.entries, None, after, limit)

    def briefs(self) -> Sequence[Brief]:
        """See `Trace`."""
        return [Brief(entry.id, entry.parent, entry.kind, entry.mark) for entry in self._view.entries]

    def numbered(self, numbers: Sequence[int]) -> list[Entry]:
        """See `Trace`."""
        return [self._view.entries[number] for number in numbers]

    def summary(self) -> tuple[TurnView, Summary]:
        """See `Trace`."""
        return self._view.turn, summary_of(self._view.entries)


class StoredTrace:
    """A trace in the pages of a snapshot: a part of it reads only the pages that it is in.

    Methods raise `SnapshotGone`; what they would have given is then to be folded.
    """

    def __init__(self, engine: Engine, row: TurnRow, covers: int) -> None:
        self._engine, self._row, self._covers = engine, row, covers
        page = self._stored(0)
        self._pages = page.pages
        self._first = self._read(page, read_page)
        self._begins: dict[int, int] = {}

    def whole(self) -> TimelineView:
        """See `Trace`."""
        entries = [entry for page in range(self._pages) for entry in self._page(page).entries]
        return TimelineView(turn=self._view, entries=tuple(entries))

    def part(self, after: bytes | None, limit: int) -> TimelinePage:
        """See `Trace`."""
        start = 0 if after is None else page_of(place_of(after), self._pages, self._head)
        page = self._page(start)
        seq, rev, before = page.place
        in_front: Place | None = (seq, rev, before - 1) if before else None
        return part_of(self._view, self._entries_from(start), in_front, after, limit)

    def briefs(self) -> Sequence[Brief]:
        """See `Trace`."""
        pages = [self._read(self._stored(page), read_briefs) for page in range(self._pages)]
        self._begins = {at: page.number for at, page in enumerate(pages)}
        return [brief for page in pages for brief in page.briefs]

    def numbered(self, numbers: Sequence[int]) -> list[Entry]:
        """See `Trace`."""
        found: dict[int, Entry] = {}
        for at in sorted({bisect_right(range(self._pages), number, key=self._begin) - 1 for number in numbers}):
            page = self._page(at)
            found.update(enumerate(page.entries, page.number))
        return [found[number] for number in numbers]

    def summary(self) -> tuple[TurnView, Summary]:
        """See `Trace`."""
        last = self._read(self._stored(self._pages - 1), read_briefs)
        if last.summary is None:
            raise SnapshotGone
        return self._view, last.summary

    def _begin(self, page: int) -> int:
        """How many entries stand before a page."""
        if page not in self._begins:
            self._begins[page] = self._head(page).number
        return self._begins[page]

    @property
    def _view(self) -> TurnView:
        if self._first.view is None:
            raise SnapshotGone
        return self._first.view

    def _entries_from(self, start: int) -> Iterator[Entry]:
        for page in range(start, self._pages):
            yield from self._page(page).entries

    def _page(self, page: int) -> StoredPage:
        return self._read(self._stored(page), read_page) if page else self._first

    def _head(self, page: int) -> PageHead:
        return self._read(self._stored(page), read_head) if page else self._first

    def _stored(self, page: int) -> SnapshotPage:
        try:
            stored = self._engine.snapshot(self._row.thread, self._row.turn, page=page)
        except StoreDamaged:
            raise SnapshotGone from None
        if stored is None or stored.seq != self._covers:
            raise SnapshotGone
        return stored

    def _read(self, page: SnapshotPage, read: Callable[[bytes, str], PageT]) -> PageT:
        try:
            return read(page.body, self._row.turn)
        except RecordDamaged:
            raise SnapshotGone from None


def covered(row: TurnRow, view: TurnView) -> int:
    """The seq up to which a settled turn's events are to be folded to show it as it is: those that came late too."""
    return max(row.seq_last, *view.late, 0)


def trace_events(engine: Engine, row: TurnRow, view: TurnView) -> Iterator[Event]:
    """A turn's own events in order, then those that came late."""
    yield from read_events(engine, row.thread, row.seq_first - 1, turn=row.turn)
    for seq in view.late:
        yield from read_events(engine, row.thread, seq - 1, before=seq + 1)


def fold_settled(engine: Engine, row: TurnRow, view: TurnView) -> TimelineView:
    """The trace of a settled turn, from its events. Raises `RecordDamaged`."""
    assert row.phase is Phase.SETTLED
    fold = Timeline(row.turn)
    for event in trace_events(engine, row, view):
        fold.event(event)
    return fold.view()
