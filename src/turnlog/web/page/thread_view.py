"""A page of a thread: its newest turns, or those before a place, folded from the log and laid out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from turnlog.errors import InvalidInput
from turnlog.events.kinds import Draft, Event, Submitted, ThreadLate
from turnlog.events.thread_kinds import ThreadTruncated
from turnlog.folds.states import TERMINAL
from turnlog.folds.transcript import Transcript
from turnlog.journal.documents import cursor_of, cursor_text
from turnlog.journal.gists import Gist, Told
from turnlog.journal.listed import ListedTurn
from turnlog.journal.log import Log
from turnlog.limits import PAGE_LOOSE, PAGE_TURNS, SNAPSHOT_EVENTS_MIN, SNAPSHOTS_KEPT
from turnlog.web.page.fragments import TurnLayout, loose_element
from turnlog.web.page.markup import Element, shell
from turnlog.web.page.rendering import leaf
from turnlog.web.page.taken import Taken
from turnlog.web.page.view import TurnSource
from turnlog.web.paths import path_id

_TRIES: Final = 5
"""Readings of what came meanwhile, before a page is shown without the drafts of a thread that never rests."""


class _Shown(NamedTuple):
    """A turn with its layout, and what it was laid out as the last time: its place in the queue and its section."""

    source: TurnSource
    layout: TurnLayout
    queue_place: int | None
    element: Element | None


class ThreadPage:
    """Folds the turns of one page. Feed it the thread's events in order and chunks of drafts as they come.

    `first` is the seq from which on it shows what belongs to no turn. The newest page (`end` is None) takes turns in as
    they are submitted and lets the oldest go; `earlier` is then unknown (None) until `find_earlier` was called.
    """

    def __init__(
        self,
        thread: str,
        turns: Iterable[tuple[str, int]],
        first: int,
        *,
        end: int | None = None,
        turns_max: int = PAGE_TURNS,
    ) -> None:
        self.thread = thread
        self.first = first
        self.head = 0
        self.earlier: str | None = ""
        self._end = end
        self._turns_max = turns_max
        self._turns: dict[str, _Shown] = {}
        self._loose: dict[int, Element] = {}
        self._taken = Taken()
        self._loose_gone = 0
        self._changed: set[str] = set()
        for turn, seq in sorted(turns, key=lambda pair: pair[1]):
            self._take(turn, seq)

    def _take(self, turn: str, seq: int) -> None:
        self._turns[turn] = _Shown(TurnSource(turn, seq), TurnLayout(self.thread, turn), None, None)
        if self._end is None and len(self._turns) > self._turns_max:
            self._let_go()

    def _let_go(self) -> None:
        """The oldest turn leaves the page, and what stands before the next one."""
        del self._turns[next(iter(self._turns))]
        self.first = next(iter(self._turns.values())).source.seq_first
        self.earlier = None
        for seq in [seq for seq in self._loose if seq < self.first]:
            del self._loose[seq]

    def event(self, event: Event) -> None:
        """Take one event. Those of turns that are not on this page are let pass."""
        self.head = max(self.head, event.seq)
        body = event.body
        if isinstance(body, ThreadTruncated):
            self.hide(body.after, event.seq)
            return  # The line of what it took out tells of it.
        if event.turn is None:
            about = body.of if isinstance(body, ThreadLate) else None
            if about is not None:
                self._turn_event(about, event)
            elif self.first <= event.seq and (self._end is None or event.seq < self._end):
                self._loose_event(event)
            return
        if event.kind == Submitted.kind and self._end is None and event.turn not in self._turns:
            self._take(event.turn, event.seq)
        self._asked_again(event)
        self._turn_event(event.turn, event)

    def tell(self, gist: Gist) -> None:
        """Take a settled turn of this page in short, where its events would come."""
        self.head = max(self.head, gist.view.seq_last)
        self._asked_again(gist.events[0])
        self._turns[gist.view.turn].source.tell(gist)
        self._changed.add(gist.view.turn)

    def _asked_again(self, event: Event) -> None:
        """The turn that this event begins may ask the same as another one of the page."""
        body = event.body
        if isinstance(body, Submitted) and body.retry_of in self._turns:
            self._turns[body.retry_of].source.retried(event.turn or "", event.seq)
            self._changed.add(body.retry_of)

    def _turn_event(self, turn: str, event: Event) -> None:
        if (shown := self._turns.get(turn)) is not None:
            shown.source.event(event)
            self._changed.add(turn)

    def _loose_event(self, event: Event) -> None:
        said = Transcript()
        said.event(event)
        view = said.view()
        for message in view.messages:
            self._loose[event.seq] = loose_element(event.seq, message)
        for notice in view.notices:
            self._loose[event.seq] = loose_element(event.seq, notice)
        if len(self._loose) > PAGE_LOOSE:
            self._loose_gone = next(iter(self._loose))
            del self._loose[self._loose_gone]

    def hide(self, after: int, seq: int) -> None:
        """The truncation at `seq` took out what was begun behind `after`: turns are folded away, what else there is
        goes."""
        for turn, shown in self._turns.items():
            if after < shown.source.seq_first < seq:
                shown.source.hide(seq)
                self._changed.add(turn)
        for place in [place for place in self._loose if after < place < seq]:
            del self._loose[place]

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        if (shown := self._turns.get(chunk.turn)) is not None:
            shown.source.draft(chunk)
            self._changed.add(chunk.turn)

    def retried(self, turn: str, child: str) -> None:
        """A turn of this page was asked again by one of another page."""
        self._turns[turn].source.retried(child, 0)

    # --- what it shows -------------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[TurnSource]:
        """The turns on the page, in order."""
        return [shown.source for shown in self._turns.values()]

    def since(self, seq: int) -> set[str]:
        """Ids of the elements in `#turns` and of the link before them that a page of the position `seq` may lack, or
        may show otherwise: what an open turn's drafts have become no position tells."""
        sections = {
            shown.element.id
            for shown in self._turns.values()
            if shown.element is not None and (shown.source.open or shown.source.touched > seq)
        }
        loose = {element.id for place, element in self._loose.items() if place > seq}
        return sections | loose | self._taken.ids | {"earlier-link", "loose-more", "empty"}

    def elements(self) -> list[Element]:
        """What stands in `main#thread`."""
        self._lay_out()
        href = f"/t/{path_id(self.thread)}?before={self.earlier}" if self.earlier else None
        return [
            leaf("earlier", "earlier-link", href=href),
            shell("div", "earlier", [], data_keep=True),
            shell("div", "turns", self._ordered() or [leaf("empty", "empty")], class_="turns"),
        ]

    def _ordered(self) -> list[Element]:
        """Turns and what belongs to none, each where it began."""
        placed = [
            (it.source.seq_first, it.element, it.source.hidden) for it in self._turns.values() if it.element is not None
        ]
        placed += [(seq, element, False) for seq, element in self._loose.items()]
        ordered = self._taken.folded(
            (element, hidden) for _, element, hidden in sorted(placed, key=lambda place: place[0])
        )
        return [leaf("others_more", "loose-more"), *ordered] if self._loose_gone >= self.first else ordered

    def _lay_out(self) -> None:
        """Lay out anew what has changed since the last time."""
        before = 0
        for turn, shown in self._turns.items():
            place = before if shown.source.waiting else None
            if turn in self._changed or shown.element is None or place != shown.queue_place:
                element = shown.layout.element(shown.source.view(place))
                self._turns[turn] = shown._replace(queue_place=place, element=element)
            before += shown.source.open
        self._changed.clear()

    def find_earlier(self, log: Log) -> None:
        """Where it is not known: find the place in the list of turns where the oldest one of this page stands."""
        if self.earlier is not None:
            return
        oldest = next(iter(self._turns))
        place, rows = None, log.turns(self.thread, limit=self._turns_max)
        # The log may be ahead of this page, by any number of turns.
        while rows.next is not None and oldest not in (row.turn for row in rows.rows):
            place, rows = rows.next, log.turns(self.thread, limit=self._turns_max, before=rows.next)
        count = 1 + [row.turn for row in rows.rows].index(oldest)
        if count < len(rows.rows):
            rows = log.turns(self.thread, limit=count, before=place)
        self.earlier = "" if rows.next is None else _place_text(self.first, rows.next)


