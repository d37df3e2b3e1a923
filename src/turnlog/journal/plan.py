"""Plans: what a job will write, worked out without changing anything, and what follows when it is durable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnlog.engines.protocol import Chunk, Done, Engine, OwnerId, Record, ThreadRow, TurnRow, Write
from turnlog.events.clock import Clock
from turnlog.events.codec import encode_body
from turnlog.events.ids import text_bytes
from turnlog.events.kinds import VERSION, AssistantStarted, Event, KnownBody, Requested
from turnlog.folds.states import TERMINAL, next_state
from turnlog.folds.thread import ThreadFold
from turnlog.folds.turn import TurnView
from turnlog.journal.drafts import OpenDraft
from turnlog.journal.receipt import Receipt, Settlement
from turnlog.journal.state import OpenTurn, ThreadState, thread_row, turn_row


@dataclass(frozen=True)
class Desk:
    """What sealing needs beside a thread's state: whose writes they are, the time, and a look into the store."""

    engine: Engine
    owner: OwnerId
    clock: Clock

    def row(
        self, thread: str, *, turn: str | None = None, key: str | None = None, retry_of: str | None = None
    ) -> TurnRow | None:
        """The row of a turn, by its id, its key or the turn it retries."""
        rows = self.engine.turns(thread=thread, turn=turn, key=key, retry_of=retry_of, limit=1).rows
        return rows[0] if rows else None


