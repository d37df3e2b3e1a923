"""The methods of a `Log` that read: views, and what becomes durable."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence

from turnlog.events.ids import check_thread_id
from turnlog.events.kinds import Draft, Event
from turnlog.folds.entries import Brief, Entry, TimelineView
from turnlog.folds.hidden import Range
from turnlog.folds.history import History, Profile
from turnlog.folds.pages import TimelinePage
from turnlog.journal.follow import Batch, batches, changes, follow, parse_cursor
from turnlog.journal.gists import Gist, Told
from turnlog.journal.listed import ListedTurn
from turnlog.journal.parts import LogParts
from turnlog.journal.reading import Reading, ThreadView, TranscriptPage, ViewPage
from turnlog.limits import PAGE_ROWS, READ_BYTES_MAX


class LogViews(LogParts):
    """See `Log`."""

    @property
    def _views(self) -> Reading:
        self._writer.check()
        return self._reading

    def threads(self, *, limit: int = PAGE_ROWS, before: bytes | None = None) -> ViewPage[ThreadView]:
        """Threads: pinned ones, then the last changed first. `next` of a page is the `before` of the one after it."""
        return self._views.threads(limit, before)

    def thread(self, thread: str) -> ThreadView:
        """One thread's row. Raises `UnknownThread`."""
        return self._views.thread(thread)

    def turns(self, thread: str, *, limit: int = PAGE_ROWS, before: bytes | None = None) -> ViewPage[ListedTurn]:
        """The rows of a thread's turns, newest first. Raises `UnknownThread`."""
        return self._views.turns(thread, limit, before)

    def newest_turns(self, *, limit: int = PAGE_ROWS, before: bytes | None = None) -> ViewPage[ListedTurn]:
        """The newest turn of each thread, in the order of `threads`; threads without a turn are not among them."""
        return self._views.newest_turns(limit, before)

    def turn_view(self, thread: str, turn: str) -> ListedTurn:
        """One turn's row. Raises `UnknownThread` or `UnknownTurn`."""
        return self._views.turn(thread, turn)

    def timeline(self, thread: str, turn: str) -> TimelineView:
        """What happened in one turn, as entries. Raises `UnknownThread` or `UnknownTurn`."""
        return self._views.timeline(thread, turn)

    def timeline_page(
        self, thread: str, turn: str, *, limit: int = PAGE_ROWS, after: bytes | None = None
    ) -> TimelinePage:
        """A part of the same, in order. `next` of a part is the `after` of the one behind it.

        A part ends at `limit` entries, or before they have more than `PAGE_BYTES_MAX` bytes of JSON; it has at least
        one, if there is one left. The parent of an entry may be in an earlier part. Of a settled turn that has a
        snapshot only the pages in question are read, however long it is.
        """
        return self._views.timeline_page(thread, turn, limit, after)

    def timeline_rows(
        self, thread: str, turn: str, choose: Callable[[Sequence[Brief]], Sequence[int]]
    ) -> tuple[Entry, ...]:
        """The entries of a turn that `choose` names by their numbers, counted from 0, when it is shown all in brief.

        For who shows a trace in an order of their own. `choose` may be asked twice.
        """
        return self._views.timeline_rows(thread, turn, choose)

    def gist(self, thread: str, turn: str) -> Gist | None:
        """What a settled turn shows while its trace is closed, read from its snapshot, however long it is.

        None where its events are to be folded: while it is open, of a few events, or has no snapshot that can be used.
        One is then made, if it is among the newest. Raises `UnknownThread` or `UnknownTurn`.
        """
        return self._views.gist(thread, turn)

    def told_events(self, thread: str, after: int, gists: Sequence[Gist], turns: Collection[str]) -> Iterator[Told]:
        """What `events` gives of a thread, but a gist in the place of the events of its turn, where it was submitted.

        `turns` are those that may have events in between: naming them saves reading all. Gists lie behind `after`.
        Where more lies between than is easily found, the events come after all. Raises `UnknownThread`.
        """
        return self._views.told_events(thread, after, gists, turns)

    def truncations(self, thread: str, first: int = 0) -> tuple[Range, ...]:
        """What truncations hide that was begun at the seq `first` or later, in order. Raises `UnknownThread`."""
        return self._views.truncations(thread, first)

    def transcript(self, thread: str, *, limit: int = PAGE_ROWS, before: bytes | None = None) -> TranscriptPage:
        """What a person reads: the newest turns and messages without a turn, at most `limit` of each, in reading order.

        Raises `UnknownThread`.
        """
        return self._views.transcript(thread, limit, before)

    def history(
        self, thread: str, profile: Profile = "responses", *, until: str | None = None, limit: int | None = None
    ) -> History:
        """What an agent is given of a thread: for the endpoint it speaks to (`responses`), for another one
        (`portable`), or as it is stored (`raw`).

        `until` is a turn: only turns submitted before it. `limit` is how many of the newest groups: a message, calls
        with their outputs, reasoning with what it led to. Raises `UnknownThread`, `UnknownTurn`, `InvalidInput`.
        """
        return self._views.history(thread, profile, until, limit)

    def events(
        self, thread: str, *, after: int = 0, turn: str | None = None, bytes_max: int = READ_BYTES_MAX
    ) -> Iterator[Event]:
        """The events after a seq, in order; of one turn, or all. Raises `UnknownThread`.

        `bytes_max` are the bytes of bodies read at once: what is held for a reader that takes its time.
        """
        return self._views.events(thread, after, turn, bytes_max)

    def item(self, thread: str, seq: int) -> bytes:
        """The raw item at a place, byte for byte as accepted; of a turn, late, or without a turn.

        Raises `UnknownThread`, `UnknownItem`, or `RecordDamaged` when it cannot be read.
        """
        return self._views.item(thread, seq)

    def drafts(self, thread: str) -> list[Draft]:
        """The open drafts of a thread, each whole."""
        return self._views.drafts(thread)

    def follow(self, thread: str, after: int | str = 0) -> AsyncGenerator[Event | Draft, None]:
        """Events and drafts as they become durable, from a seq or an `epoch.seq` cursor on.

        First the events after it, then each open draft whole, then what comes. A thread that does not exist yet is
        waited for. Raises `CursorUnprovable`, and `StoreClosed` when the log is closed meanwhile.
        """
        return follow(self._engine, self._hub, self._aside, thread, self._cursor(thread, after))

    def watch(self, thread: str, after: int | str = 0) -> AsyncGenerator[Batch, None]:
        """The same as `follow`, with what became durable together in one piece and the position after it.

        The call itself reads the head, and may wait for the disk; what it gives reads beside its event loop.
        """
        return batches(self._engine, self._hub, self._aside, thread, self._cursor(thread, after))

    def changes(self) -> AsyncGenerator[frozenset[str] | None, None]:
        """Which threads changed since it was asked last, by whatever process: events, and text of drafts.

        The first answer comes at once and is None: everything may have changed, so read now what is to be kept up to
        date. It is None again when too much changed to be named. A thread may be named more often than it changed,
        never less. Raises `StoreClosed` when the log is closed meanwhile.
        """
        self._writer.check()
        return changes(self._hub)

    def _cursor(self, thread: str, after: int | str) -> int:
        self._writer.check()
        return parse_cursor(self._engine, check_thread_id(thread), after)