def load(log: Log, thread: str, before: str | None = None) -> ThreadPage:
    """The page as the log has it now; with `before`, the turns before that place. Blocks. Raises `UnknownThread`, and
    `InvalidInput` for a place that no page has named."""
    end, place = (None, None) if before is None else _place_of(before)
    rows = log.turns(thread, limit=PAGE_TURNS, before=place)
    first = 1 if rows.next is None else min(row.seq_first for row in rows.rows)
    page = ThreadPage(thread, [(row.turn, row.seq_first) for row in rows.rows], first, end=end)
    page.earlier = "" if rows.next is None else _place_text(first, rows.next)
    if end is None:
        _read_to_head(log, page, rows.rows)
    else:
        _read_between(log, page, end)
        for row in rows.rows:
            if row.retried_by is not None:
                page.retried(row.turn, row.retried_by)
        for known in log.truncations(thread, first):
            page.hide(*known)
    page.find_earlier(log)
    return page


def _read_to_head(log: Log, page: ThreadPage, rows: Sequence[ListedTurn]) -> None:
    """Everything from the page's first seq on, and the drafts of that very moment."""
    page.head = page.first - 1
    gists = _gists(log, page.thread, rows)
    others = {row.turn for row in rows} - {gist.view.turn for gist in gists}
    news: Iterator[Told] = log.told_events(page.thread, page.head, gists, others)
    for _ in range(_TRIES):
        for told in news:
            if isinstance(told, Gist):
                page.tell(told)
            else:
                page.event(told)
        drafts = log.drafts(page.thread)
        if log.thread(page.thread).head == page.head:
            for draft in drafts:
                page.draft(draft)
            return
        news = log.events(page.thread, after=page.head)


def _gists(log: Log, thread: str, rows: Sequence[ListedTurn]) -> list[Gist]:
    """The turns of the newest page that need not be folded: those whose snapshots are kept, and that have one."""
    long = [row for row in rows if row.state in TERMINAL and row.events >= SNAPSHOT_EVENTS_MIN]
    found = [log.gist(thread, row.turn) for row in long[:SNAPSHOTS_KEPT]]
    return [gist for gist in found if gist is not None]


def _read_between(log: Log, page: ThreadPage, end: int) -> None:
    """What lies between the page's first seq and its end, then what its turns have beyond that."""
    for event in takewhile(lambda event: event.seq < end, log.events(page.thread, after=page.first - 1)):
        page.event(event)
    for source in page.turns:
        for event in log.events(page.thread, after=end - 1, turn=source.turn):
            page.event(event)


def _place_text(first: int, place: bytes) -> str:
    text = cursor_text(b"%d:%s" % (first, place))
    assert text is not None
    return text


def _place_of(text: str) -> tuple[int, bytes]:
    """(seq before which the page ends, place of its turns). Raises `InvalidInput`."""
    seq, colon, place = cursor_of(text).partition(b":")
    if not colon or not seq.isdigit() or len(seq) > 19:
        raise InvalidInput(field="before", problem="must be a link of a thread's page")
    return int(seq), place