@dataclass(slots=True)
class Plan:
    """The writes of one job, in order and all for one thread, and the events in them."""

    state: ThreadState
    now: int
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    flushed: list[tuple[OpenDraft, int, str]] = field(default_factory=list)
    """(draft, index of its write, text) of each chunk."""
    fold: ThreadFold | None = None
    """The thread's fold after the last planned write with events."""
    turn: OpenTurn | None = None
    view: TurnView | None = None
    """The view of `turn` after that write, and what is newly counted in it."""
    counted: set[str] = field(default_factory=set)
    opens: OpenTurn | None = None
    """The turn that it brings. It is the log's to work on once the plan is durable."""
    settles: list[tuple[OpenDraft, list[Receipt[None]]]] = field(default_factory=list)
    """Receipts of draft text that this plan makes durable, or replaces."""
    unfinished: bool = False
    """The job is to be worked out again once this is durable. An engine decides each write alone: where somebody else
    appends, the second one with events could be taken without the first, so a plan has one."""

    @property
    def shows(self) -> bool:
        """Whether the thread is there for readers after it: it is not while it is being copied."""
        return self.fold is None or not self.fold.importing

    @property
    def moves_queue(self) -> bool:
        """Whether a turn that waits may have something to do after it: a turn has ended, or was asked to."""
        return any(event.kind in TERMINAL or event.kind == Requested.kind for event in self.events)

    @property
    def head(self) -> int:
        """The head after the events planned so far."""
        return self.events[-1].seq if self.events else self.state.head

    def event(self, body: KnownBody, turn: str | None, data: bytes | None = None) -> Event:
        """The next event of the thread. `data` is the body encoded, when the caller has done it already."""
        event = Event(
            thread=self.state.thread,
            seq=self.head + 1,
            turn=turn,
            at=self.now,
            kind=body.kind,
            body=body,
            data=encode_body(body) if data is None else data,
        )
        self.events.append(event)
        return event

    def write_events(
        self,
        turn: OpenTurn,
        *,
        chunks: Sequence[Chunk] = (),
        closing: Sequence[OpenDraft] = (),
        fenced: bool = True,
    ) -> None:
        """Add the write of the events planned, if any, which closes `closing`; fenced in an own turn."""
        events = self.events
        turn_after, thread_after = self._rows_after(turn) if events else (None, None)
        self.writes.append(
            Write(
                thread=self.state.thread,
                base=events[0].seq - 1 if events else None,
                turn=turn.row.turn,
                fence=turn.row.fence if fenced else None,
                events=tuple(record(event) for event in events),
                turn_row=turn_after,
                thread_row=thread_after,
                chunks=tuple(chunks),
                drop=tuple(draft.id for draft in closing if draft.place is not None),
            )
        )
        for draft in closing:
            self._settles(draft)

    def _rows_after(self, turn: OpenTurn) -> tuple[TurnRow, ThreadRow]:
        self.turn = turn
        self.view, self.counted = turn.view_after(self.events)
        return turn_row(turn.row, self.view), self.thread_row_after()

    def thread_row_after(self) -> ThreadRow:
        """The thread's row after the events planned so far."""
        self.fold = self.state.fold_after(self.events)
        return thread_row(self.state.thread, self.fold)

    def flush(self, turn: OpenTurn, *, but: Sequence[OpenDraft] = ()) -> None:
        """Add the writes that make the pending text of all drafts durable, except `but`, which are about to close.

        A write opens at most one draft, so that a draft's place is its own. The first one of an answer begins it, and
        leaves the plan unfinished.
        """
        known = [draft for draft in turn.book.drafts.values() if draft.pending and draft not in but]
        opening = [draft for draft in known if draft.place is None]
        going_on = [draft for draft in known if draft.place is not None]
        for group in ([going_on] if going_on else []) + [[draft] for draft in opening]:
            self.begin_answer(turn)
            self.flushed += [(draft, len(self.writes), draft.pending) for draft in group]
            self.write_events(turn, chunks=[_chunk(turn, draft) for draft in group])
            if self.events:
                self.unfinished = True
                break
        flushed = {draft for draft, _, _ in self.flushed}
        for draft in turn.book.drafts.values():
            # Also one whose only new text is half a character, which waits without a write.
            if draft in flushed or not (draft.pending or draft in but):
                self._settles(draft)

    def begin_answer(self, turn: OpenTurn) -> None:
        """Add `assistant_started` if the turn lacks it: no other event of a plan that goes on changes the state."""
        planned = any(event.kind == AssistantStarted.kind for event in self.events)
        if not planned and next_state(turn.view.state, AssistantStarted.kind) is not None:
            self.event(AssistantStarted(), turn.row.turn)

    def _settles(self, draft: OpenDraft) -> None:
        if draft.waiting:
            self.settles.append((draft, list(draft.waiting)))

    def apply(self, dones: Sequence[Done]) -> list[Settlement]:
        """Take the durable plan into the state, and return what became of waiting drafts."""
        for draft, index, text in self.flushed:
            draft.committed += len(text)
            if draft.place is None:
                draft.place = (dones[index].head, dones[index].rev)
        if self.turn is not None and self.view is not None:
            self.turn.view = self.view
            self.turn.counted |= self.counted
        if self.fold is not None:
            self.state.take(self.events, self.fold, self.turn)
        if self.opens is not None:
            self.opens.ours = True
            self.state.open[self.opens.row.turn] = self.opens
        if dones and dones[-1].head == self.state.head:
            self.state.rev = dones[-1].rev
        elif dones:  # drafts alone name no base: somebody appended before them, and that is still to be read
            self.state.stale = True
        return self._release(None)

    def fail(self, error: BaseException) -> list[Settlement]:
        """Tell waiting drafts that the plan was not carried out."""
        return self._release(error)

    def _release(self, error: BaseException | None) -> list[Settlement]:
        settlements: list[Settlement] = []
        for draft, receipts in self.settles:
            draft.waiting = [receipt for receipt in draft.waiting if receipt not in receipts]
            settlements += [(receipt, None, error) for receipt in receipts]
        return settlements


def record(event: Event) -> Record:
    """An event as an engine keeps it."""
    return Record(seq=event.seq, turn=event.turn, at=event.at, v=VERSION, kind=event.kind, body=event.data)


def _chunk(turn: OpenTurn, draft: OpenDraft) -> Chunk:
    after, rev = draft.place or (0, 0)
    return Chunk(
        turn=turn.row.turn,
        draft=draft.id,
        after=after,
        rev=rev,
        offset=draft.committed,
        text=text_bytes(draft.pending),
    )
