"""What an agent is, and the signals it speaks in.

An agent owns its process or client: `run` takes one turn to its end. It writes in no other way than by `await
emit(signal)`, which returns when the signal is durable (a draft: when it is buffered), so a tool's body must run only
after the signal of its intent has returned. What `emit` raises must leave `run`: the turn is over then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from turnlog.events.kinds import DraftKind, Failure, Purpose, Requested, StepKind, StepStatus


@dataclass(frozen=True, kw_only=True)
class Task:
    """One turn's work. `history` holds the raw items of all earlier turns, as the `responses` profile gives them.

    `requests` yields interrupts and decisions as they are written, by any process, and ends with the turn.
    """

    thread: str
    turn: str
    content: str | list[Any]
    history: Sequence[bytes]
    workspace: Path | None
    model: str | None
    requests: AsyncIterator[Requested]


@dataclass(frozen=True, kw_only=True)
class Finish:
    """How an agent says that it is done."""

    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class DraftSignal:
    """More text of something still being written. `target` is an item, call or step id, None when there is none yet."""

    text: str
    target: str | None = None
    kind: DraftKind = "text"
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class ItemSignal:
    """One raw model item, as bytes exactly as received, or as a mapping that is encoded once.

    `purpose` sets apart what was neither said nor done: the agent's own form of the `submission`, which stands in its
    place, and what it made for itself in a `compaction` of its memory.
    """

    raw: bytes | Mapping[str, Any]
    format: str = "responses"
    purpose: Purpose | None = None


@dataclass(frozen=True, kw_only=True)
class StepSignal:
    """An upsert of one timeline entry. Absent fields keep their value. Times are wall time in µs."""

    id: str
    parent: str | None = None
    step: StepKind | None = None
    call_id: str | None = None
    agent: str | None = None
    worker_thread: str | None = None
    round: int | None = None
    name: str | None = None
    title: str | None = None
    status: StepStatus | None = None
    detail: str | None = None
    text: str | None = None
    args: Any = None
    output: str | None = None
    failure: Failure | None = None
    usage: dict[str, Any] | None = None
    started_at: int | None = None
    ended_at: int | None = None
    extra: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class UsageSignal:
    """Token counts so far."""

    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AttemptDroppedSignal:
    """The agent gave up its present attempt and begins another; the text it had shown goes into the trace."""

    reason: str | None = None


Signal: TypeAlias = DraftSignal | ItemSignal | StepSignal | UsageSignal | AttemptDroppedSignal
Emit: TypeAlias = Callable[[Signal], Awaitable[None]]


class Agent(Protocol):
    """Who speaks."""

    @property
    def name(self) -> str:
        """The agent's name, stored with each turn it takes."""
        ...

    @property
    def version(self) -> str:
        """Its version, stored likewise."""
        ...

    async def run(self, task: Task, emit: Emit) -> Finish:
        """Take the turn to its end. Raising `AgentFailed` (or anything) interrupts the turn with what was raised."""
        ...


AgentFactory: TypeAlias = Callable[[], Agent]
"""Makes an agent for one turn; what it raises settles the turn as `start_failed`."""
