"""A turn in the hands of who submitted it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, get_args

from turnlog.errors import DuplicateTurn, InvalidInput, StoreClosed, TooLarge
from turnlog.events.codec import RawHead, accept_body, accept_raw, check_value, encode_json
from turnlog.events.ids import check_name
from turnlog.events.kinds import (
    AttemptDropped,
    DraftKind,
    Failure,
    Item,
    Purpose,
    Reason,
    Requested,
    Step,
    StepKind,
    StepStatus,
)
from turnlog.folds.states import TERMINAL, State
from turnlog.journal.jobs import Accepted
from turnlog.journal.receipt import Receipt, settled
from turnlog.journal.records import turn_view
from turnlog.journal.turn_jobs import (
    CompleteJob,
    DraftPart,
    DropAttemptJob,
    InterruptJob,
    ItemJob,
    StepJob,
)
from turnlog.journal.turn_queue import ReadyJob, StartJob
from turnlog.journal.writer import Writer
from turnlog.limits import DETAIL_BYTES_MAX, DRAFT_PART_MAX, NAME_BYTES_MAX, TIME_US_MAX


class Turn:
    """One submission. Its owner starts it, writes to it and ends it; every write gives a `Receipt`.

    A turn with `duplicate` was in the log before: its work is somebody else's, or done.
    """

    __slots__ = ("_fence", "_open", "_row", "_writer", "duplicate", "id", "thread")

    def __init__(self, writer: Writer, accepted: Accepted) -> None:
        row = accepted.row
        self.thread = row.thread
        self.id = row.turn
        self.duplicate = accepted.duplicate
        self._row = row
        self._fence = row.fence
        self._writer = writer
        self._open = accepted.turn

    def __repr__(self) -> str:
        return f"<Turn {self.id!r} of {self.thread!r}: {self.state}>"

    @property
    def seq(self) -> int:
        """The seq of its submission."""
        return self._row.seq_first

    @property
    def state(self) -> State:
        """The turn's state as this log knows it: of a duplicate, what it was when it was submitted again."""
        if self._open is not None:
            return self._open.view.state
        return turn_view(self._writer.engine, self._row).state

    @property
    def settled(self) -> bool:
        """Whether the turn has ended, or another process has taken it over."""
        return self.state in TERMINAL or (self._open is not None and self._open.lost)

    def refuse_duplicate(self) -> None:
        """Raise `DuplicateTurn` when the submission was already in the log, so that its work is not done twice."""
        if self.duplicate:
            raise DuplicateTurn(thread=self.thread, turn=self.id, state=self.state)

    def ready(self) -> Receipt[None]:
        """Wait for the turn's time: done when no turn that was submitted before it in its thread is open.

        A turn that is asked to end while it waits is settled, as `cancelled`. Raises `AlreadySettled` when the turn
        ended waiting, and `Fenced` when another writer took it over.
        """
        return self._writer.put(ReadyJob(**self._names))

    def start(self, agent: str | None = None, agent_version: str | None = None) -> Receipt[int]:
        """The work begins: once the receipt is durable, and not before, an agent may run. Gives the event's seq.

        Raises `IllegalTransition` when it has begun before, and `Busy` while an earlier turn of its thread is open.
        """
        for field, name in (("agent", agent), ("agent_version", agent_version)):
            if name is not None:
                check_name(field, name)
        return self._writer.put(StartJob(**self._names, agent=agent, agent_version=agent_version))

    def draft(self, text: str, target: str | None = None, kind: DraftKind = "text", part: int = 0) -> Receipt[None]:
        """More text of something being written. Cheap, and need not be awaited; awaited, it returns when durable.

        `target` is the agent's own item, call or step id, if it has one; `part` tells texts of one target apart. Raises
        `Overloaded` when the disk is too slow, and has then taken nothing. Text over `DRAFT_BYTES_MAX` makes the
        turn's further writes raise `TooLarge`, until it is interrupted.
        """
        _check_draft(text, target, kind, part)
        if not text:
            return settled(None)
        if self._open is not None and self._open.failed is not None:
            raise self._open.failed
        receipt: Receipt[None] = Receipt()
        self._writer.put_draft(self.thread, self.id, self._fence, DraftPart(text, target, kind, part, receipt))
        return receipt

    def item(
        self, raw: bytes | Mapping[str, Any], format: str = "responses", *, purpose: Purpose | None = None
    ) -> Receipt[int]:
        """A raw model item, kept byte for byte; it replaces the drafts it is the final form of. Gives its seq.

        With a `purpose` it is no part of the conversation itself, see `Item`. Raises `NotJson` or `TooLarge` at once.
        """
        fields, head = item_fields(raw, format)
        if purpose not in (None, *get_args(Purpose)):
            raise InvalidInput(field="purpose", problem=f"must be one of {', '.join(get_args(Purpose))}")
        body = Item(**fields, purpose=purpose)
        return self._writer.put(ItemJob(**self._names, body=body, head=head, size_bytes=len(accept_body(body))))

    def step(
        self,
        id: str,
        *,
        kind: StepKind | None = None,
        parent: str | None = None,
        call_id: str | None = None,
        agent: str | None = None,
        worker_thread: str | None = None,
        round: int | None = None,
        name: str | None = None,
        title: str | None = None,
        status: StepStatus | None = None,
        detail: str | None = None,
        text: str | None = None,
        args: Any = None,
        output: str | None = None,
        failure: Failure | None = None,
        usage: dict[str, Any] | None = None,
        started_at: int | None = None,
        ended_at: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Receipt[int]:
        """Upsert one timeline entry that items alone cannot tell. Gives the event's seq.

        Absent fields keep their value, an empty one never erases. Times are wall time in µs. Raises `InvalidInput`.
        """
        return self.put_step(
            Step(
                id=id,
                parent=parent,
                step=kind,
                call_id=call_id,
                agent=agent,
                worker_thread=worker_thread,
                round=round,
                name=name,
                title=title,
                status=status,
                detail=detail,
                text=text,
                args=args,
                output=output,
                failure=failure,
                usage=usage,
                started_at=started_at,
                ended_at=ended_at,
                extra=extra,
            )
        )

    def put_step(self, step: Step) -> Receipt[int]:
        """The same, given as a `Step`. Its `closes` is the journal's to say."""
        for field in ("id", "parent", "call_id", "agent", "worker_thread", "name"):
            value = getattr(step, field)
            if value is not None:
                check_name(field, value)
        for field in ("args", "usage", "extra"):
            check_value(field, getattr(step, field))
        for field in ("started_at", "ended_at"):
            if not 0 <= (getattr(step, field) or 0) <= TIME_US_MAX:
                raise InvalidInput(field=field, problem="must be wall time in microseconds")
        size = len(accept_body(step))
        return self._writer.put(StepJob(**self._names, body=step, size_bytes=size))

    def drop_attempt(self, reason: str | None = None) -> Receipt[int]:
        """The agent begins again: what this attempt has shown stays in the trace, and nowhere else."""
        return self._writer.put(
            DropAttemptJob(**self._names, body=AttemptDropped(attempt=0, reason=_detail("reason", reason)))
        )

    def complete(self, usage: dict[str, Any] | None = None, finish_reason: str | None = None) -> Receipt[int]:
        """The turn ends well. Draft text that no item closed becomes the answer, marked as such."""
        if usage is not None and not isinstance(usage, dict):
            raise InvalidInput(field="usage", problem="must be a mapping")
        check_value("usage", usage)
        if usage is not None and len(encode_json(usage)) > DETAIL_BYTES_MAX:
            raise TooLarge(field="usage", limit="DETAIL_BYTES_MAX", limit_value=DETAIL_BYTES_MAX)
        finish_reason = _detail("finish_reason", finish_reason)
        return self._writer.put(CompleteJob(**self._names, usage=usage, finish_reason=finish_reason))

    def interrupt(self, reason: Reason, detail: str | None = None) -> Receipt[int]:
        """The turn ends otherwise: its open drafts are closed and it is settled, in one write."""
        if reason not in get_args(Reason):
            raise InvalidInput(field="reason", problem=f"must be one of {', '.join(get_args(Reason))}")
        return self._writer.put(InterruptJob(**self._names, reason=reason, detail=_detail("detail", detail)))

    async def requests(self) -> AsyncGenerator[Requested, None]:
        """What others asked of the owner of this turn, as it is written, by any process. Ends when the turn does."""
        self._writer.check()
        given = 0
        with self._writer.hub.subscribe(self.thread) as follower:
            while self._open is not None:
                follower.listen()
                while given < len(self._open.requested):
                    given += 1
                    yield self._open.requested[given - 1]
                if self.settled:
                    return
                try:
                    await follower.wait()
                except StoreClosed:
                    return

    @property
    def _names(self) -> dict[str, Any]:
        return {"thread": self.thread, "turn": self.id, "fence": self._fence}


def _check_draft(text: str, target: str | None, kind: DraftKind, part: int) -> None:
    if not isinstance(text, str):
        raise InvalidInput(field="text", problem=f"must be text, not {type(text).__name__}")
    if kind not in get_args(DraftKind):
        raise InvalidInput(field="kind", problem=f"must be one of {', '.join(get_args(DraftKind))}")
    if type(part) is not int or not 0 <= part <= DRAFT_PART_MAX:
        raise InvalidInput(field="part", problem=f"must be a number from 0 to {DRAFT_PART_MAX}")
    if target is not None and check_name("target", target).startswith("~"):
        raise InvalidInput(field="target", problem="must not begin with ~, which marks drafts without a target")


def item_fields(raw: bytes | Mapping[str, Any], format_: str) -> tuple[dict[str, Any], RawHead]:
    """The fields of an `Item` or `ThreadItem` that keeps `raw`, and what else was read from it."""
    data, head = accept_raw(raw)
    return {
        "format": check_name("format", format_),
        "type": head.type if isinstance(head.type, str) else "",
        "id": _name(head.id),
        "call_id": _name(head.call_id),
        "raw": data,
    }, head


def _name(value: Any) -> str | None:
    """An id found in a raw item, for those who do not parse it; one that is no id is not taken out of it."""
    return value if isinstance(value, str) and value and len(encode_json(value)) - 2 <= NAME_BYTES_MAX else None


def _detail(field: str, text: str | None) -> str | None:
    if text is not None and not isinstance(text, str):
        raise InvalidInput(field=field, problem=f"must be text, not {type(text).__name__}")
    if text is not None and (given := len(encode_json(text)) - 2) > DETAIL_BYTES_MAX:
        raise TooLarge(field=field, limit="DETAIL_BYTES_MAX", limit_value=DETAIL_BYTES_MAX, given=given)
    return text
