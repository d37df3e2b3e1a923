"""Jobs of the owner of a turn: start, drafts, items, steps, dropped attempts, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from turnlog.engines.protocol import Done, Outcome, Phase, TurnRow, Write
from turnlog.errors import (
    AlreadySettled,
    Fenced,
    IllegalTransition,
    Overloaded,
    TooLarge,
    TurnlogError,
    UnknownTurn,
)
from turnlog.events.codec import RawHead, encode_body
from turnlog.events.kinds import (
    AttemptDropped,
    DraftKind,
    Event,
    Item,
    KnownBody,
    Reason,
    Step,
    ThreadLate,
)
from turnlog.folds.states import STARTED, next_state
from turnlog.folds.turn import encode_view, is_assistant_message
from turnlog.journal.drafts import OpenDraft
from turnlog.journal.jobs import Job
from turnlog.journal.plan import Desk, Plan, record
from turnlog.journal.receipt import Receipt, Settlement
from turnlog.journal.records import stored_view, turn_view
from turnlog.journal.settle import dropped_events, plan_completed, plan_interrupted
from turnlog.journal.state import OpenTurn, ThreadState
from turnlog.limits import EVENTS_LATE_MAX, EVENTS_PER_TURN_MAX


class DraftPart(NamedTuple):
    """Text on its way into a draft."""

    text: str
    target: str | None
    kind: DraftKind
    part: int
    receipt: Receipt[None]


@dataclass(kw_only=True, eq=False, slots=True)
class TurnJob(Job):
    """A job of the turn's owner. Draft text that was given before it goes along, in `parts`."""

    turn: str
    fence: int
    parts: list[DraftPart] = field(default_factory=list)

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`."""
        turn = state.open.get(self.turn)
        if turn is None or turn.row.fence != self.fence or turn.row.owner != desk.owner:
            return self.seal_closed(state, desk)
        self._take_parts(turn)
        self.check(turn)
        plan = Plan(state, desk.clock.now_us())
        self.plan(plan, turn, desk)
        return plan

    def _take_parts(self, turn: OpenTurn) -> None:
        """Move the text into the turn's drafts. What cannot be kept makes the turn fail; nothing is cut."""
        if turn.view.state not in STARTED:
            state = turn.view.state
            self.refuse_parts(IllegalTransition(thread=self.thread, turn=self.turn, state=state, kind="draft"))
        parts, self.parts = self.parts, []
        for part in parts:
            try:
                if turn.failed is not None:
                    raise turn.failed
                draft = turn.book.add(part.text, part.target, part.kind, part.part)
            except TooLarge as error:
                turn.failed = error
                part.receipt.refuse(error)
            else:
                draft.waiting.append(part.receipt)

    def check(self, turn: OpenTurn) -> None:
        """Raise why the turn does not take this job now."""
        if turn.failed is not None:
            raise turn.failed

    def check_kind(self, turn: OpenTurn, kind: str) -> None:
        """Raise `IllegalTransition` unless the table of states allows an event of `kind` now."""
        if next_state(turn.view.state, kind) is None:
            raise IllegalTransition(thread=self.thread, turn=self.turn, state=turn.view.state, kind=kind)
        if turn.view.events >= EVENTS_PER_TURN_MAX:
            raise TooLarge(field=kind, limit="EVENTS_PER_TURN_MAX", limit_value=EVENTS_PER_TURN_MAX)

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """Add this job's events and writes."""
        raise NotImplementedError

    def seal_closed(self, state: ThreadState, desk: Desk) -> Plan:
        """The turn is not this writer's open one any more: say what it is instead."""
        row = desk.row(self.thread, turn=self.turn)
        error: TurnlogError
        if row is None:
            error = UnknownTurn(thread=self.thread, turn=self.turn)
        elif row.fence == self.fence and row.owner == desk.owner and row.phase is Phase.SETTLED:
            error = AlreadySettled(thread=self.thread, turn=self.turn, state=turn_view(desk.engine, row).state)
            self.refuse_parts(error)
            return self.seal_late(state, desk, row, error)
        else:
            error = Fenced(thread=self.thread, turn=self.turn, fence=row.fence)
        self.refuse_parts(error)
        raise error

    def seal_late(self, state: ThreadState, desk: Desk, row: TurnRow, error: AlreadySettled) -> Plan:
        """The turn has settled under this writer's own fence."""
        raise error

    def refuse_parts(self, error: TurnlogError) -> None:
        """Tell those who wait for text that goes nowhere."""
        for part in self.parts:
            part.receipt.refuse(error)
        self.parts = []

    def text_receipts(self) -> list[Receipt[None]]:
        """See `Job`."""
        return [part.receipt for part in self.parts]

    def tell_parts(self, error: Exception) -> None:
        """Tell those who wait for text that is not stored now; the text itself stays here, to be tried again."""
        for part in self.parts:
            part.receipt.refuse(error)
        self.parts = [part._replace(receipt=Receipt()) for part in self.parts]

    def value(self, plan: Plan, dones: Sequence[Done]) -> Any:
        """See `Job`: the seq of its last event."""
        return plan.events[-1].seq if plan.events else plan.state.head

    def refusal(self, outcome: Outcome) -> Any:
        """See `Job`."""
        raise Fenced(thread=self.thread, turn=self.turn, fence=getattr(outcome, "fence", None))

    def facts(self) -> dict[str, str | None]:
        """See `Job`."""
        return {"thread": self.thread, "turn": self.turn}


@dataclass(kw_only=True, eq=False, slots=True)
class FlushJob(TurnJob):
    """Make the drafts' pending text durable."""

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        try:
            self.check_kind(turn, Item.kind)
        except TurnlogError as error:
            turn.book.refuse_waiting(error)
            raise
        plan.flush(turn)

    def check(self, turn: OpenTurn) -> None:
        """What was accepted is written even when a later part could not be."""


@dataclass(kw_only=True, eq=False, slots=True)
class EventJob(TurnJob):
    """A job that appends one item, step or dropped attempt; when the turn has settled it is kept as late."""

    body: Item | Step | AttemptDropped
    joined: list[EventJob] = field(default_factory=list)
    """Events of the same turn that go in the same write: none of them, nor this one, replaces a draft."""
    event: Event | None = None

    def takes(self, other: EventJob) -> bool:
        """Whether `other`, which follows it, may join."""
        return (
            (other.turn, other.fence) == (self.turn, self.fence)
            and not other.parts
            and isinstance(other, ItemJob | StepJob)
            and not isinstance(self, DropAttemptJob)
        )

    def receipts(self) -> list[Receipt[Any]]:
        """See `Job`."""
        return [self.receipt, *(job.receipt for job in self.joined)]

    def answers(self, plan: Plan, dones: Sequence[Done]) -> list[Settlement]:
        """See `Job`: each its seq."""
        jobs = (self, *self.joined)
        return [(job.receipt, job.event.seq, None) for job in jobs if job.event is not None]

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        self.check_kind(turn, self.body.kind)
        closing = self.closing(turn)
        plan.flush(turn, but=closing)
        if plan.unfinished:
            return
        for job in (self, *self.joined):
            for body in job.bodies(turn, closing):
                if isinstance(body, Item) and is_assistant_message(body):
                    plan.begin_answer(turn)
                job.event = plan.event(body, self.turn)
        plan.write_events(turn, closing=closing)

    def closing(self, turn: OpenTurn) -> list[OpenDraft]:
        """The drafts it replaces."""
        raise NotImplementedError

    def bodies(self, turn: OpenTurn, closing: list[OpenDraft]) -> list[KnownBody]:
        """The events it appends."""
        raise NotImplementedError

    def seal_late(self, state: ThreadState, desk: Desk, row: TurnRow, error: AlreadySettled) -> Plan:
        """Keep it as an event of the thread, so that the turn's own end stays its end."""
        view = stored_view(desk.engine, row)
        plan = Plan(state, desk.clock.now_us())
        for job in (self, *self.joined):
            job.event = plan.event(ThreadLate(of=self.turn, late=job.body.kind, raw=encode_body(job.body)), None)
        late = [*view.late, *(event.seq for event in plan.events)]
        if len(late) > EVENTS_LATE_MAX:
            raise Overloaded(thread=self.thread, turn=self.turn, limit="EVENTS_LATE_MAX", limit_value=EVENTS_LATE_MAX)
        fold = encode_view(replace(view, late=late))
        plan.writes.append(
            Write(
                thread=self.thread,
                base=state.head,
                turn=self.turn,
                events=tuple(record(event) for event in plan.events),
                turn_row=replace(row, fold=fold),
                thread_row=plan.thread_row_after(),
            )
        )
        return plan


@dataclass(kw_only=True, eq=False, slots=True)
class ItemJob(EventJob):
    """Append a raw item; it replaces the drafts it is the final form of."""

    body: Item
    head: RawHead

    def closing(self, turn: OpenTurn) -> list[OpenDraft]:
        """See `EventJob`."""
        return turn.book.closed_by_item(self.head) if self.body.purpose is None else []

    def bodies(self, turn: OpenTurn, closing: list[OpenDraft]) -> list[KnownBody]:
        """See `EventJob`."""
        return [replace(self.body, closes=[closed for draft in closing for closed in draft.closed])]


@dataclass(kw_only=True, eq=False, slots=True)
class StepJob(EventJob):
    """Upsert a step. When it settles, it takes over the text of the drafts that were about it."""

    body: Step

    def closing(self, turn: OpenTurn) -> list[OpenDraft]:
        """See `EventJob`."""
        return turn.book.closed_by_step(self.body)

    def bodies(self, turn: OpenTurn, closing: list[OpenDraft]) -> list[KnownBody]:
        """See `EventJob`: what was shown is moved by the step, unless the step itself says it."""
        parts = sorted(closing, key=lambda draft: draft.name.part)
        told = {
            kind: "".join(draft.whole for draft in parts if draft.name.kind == kind)
            for kind in ("text", "args", "output")
        }
        return [
            replace(
                self.body,
                text=self.body.text if self.body.text is not None else told["text"] or None,
                args=self.body.args if self.body.args is not None else told["args"] or None,
                output=self.body.output if self.body.output is not None else told["output"] or None,
                closes=[closed for draft in closing for closed in draft.closed],
            )
        ]


@dataclass(kw_only=True, eq=False, slots=True)
class DropAttemptJob(EventJob):
    """Give the present attempt up. Its text moves into the trace."""

    body: AttemptDropped

    def closing(self, turn: OpenTurn) -> list[OpenDraft]:
        """See `EventJob`."""
        return list(turn.book.drafts.values())

    def bodies(self, turn: OpenTurn, closing: list[OpenDraft]) -> list[KnownBody]:
        """See `EventJob`."""
        return list(dropped_events(turn.book.attempt, self.body.reason, closing))


@dataclass(kw_only=True, eq=False, slots=True)
class CompleteJob(TurnJob):
    """The turn ended well."""

    usage: dict[str, Any] | None
    finish_reason: str | None

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        self.check_kind(turn, "completed")
        plan_completed(plan, turn, usage=self.usage, finish_reason=self.finish_reason)


@dataclass(kw_only=True, eq=False, slots=True)
class InterruptJob(TurnJob):
    """The turn ended otherwise."""

    reason: Reason
    detail: str | None

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        plan_interrupted(plan, turn, reason=self.reason, detail=self.detail)

    def check(self, turn: OpenTurn) -> None:
        """An interrupt is always possible."""
