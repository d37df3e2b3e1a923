"""Jobs that bring something new into a thread: a submission, a request, an item without a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, get_args

from msgspec.structs import replace

from turnlog.engines.protocol import Claim, Done, Duplicate, KeyConflict, Outcome, Phase, TurnRow, Write
from turnlog.errors import (
    AlreadyDecided,
    AlreadySettled,
    Busy,
    InvalidInput,
    NotRetryable,
    Overloaded,
    ThreadImporting,
    TooLarge,
    TurnlogError,
    UnknownThread,
    UnknownTurn,
)
from turnlog.errors import KeyConflict as KeyConflictError
from turnlog.events.codec import accept_body, decode_body, largest_field
from turnlog.events.kinds import Requested, Submitted, ThreadCreated, ThreadItem
from turnlog.events.thread_kinds import ThreadTruncated
from turnlog.folds.turn import encode_view, next_view
from turnlog.journal.ends import REPLACED_BY
from turnlog.journal.plan import Desk, Plan, record
from turnlog.journal.receipt import Receipt, Settlement
from turnlog.journal.records import turn_view
from turnlog.journal.state import OpenTurn, ThreadState, catch_up
from turnlog.journal.truncating import cut, hidden_of, shown_turn
from turnlog.limits import (
    QUEUE_TURNS_MAX,
    READ_BYTES_MAX,
    REQUESTS_PER_TURN_MAX,
    RESEAL_TRIES_MAX,
    RESEAL_WAIT_S,
    SUBMISSION_BYTES_MAX,
)

WhenBusy: TypeAlias = Literal["refuse", "queue", "replace"]
"""What becomes of a submission while turns of its thread are open: it is refused, waits behind them, or asks them to
end and waits for that."""


@dataclass(kw_only=True, eq=False, slots=True)
class Job:
    """One thing to write. `seal` works out a plan; it may be called again when another process appended first."""

    thread: str
    receipt: Receipt[Any] = field(default_factory=Receipt)
    size_bytes: int = 0
    tries: int = 0
    lost_first: float = 0.0
    looked: bool = False
    """It has been looked whether the turn in its way is a dead writer's."""

    def may_try_again(self, now: float) -> bool:
        """Whether it is worked out once more, as somebody else appended first."""
        if not self.tries:
            self.lost_first = now
        self.tries += 1
        return self.tries < RESEAL_TRIES_MAX and now - self.lost_first < RESEAL_WAIT_S

    def work_out(self, state: ThreadState, desk: Desk) -> Plan:
        """`seal` it, unless the thread is still being copied: then it raises `ThreadImporting`."""
        if state.fold is not None and state.fold.importing:
            catch_up(desk.engine, state, desk.owner)  # another process may have ended it
            if state.fold.importing:
                raise ThreadImporting(thread=self.thread)
        return self.seal(state, desk)

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """Work out the plan, or raise why it is refused. Changes neither `state` nor the store."""
        raise NotImplementedError

    def value(self, plan: Plan, dones: Sequence[Done]) -> Any:
        """The receipt's value, once the plan is durable and taken into the state."""
        raise NotImplementedError

    def answers(self, plan: Plan, dones: Sequence[Done]) -> list[Settlement]:
        """Its receipt, and those of jobs that joined it, once the plan is durable and taken into the state."""
        try:
            return [(self.receipt, self.value(plan, dones), None)]
        except Exception as error:  # it is the answer of who asked
            return [(self.receipt, None, error)]

    def receipts(self) -> list[Receipt[Any]]:
        """Who waits for it: its own receipt, and those of jobs that joined it."""
        return [self.receipt]

    def text_receipts(self) -> list[Receipt[None]]:
        """Who waits for draft text that goes along with it."""
        return []

    def refusal(self, outcome: Outcome) -> Any:
        """The receipt's value for an outcome other than `Done` and `Moved`, or raise what it is refused with."""
        raise AssertionError(f"{type(self).__name__} is never answered by {outcome}")

    def facts(self) -> dict[str, str | None]:
        """Thread, turn and key for `StoreUnavailable`: how to find out what became of it."""
        return {"thread": self.thread}


class Accepted(NamedTuple):
    """A submission that is in the log: by this call, or before (`duplicate`)."""

    row: TurnRow
    duplicate: bool
    turn: OpenTurn | None


