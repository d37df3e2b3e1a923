"""Reading views from an engine: pages of records in, folds out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from turnlog.engines.protocol import Engine, Phase, ThreadRow, TurnRow
from turnlog.errors import InvalidInput, RecordDamaged, UnknownItem, UnknownThread, UnknownTurn
from turnlog.events.codec import decode_body
from turnlog.events.ids import check_thread_id, check_turn_id
from turnlog.events.kinds import Damaged, Draft, Event, Item, ThreadItem, ThreadLate
from turnlog.events.thread_kinds import ThreadTruncated
from turnlog.folds.entries import Brief, Entry, TimelineView
from turnlog.folds.hidden import Range
from turnlog.folds.history import History, Profile, check_profile, history, recent_history
from turnlog.folds.notices import Notice
from turnlog.folds.pages import TimelinePage, place_of
from turnlog.folds.thread import decode_thread_fold
from turnlog.folds.timeline import Timeline
from turnlog.folds.transcript import Message
from turnlog.folds.turn import TurnView
from turnlog.journal.follow import SEQ_MAX, joined
from turnlog.journal.gists import Gist, Told, gist_of, told_events
from turnlog.journal.hiding import hidden_in
from turnlog.journal.listed import ListedTurn, listed
from turnlog.journal.paging import PageFold, cut_page, transcript_cursor
from turnlog.journal.records import decode_record, read_events, refold_thread, thread_fold, turn_view
from turnlog.journal.traces import FoldedTrace, SnapshotGone, StoredTrace, Trace, covered, fold_settled
from turnlog.journal.windows import windows
from turnlog.limits import PAGE_ROWS_MAX, READ_EVENTS_MAX, SNAPSHOT_EVENTS_MIN

T_co = TypeVar("T_co", covariant=True)


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread in a list. `head` is its last seq, `latest` its newest turn that no truncation hides; times in µs.

    `damaged` tells that the thread's row could not be read, and this was made of its first events.
    """

    thread: str
    title: str
    epoch: str
    head: int
    created_at: int
    updated_at: int
    latest: str | None
    pinned: bool = False
    damaged: bool = False


