"""A page of a transcript: some turns, each whole, and what stands between them.

Turns may overlap: one that was submitted earlier may still be written to when the next one waits. So a page is cut by
turns and not by seq: it takes all events of its own turns and none of the others', and every event is in one page.
Messages without a turn are not bounded by turns, so they bound a page too: where many follow one another, it begins
with one of them, and takes the turns that were submitted after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from turnlog.engines.protocol import Engine, TurnRow
from turnlog.errors import InvalidInput, StoreDamaged
from turnlog.events.kinds import Draft, Event, Submitted, ThreadItem, ThreadLate
from turnlog.events.thread_kinds import ThreadTruncated
from turnlog.folds.transcript import Transcript, TranscriptView
from turnlog.journal.follow import is_seq
from turnlog.journal.records import read_events
from turnlog.limits import READ_BYTES_MAX


class PageFold:
    """The transcript of `turns`. What belongs to no turn is of the page where it stands: before the seq `end`.

    Without `end` it is the newest page: turns that are submitted while it is read belong to it too.
    """

    def __init__(self, turns: set[str], end: int | None) -> None:
        self._turns, self._end = turns, end
        self._fold = Transcript()

    def event(self, event: Event) -> None:
        """Take one event. Of those of other pages, what they say of turns of this one is taken."""
        body = event.body
        if self._end is None and event.kind == Submitted.kind and event.turn is not None:
            self._turns.add(event.turn)
        if self._is_ours(event):
            self._fold.event(event)
        elif isinstance(body, ThreadTruncated):
            self.hide(body.after, event.seq)
        elif isinstance(body, Submitted) and body.retry_of is not None and event.turn is not None:
            self.retried(body.retry_of, event.turn, event.seq)

    def _is_ours(self, event: Event) -> bool:
        if event.turn is not None:
            return event.turn in self._turns
        if isinstance(event.body, ThreadLate):
            return event.body.of in self._turns
        return self._end is None or event.seq < self._end

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        self._fold.draft(chunk)

    def retried(self, turn: str, child: str, first: int) -> None:
        """A turn of this page was asked again, by a turn of another one that begins at the seq `first`."""
        self._fold.retried(turn, child, first)

    def hide(self, after: int, seq: int) -> None:
        """What was begun between these seqs was hidden, by a truncation that may stand on another page."""
        self._fold.hide(after, seq)

    def view(self) -> TranscriptView:
        """The page as it stands."""
        return self._fold.view()


class Cut(NamedTuple):
    """Where a page lies: seqs from `first` on and before `end` (None: all), and the turns submitted there.

    `next` is the cursor of the page of what is older.
    """

    first: int
    end: int | None
    rows: Sequence[TurnRow]
    next: bytes | None


def transcript_cursor(before: object) -> tuple[int | None, bytes | None]:
    """(seq before which a page's events lie, place of its rows): pages meet, so nothing between turns is lost."""
    if before is None:
        return None, None
    seq, colon, place = before.partition(b":") if isinstance(before, bytes) else (b"", b"", b"")
    if not colon or not is_seq(seq.decode("latin-1")):
        raise InvalidInput(field="before", problem="must be the `next` of a transcript")
    return int(seq), place or None


def cut_page(engine: Engine, thread: str, limit: int, end: int | None, place: bytes | None) -> Cut:
    """The newest turns and messages without a turn before `end`, at most `limit` of each."""
    place, rows, older = _rows_before(engine, thread, limit, end, place)
    first = 1 if older is None else min(row.seq_first for row in rows)
    oldest = _oldest_loose(engine, thread, first - 1, end, limit)
    if oldest is None:
        return Cut(first, end, rows, None if older is None else _cursor(first, older))
    first = oldest
    # The rows before this page's first turn have no place of their own: they are found behind those of this page.
    return Cut(first, end, [row for row in rows if row.seq_first > first], _cursor(first, place))


def _oldest_loose(engine: Engine, thread: str, after: int, end: int | None, limit: int) -> int | None:
    """The seq of the oldest of the newest `limit` messages without a turn, None when there are no more than these."""
    kinds = {ThreadItem.kind}
    try:
        page = engine.read(
            thread, after=after, before=end, kinds=kinds, reverse=True, limit=limit, bytes_max=READ_BYTES_MAX
        )
        return None if page.next is None else page.rows[-1].seq
    except StoreDamaged:  # what is sound is read around it
        events = read_events(engine, thread, after, before=end, kinds=kinds)
        newest = deque((event.seq for event in events), maxlen=limit + 1)
        return newest[1] if len(newest) > limit else None


def _cursor(first: int, place: bytes | None) -> bytes:
    return b"%d:%s" % (first, place or b"")


def _rows_before(
    engine: Engine, thread: str, limit: int, end: int | None, place: bytes | None
) -> tuple[bytes | None, Sequence[TurnRow], bytes | None]:
    """Rows of turns submitted before `end`, the place from which they were read, and the one of those behind them."""
    while True:
        page = engine.turns(thread=thread, before=place, limit=limit)
        rows = [row for row in page.rows if end is None or row.seq_first < end]
        if rows or page.next is None:
            return place, rows, page.next
        place = page.next