@dataclass(kw_only=True, eq=False, slots=True)
class SubmitJob(Job):
    """Accept a submission, creating the thread if it is new."""

    turn: str
    body: Submitted
    data: bytes
    finish: Callable[[Accepted], Any]
    when_busy: WhenBusy
    opened: OpenTurn | None = None

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. Raises `Busy` or `Overloaded` when open turns are in its way, unless it is known already.

        So it does with what says that the turn it retries or edits may not be.
        """
        if self.opened is not None and self.stored:
            return self._seal_replacing(state, desk, self.opened)
        about = self.body.retry_of or self.body.edit_of
        if state.open or about is not None:  # also an own turn may have been taken over and settled elsewhere
            catch_up(desk.engine, state, desk.owner)
        # One that replaces the others may go over the limit by one: else nothing empties a full queue at once.
        most = QUEUE_TURNS_MAX + (self.when_busy == "replace")
        crowded = state.open and (self.when_busy == "refuse" or len(state.open) >= most)
        if self.body.retry_of is not None:
            self._refuse_hidden(state, desk, self.body.retry_of)
        # A known one goes on, so that the engine answers `Duplicate` or `KeyConflict`.
        if not (crowded or about) or self._known(desk):
            return self._seal_submission(state, desk, None)
        if crowded:
            if self.body.edit_of is not None:
                shown_turn(state, desk, self.body.edit_of, hidden_of(state, desk))
            self._refuse(state)
        return self._seal_submission(state, desk, self._cut(state, desk))

    def _cut(self, state: ThreadState, desk: Desk) -> ThreadTruncated | None:
        """What takes the edited message out of the conversation, in the same write as the one in its place."""
        if self.body.edit_of is None:
            return None
        if state.fold is None:
            raise UnknownThread(thread=self.thread)
        return cut(state, desk, self.body.edit_of, why="edit", open_too=self.when_busy == "replace").body

    def _refuse_hidden(self, state: ThreadState, desk: Desk, turn: str) -> None:
        """Neither a turn that is no part of the conversation is asked again, nor one whose only retry is none."""
        hidden = hidden_of(state, desk)
        rows = [desk.row(self.thread, turn=turn), desk.row(self.thread, retry_of=turn)]
        if any(row is not None and hidden.by(row.seq_first) is not None for row in rows):
            raise NotRetryable(thread=self.thread, turn=turn, state="interrupted")

    def _seal_submission(self, state: ThreadState, desk: Desk, truncated: ThreadTruncated | None) -> Plan:
        plan = Plan(state, desk.clock.now_us())
        if state.fold is None:
            plan.event(ThreadCreated(), None)
        if truncated is not None:
            plan.event(truncated, None)
        event = plan.event(self.body, self.turn, self.data)
        view, _ = next_view(None, event, ())
        assert view is not None
        row = TurnRow(
            thread=self.thread,
            turn=self.turn,
            key=self.body.key,
            digest=self.body.digest,
            retry_of=self.body.retry_of,
            phase=Phase.SUBMITTED,
            seq_first=event.seq,
            seq_last=event.seq,
            fold=encode_view(view),
        )
        plan.opens = self.opened = OpenTurn(replace(row, owner=desk.owner, fence=1), view)
        plan.unfinished = self.when_busy == "replace" and bool(_to_replace(state, event.seq))
        plan.writes.append(
            Write(
                thread=self.thread,
                base=state.head,
                turn=self.turn,
                claim=Claim(owner=desk.owner),
                events=tuple(record(event) for event in plan.events),
                turn_row=row,
                thread_row=plan.thread_row_after(),
            )
        )
        return plan

    def _known(self, desk: Desk) -> bool:
        names = ({"key": self.body.key}, {"retry_of": self.body.retry_of}, {"turn": self.turn})
        return any(desk.row(self.thread, **name) for name in names if None not in name.values())

    def _refuse(self, state: ThreadState) -> NoReturn:
        if self.when_busy == "refuse":
            raise Busy(thread=self.thread, turn=self.turn, running=state.first_open.row.turn)
        raise Overloaded(thread=self.thread, turn=self.turn, limit="QUEUE_TURNS_MAX", limit_value=QUEUE_TURNS_MAX)

    def _seal_replacing(self, state: ThreadState, desk: Desk, opened: OpenTurn) -> Plan:
        """The submission is durable, so nothing is lost any more by asking the turns before it to end, one a write."""
        plan = Plan(state, desk.clock.now_us())
        earlier = [] if opened.lost else _to_replace(state, opened.row.seq_first)
        if earlier:
            plan.event(Requested(what="interrupt", by=f"{REPLACED_BY}{self.turn}"), earlier[0].row.turn)
            plan.write_events(earlier[0], fenced=False)
            plan.unfinished = len(earlier) > 1
        return plan

    @property
    def stored(self) -> bool:
        """Whether the submission is durable, while the turns before it are still being asked to end."""
        return self.opened is not None and self.opened.ours

    def disown(self) -> None:
        """Its receipt told of a failure, so nobody works on the turn: where it is stored, recovery settles it."""
        if self.opened is not None:
            self.opened.ours = False

    def value(self, plan: Plan, dones: Sequence[Done]) -> Any:
        """See `Job`."""
        assert self.opened is not None
        return self.finish(Accepted(self.opened.row, False, self.opened))

    def refusal(self, outcome: Outcome) -> Any:
        """See `Job`."""
        if isinstance(outcome, Duplicate):
            return self.finish(Accepted(outcome.row, True, None))
        assert isinstance(outcome, KeyConflict)
        raise KeyConflictError(
            thread=self.thread,
            turn=outcome.row.turn,
            key=self.body.key,
            stored_digest=outcome.row.digest,
            given_digest=outcome.digest,
        )

    def facts(self) -> dict[str, str | None]:
        """See `Job`."""
        return {"thread": self.thread, "turn": self.turn, "key": self.body.key}


@dataclass(kw_only=True, eq=False, slots=True)
class RequestJob(Job):
    """Ask the owner of an open turn for something, whoever that is."""

    turn: str
    body: Requested
    seq: int = 0

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. A second interrupt changes nothing; a second decision raises `AlreadyDecided`."""
        turn = state.open.get(self.turn)
        if turn is None or turn.row.owner != desk.owner:  # what others do with it is not followed
            catch_up(desk.engine, state, desk.owner)
            turn = state.open.get(self.turn)
        if turn is None:
            raise self._why_not(desk)
        plan = Plan(state, desk.clock.now_us())
        self.seq = self._said_before(desk)
        if not self.seq:
            self.seq = plan.event(self.body, self.turn).seq
            plan.write_events(turn, fenced=False)
        return plan

    def _why_not(self, desk: Desk) -> TurnlogError:
        row = desk.row(self.thread, turn=self.turn)
        if row is None:
            return UnknownTurn(thread=self.thread, turn=self.turn)
        return AlreadySettled(thread=self.thread, turn=self.turn, state=turn_view(desk.engine, row).state)

    def _said_before(self, desk: Desk) -> int:
        """The seq of the same request, 0 if there is none."""
        earlier = desk.engine.read(
            self.thread,
            turn=self.turn,
            kinds={Requested.kind},
            limit=REQUESTS_PER_TURN_MAX,
            bytes_max=READ_BYTES_MAX,
        ).rows
        for row in earlier:
            body = decode_body(row.kind, row.v, row.body)
            if not isinstance(body, Requested) or body.what != self.body.what or body.approval != self.body.approval:
                continue
            if body.what == "interrupt":
                return row.seq
            raise AlreadyDecided(thread=self.thread, turn=self.turn, approval=body.approval or "", seq=row.seq)
        if len(earlier) >= REQUESTS_PER_TURN_MAX:
            raise Overloaded(
                thread=self.thread, turn=self.turn, limit="REQUESTS_PER_TURN_MAX", limit_value=REQUESTS_PER_TURN_MAX
            )
        return 0

    def value(self, plan: Plan, dones: Sequence[Done]) -> int:
        """See `Job`: the request's seq."""
        return self.seq


