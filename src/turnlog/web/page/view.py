"""What a page shows of a turn: the folds of its events, made ready to be laid out.

Pure: fed with a turn's events and the text of its open drafts, a `TurnShown` depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from turnlog.errors import RecordDamaged
from turnlog.events.kinds import Draft, Event, Interrupted, WorkerStarted
from turnlog.folds.entries import Entry
from turnlog.folds.notices import Notice
from turnlog.folds.states import TERMINAL
from turnlog.folds.summary import is_row, is_step, is_unknown_call
from turnlog.folds.timeline import Timeline
from turnlog.folds.transcript import Message, Transcript
from turnlog.folds.turn import TurnView
from turnlog.journal.gists import Gist
from turnlog.limits import CALLS_SHOWN
from turnlog.web.page.naming import label, target


class Steps(NamedTuple):
    """What the summary of a trace counts. Messages of the answer are no steps."""

    steps: int = 0
    tools: int = 0
    subagents: int = 0
    failures: int = 0
    now: Entry | None = None


class Called(NamedTuple):
    """A call, in the words of its row."""

    name: str
    target: str


class Unknown(NamedTuple):
    """The calls of a turn whose outcome nobody knows, the first of them by name."""

    calls: int = 0
    named: tuple[Called, ...] = ()


class TurnShown(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a page shows it. `queue_place` is the number of open turns before it, None unless it waits.

    `entries` is the trace of a turn that runs, and empty once it has settled: it is then fetched when somebody opens
    it. `notice` is the turn's own one, `others` tell of records in it. `detail` says more of why it was interrupted.
    `waiting` are the entries that wait for a person, once it was asked to end none.
    A `hidden` turn was taken out of the conversation.
    """

    view: TurnView
    ask: Message | None
    answer: tuple[Message, ...]
    notice: Notice | None
    others: tuple[Notice, ...]
    entries: tuple[Entry, ...]
    waiting: tuple[Entry, ...]
    unknown: Unknown
    steps: Steps
    detail: str | None
    queue_place: int | None
    hidden: bool


class TurnSource:
    """Folds one turn for a page. `touched` is the seq of the last event that may have changed what is shown.

    Once the turn has settled only its messages are kept; a trace may be large, and is read again when it is opened.
    """

    def __init__(self, turn: str, seq_first: int) -> None:
        self.turn = turn
        self.seq_first = seq_first
        self.touched = seq_first
        self._told = 0
        self._timeline: Timeline | None = Timeline(turn)
        self._transcript = Transcript()
        self._settled: tuple[TurnView, Steps, Unknown] | None = None
        self._detail: str | None = None
        self._started = False
        self._hidden = False
        self.asks = False
        """Whether the last view had something that waits for a person."""

    @property
    def open(self) -> bool:
        """Whether the turn has not settled."""
        return self._settled is None

    @property
    def hidden(self) -> bool:
        """Whether the turn was taken out of the conversation."""
        return self._hidden

    @property
    def waiting(self) -> bool:
        """Whether the turn waits to be started."""
        return self._settled is None and not self._started

    def event(self, event: Event) -> None:
        """Take one event of this turn, or a late one about it."""
        if event.seq <= self._told:
            return
        self.touched = max(self.touched, event.seq)
        self._transcript.event(event)
        if self._timeline is None:
            return
        self._timeline.event(event)
        self._started = self._started or event.kind == WorkerStarted.kind
        if event.kind in TERMINAL:
            view, entries = self._fold(self._timeline)
            if isinstance(event.body, Interrupted):
                self._detail = event.body.detail
            if view.state in TERMINAL:
                self._settled, self._timeline = (view, steps_of(entries), _unknown(entries)), None

    def tell(self, gist: Gist) -> None:
        """Take the settled turn in short, in the place of all events that the gist covers. None was taken before."""
        self._told, self._timeline = gist.covers, None
        self.touched = max(self.touched, gist.covers)
        for event in gist.events:
            self._transcript.event(event)
            if isinstance(event.body, Interrupted):
                self._detail = event.body.detail
        count = gist.summary
        steps = Steps(count.steps, count.tools, count.subagents, count.failures)
        self._settled = gist.view, steps, Unknown(count.unknown, _called(gist.unknown))

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft of this turn."""
        self._transcript.draft(chunk)
        if self._timeline is not None:
            self._timeline.draft(chunk)

    def retried(self, child: str, seq: int) -> None:
        """The turn was asked again, as the turn `child` whose first event is `seq`."""
        self.touched = max(self.touched, seq)
        self._transcript.retried(self.turn, child, seq)

    def hide(self, seq: int) -> None:
        """The turn was taken out of the conversation, by the truncation at `seq`."""
        self.touched = max(self.touched, seq)
        self._hidden = True

    def view(self, queue_place: int | None = None) -> TurnShown:
        """The turn as it stands."""
        entries, unknown = tuple[Entry, ...](), Unknown()
        if self._settled is not None:
            view, steps, unknown = self._settled
        else:
            assert self._timeline is not None
            view, entries = self._fold(self._timeline)
            steps = steps_of(entries)
        said = self._transcript.view()
        messages, notices = said.messages, said.notices
        waiting = () if view.interrupt_requested else tuple(it for it in entries if it.status == "waiting")
        self.asks = bool(waiting)
        return TurnShown(
            view=view,
            ask=next((message for message in messages if message.role != "assistant"), None),
            answer=tuple(message for message in messages if message.role == "assistant"),
            notice=next((notice for notice in notices if notice.kind in OWN), None),
            others=tuple(notice for notice in notices if notice.kind not in OWN),
            entries=tuple(rows_of(entries)),
            waiting=waiting,
            unknown=unknown,
            steps=steps,
            detail=self._detail,
            queue_place=queue_place,
            hidden=self._hidden,
        )

    def _fold(self, timeline: Timeline) -> tuple[TurnView, tuple[Entry, ...]]:
        """The trace; an empty one of a turn of which no readable record says what it is."""
        try:
            view = timeline.view()
        except RecordDamaged:
            empty = TurnView(
                turn=self.turn, state="submitted", seq_first=self.seq_first, seq_last=self.seq_first, submitted_at=0
            )
            return empty, ()
        return view.turn, view.entries


OWN: Final = frozenset({"queued", "running", "interrupted"})
"""Kinds of notices that tell of a turn as a whole."""


def steps_of(entries: tuple[Entry, ...]) -> Steps:
    """The counts of a trace."""
    shown = [entry for entry in entries if is_step(entry)]
    running = [entry for entry in shown if entry.status == "running"]
    return Steps(
        steps=len(shown),
        tools=sum(entry.kind == "tool" for entry in shown),
        subagents=sum(entry.kind == "subagent" for entry in shown),
        failures=sum(entry.status == "failed" for entry in shown),
        now=running[-1] if running else None,
    )


def rows_of(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that stand in the trace."""
    return [entry for entry in entries if is_row(entry)]


def _unknown(entries: Iterable[Entry]) -> Unknown:
    calls = [entry for entry in entries if is_unknown_call(entry)]
    return Unknown(len(calls), _called(calls[:CALLS_SHOWN]))


def _called(calls: Iterable[Entry]) -> tuple[Called, ...]:
    return tuple(Called(label(call), target(call)) for call in calls)