class ViewPage(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """A part of a list. `next` is the `before` of the part after it, None at the end."""

    rows: tuple[T_co, ...]
    next: bytes | None


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript of some turns. `next` is the `before` of the older ones, `at` the cursor to follow it from."""

    messages: tuple[Message, ...]
    notices: tuple[Notice, ...]
    turns: tuple[ListedTurn, ...]
    next: bytes | None
    at: str


class Reading:
    """See the methods of `Log` of the same names."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.refolded: Callable[[str, str], None] = _nobody
        """Told of each settled turn, of more than a few events, whose snapshot could not be read."""

    def threads(self, limit: int, before: bytes | None) -> ViewPage[ThreadView]:
        """Rows of threads."""
        page = self._engine.threads(before=before, limit=_limit(limit))
        return ViewPage(rows=tuple(self._thread_view(row) for row in page.rows), next=page.next)

    def thread(self, thread: str) -> ThreadView:
        """One row."""
        return self._thread_view(self._row(thread))

    def _row(self, thread: str) -> ThreadRow:
        rows = self._engine.threads(thread=check_thread_id(thread), limit=1).rows
        if not rows or rows[0].importing:
            raise UnknownThread(thread=thread)
        return rows[0]

    def _thread_view(self, row: ThreadRow) -> ThreadView:
        try:
            fold, damaged = decode_thread_fold(row.fold), False
        except RecordDamaged:
            fold, damaged = refold_thread(self._engine, row), True
        return ThreadView(
            thread=row.thread,
            title=fold.title,
            epoch=self._engine.epoch,
            head=row.head,
            created_at=fold.created_at,
            updated_at=row.updated_at,
            latest=fold.latest,
            pinned=fold.pinned,
            damaged=damaged,
        )

    def turns(self, thread: str, limit: int, before: bytes | None) -> ViewPage[ListedTurn]:
        """Rows of turns."""
        self._row(thread)
        page = self._engine.turns(thread=thread, before=before, limit=_limit(limit))
        return ViewPage(rows=listed(self._engine, page.rows), next=page.next)

    def newest_turns(self, limit: int, before: bytes | None) -> ViewPage[ListedTurn]:
        """A row of each thread: of one whose newest turn is hidden, the newest that is not."""
        page = self._engine.turns(latest_each=True, before=before, limit=_limit(limit))
        rows = [self._shown(row) for row in listed(self._engine, page.rows)]
        return ViewPage(rows=tuple(row for row in rows if row is not None), next=page.next)

    def _shown(self, row: ListedTurn) -> ListedTurn | None:
        if row.hidden_by is None:
            return row
        latest = self.thread(row.thread).latest
        return None if latest is None else self.turn(row.thread, latest)

    def turn(self, thread: str, turn: str) -> ListedTurn:
        """One row."""
        return listed(self._engine, [self._turn_row(thread, turn)])[0]

    def _turn_row(self, thread: str, turn: str) -> TurnRow:
        self._row(thread)
        rows = self._engine.turns(thread=thread, turn=check_turn_id(turn), limit=1).rows
        if not rows:
            raise UnknownTurn(thread=thread, turn=turn)
        return rows[0]

    def timeline(self, thread: str, turn: str) -> TimelineView:
        """One turn's entries, with its late events and, while it is open, its drafts."""
        return self._traced(thread, turn, lambda trace: trace.whole())

    def timeline_page(self, thread: str, turn: str, limit: int, after: bytes | None) -> TimelinePage:
        """Some of them."""
        _limit(limit)
        if after is not None:
            place_of(after)
        return self._traced(thread, turn, lambda trace: trace.part(after, limit))

    def timeline_rows(
        self, thread: str, turn: str, choose: Callable[[Sequence[Brief]], Sequence[int]]
    ) -> tuple[Entry, ...]:
        """Those that `choose` names."""
        return self._traced(thread, turn, lambda trace: tuple(trace.numbered(choose(trace.briefs()))))

    def _traced(self, thread: str, turn: str, use: Callable[[Trace], T_co]) -> T_co:
        """What `use` makes of a turn's trace, from its snapshot where that shows it as it is now."""
        row = self._turn_row(thread, turn)
        if row.phase is not Phase.SETTLED:
            return use(FoldedTrace(self._open_timeline(row)))
        view = turn_view(self._engine, row)
        if view.events >= SNAPSHOT_EVENTS_MIN:
            with suppress(SnapshotGone):
                return use(StoredTrace(self._engine, row, covered(row, view)))
            self.refolded(thread, turn)
        return use(FoldedTrace(fold_settled(self._engine, row, view)))

    def gist(self, thread: str, turn: str) -> Gist | None:
        """What a settled turn shows while its trace is closed."""
        row = self._turn_row(thread, turn)
        if row.phase is not Phase.SETTLED:
            return None
        view = turn_view(self._engine, row)
        if view.damaged or view.events < SNAPSHOT_EVENTS_MIN:
            return None
        try:
            return gist_of(self._engine, row, view, StoredTrace(self._engine, row, covered(row, view)))
        except SnapshotGone:
            self.refolded(thread, turn)
            return None

    def told_events(self, thread: str, after: int, gists: Sequence[Gist], turns: Collection[str]) -> Iterator[Told]:
        """Events in order, and gists in the place of those of their turns."""
        self._row(thread)
        return told_events(self._engine, thread, after, gists, turns)

    def _open_timeline(self, row: TurnRow) -> TimelineView:
        fold, after = Timeline(row.turn), row.seq_first - 1
        for event in read_events(self._engine, row.thread, after, turn=row.turn):
            fold.event(event)
            after = event.seq
        self._rest(fold, row.thread, after)
        return fold.view()

    def _rest(self, fold: Timeline | PageFold, thread: str, after: int) -> int:
        """What came while the pages were read, and the drafts of that very moment. Returns the head then."""
        while True:
            tail = self._engine.tail(thread, after=after, rev=0, limit=READ_EVENTS_MAX)
            for record in tail.events:
                after = record.seq
                fold.event(decode_record(thread, record))
            if after >= tail.head or not tail.events:  # none: the last ones are lost
                break
        for draft in joined(tail):
            fold.draft(draft)
        return tail.head

    def truncations(self, thread: str, first: int) -> tuple[Range, ...]:
        """Ranges of what is hidden."""
        newest = thread_fold(self._engine, self._row(thread)).truncated
        return hidden_in(self._engine, thread, newest, first).ranges

    def transcript(self, thread: str, limit: int, before: bytes | None) -> TranscriptPage:
        """Messages and notices of the newest turns before a place."""
        thread_row = self._row(thread)
        head = thread_row.head
        cut = cut_page(self._engine, thread, _limit(limit), *transcript_cursor(before))
        head = max(head, cut.first - 1, *(row.seq_last for row in cut.rows))  # the rows may be newer than the head
        views = listed(self._engine, cut.rows)
        fold = PageFold({row.turn for row in cut.rows}, cut.end)
        for event in self._page_events(thread, cut.first, head, cut.end, views):
            fold.event(event)
        if any(row.phase is not Phase.SETTLED for row in cut.rows):
            head = self._rest(fold, thread, head)
        if cut.end is not None:
            for view in views:
                self._tell_retried(fold, thread, view)
            self._tell_hidden(fold, thread_row, cut.first, head)
        shown = fold.view()
        return TranscriptPage(
            messages=shown.messages,
            notices=shown.notices,
            turns=views,
            next=cut.next,
            at=f"{self._engine.epoch}.{head}",
        )

    def _page_events(
        self, thread: str, first: int, head: int, end: int | None, views: Sequence[TurnView]
    ) -> Iterator[Event]:
        """What lies between a page's first turn and its end, then what its turns have beyond that, up to the head."""
        stop = head + 1
        end = stop if end is None else min(end, stop)
        yield from read_events(self._engine, thread, first - 1, before=end)
        for view in views:
            if view.seq_last >= end:
                yield from read_events(self._engine, thread, end - 1, before=stop, turn=view.turn)
            for seq in view.late:
                if end <= seq < stop:
                    yield from read_events(self._engine, thread, seq - 1, before=seq + 1)

    def _tell_retried(self, fold: PageFold, thread: str, view: TurnView) -> None:
        """A turn that was asked again is told so also where the later turn is on another page."""
        if view.state == "interrupted":
            for child in self._engine.turns(thread=thread, retry_of=view.turn, limit=1).rows:
                fold.retried(view.turn, child.turn, child.seq_first)

    def _tell_hidden(self, fold: PageFold, row: ThreadRow, first: int, head: int) -> None:
        """What later truncations hide on a page: those of the row, and those that came while the page was read."""
        newest = thread_fold(self._engine, row).truncated
        for known in hidden_in(self._engine, row.thread, newest, first).ranges:
            fold.hide(known.after, known.seq)
        for event in read_events(self._engine, row.thread, row.head, before=head + 1, kinds={ThreadTruncated.kind}):
            fold.event(event)

    def history(self, thread: str, profile: Profile, until: str | None, limit: int | None) -> History:
        """Raw items of all turns before one, or the newest groups of them."""
        check_profile(profile)
        if limit is not None and (type(limit) is not int or not 0 < limit <= SEQ_MAX):
            raise InvalidInput(field="limit", problem=f"must be between 1 and {SEQ_MAX}")
        head = self._row(thread).head
        end = None if until is None else self._turn_row(thread, until).seq_first
        if limit is None:
            return history(read_events(self._engine, thread, 0), profile, until)
        for window in windows(self._engine, thread, end, limit):
            events = read_events(self._engine, thread, window.since - 1, before=head + 1)
            found = recent_history(events, window, profile, until, limit)
            if found is not None:
                return found
        return history(read_events(self._engine, thread, 0, before=head + 1), profile, until, limit)

    def events(self, thread: str, after: int, turn: str | None, bytes_max: int) -> Iterator[Event]:
        """Events in order, page by page."""
        if not 0 <= after <= SEQ_MAX:
            raise InvalidInput(field="after", problem=f"must be between 0 and {SEQ_MAX}")
        self._row(thread)
        if turn is not None:
            self._turn_row(thread, turn)
        return read_events(self._engine, thread, after, turn=turn, bytes_max=bytes_max)

    def item(self, thread: str, seq: int) -> bytes:
        """One raw item."""
        if type(seq) is not int or not 0 < seq < SEQ_MAX:
            raise InvalidInput(field="seq", problem=f"must be between 1 and {SEQ_MAX - 1}")
        self._row(thread)
        event = next(read_events(self._engine, thread, seq - 1, before=seq + 1), None)
        if event is None:
            raise UnknownItem(thread=thread, seq=seq)
        body = event.body
        if isinstance(body, ThreadLate):
            body = decode_body(body.late, event.v, body.raw)
        if isinstance(body, Item | ThreadItem):
            return body.raw
        if isinstance(body, Damaged) and event.kind in (Item.kind, ThreadItem.kind, ThreadLate.kind):
            raise RecordDamaged(problem=body.problem, seq=seq, kind=event.kind)
        raise UnknownItem(thread=thread, seq=seq)

    def drafts(self, thread: str) -> list[Draft]:
        """Open drafts, each whole."""
        head = self._row(thread).head
        while True:
            tail = self._engine.tail(thread, after=head, rev=0, limit=READ_EVENTS_MAX)
            if not tail.events or tail.events[-1].seq == tail.head:
                return joined(tail)
            head = tail.events[-1].seq


def _nobody(thread: str, turn: str) -> None:
    """Who is told of what was folded where nobody keeps snapshots."""


def _limit(limit: int) -> int:
    if type(limit) is not int or not 0 < limit <= PAGE_ROWS_MAX:
        raise InvalidInput(field="limit", problem=f"must be between 1 and {PAGE_ROWS_MAX}")
    return limit