@dataclass(kw_only=True, eq=False, slots=True)
class ThreadItemJob(Job):
    """Append a raw item that belongs to no turn, creating the thread if it is new."""

    body: ThreadItem

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`."""
        plan = Plan(state, desk.clock.now_us())
        if state.fold is None:
            plan.event(ThreadCreated(), None)
        plan.event(self.body, None)
        plan.writes.append(
            Write(
                thread=self.thread,
                base=state.head,
                events=tuple(record(event) for event in plan.events),
                thread_row=plan.thread_row_after(),
            )
        )
        return plan

    def value(self, plan: Plan, dones: Sequence[Done]) -> int:
        """See `Job`: the item's seq."""
        return plan.events[-1].seq


def _to_replace(state: ThreadState, seq: int) -> list[OpenTurn]:
    """The open turns submitted before `seq` that nobody has asked to end yet."""
    return [turn for turn in state.open_before(seq) if not turn.view.interrupt_requested]


def check_when_busy(when_busy: WhenBusy) -> WhenBusy:
    """Give it back; raise `InvalidInput` unless it is one."""
    if when_busy not in get_args(WhenBusy):
        raise InvalidInput(field="when_busy", problem=f"must be one of {', '.join(get_args(WhenBusy))}")
    return when_busy


def accept_submission(body: Submitted) -> bytes:
    """The stored bytes of a submission. Raises `TooLarge` by the same limit however large it is."""
    try:
        data = accept_body(body)
        given: int | None = len(data)
        if len(data) <= SUBMISSION_BYTES_MAX or body.retry_of is not None:
            return data
    except TooLarge as error:
        given = error.given
    raise TooLarge(
        field=largest_field(body), limit="SUBMISSION_BYTES_MAX", limit_value=SUBMISSION_BYTES_MAX, given=given
    )


def check_content(content: str | list[Any]) -> None:
    """Raise `InvalidInput` unless `content` is text that says something, or a list of mappings with at least one."""
    if isinstance(content, str):
        if not content.strip():
            raise InvalidInput(field="content", problem="must not be empty")
        return
    parts: Any = content  # callers without a type checker pass anything
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise InvalidInput(field="content", problem="must be text or a list of input parts")
