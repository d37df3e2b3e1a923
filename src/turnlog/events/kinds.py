"""What can happen: the closed union of event kinds, version 1.

Each kind is one frozen struct, the *body* of an event. The envelope (thread, seq, turn, time, kind, version) is
`Event`.
A body's fields are written in the order they stand here, fields at their default are left out, and a reader ignores
fields it does not know (the stored bytes keep them). See docs/format.md.

Two kinds, `item` and `thread_item`, carry a payload beside their fields: `raw`, the model item exactly as accepted.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from turnlog.events.body import Body, DroppedText
from turnlog.events.thread_kinds import (
    ThreadCompacted,
    ThreadForked,
    ThreadRenamed,
    ThreadRepaired,
    ThreadRepairUndone,
    ThreadSettings,
    ThreadTruncated,
)

VERSION = 1
"""Version of the envelope and bodies below. A record of a higher version is carried verbatim as `Unknown`."""

Synthesized = Literal["interrupted", "no_final_item"]
Purpose = Literal["submission", "compaction"]
StepKind = Literal["tool", "subagent", "phase", "plan", "note", "approval", "reasoning"]
StepStatus = Literal["running", "succeeded", "failed", "interrupted", "unknown", "waiting"]
DraftKind = Literal["text", "reasoning", "args", "output"]
RequestWhat = Literal["interrupt", "decide"]
Reason = Literal[
    "cancelled",
    "failed",
    "timed_out",
    "transport_closed",
    "process_died",
    "not_started",
    "start_failed",
    "workspace_failed",
    "too_large",
    "recovery_exhausted",
]


class Closed(msgspec.Struct, frozen=True):
    """A draft that the event carrying this replaces: its id and its place in the turn, (after, rev)."""

    draft: str
    after: int
    rev: int


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that came with a submission: described here, not stored."""

    name: str
    path: str | None = None
    type: str | None = None
    bytes: int | None = None
    sha256: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a step failed and what a person can do about it."""

    reason: str
    next_step: str | None = None


class Submitted(Body, frozen=True, kw_only=True):
    """A person submitted a message. `content` is text, or a list of Responses input parts.

    `agent` names who was asked; who answers is told by `worker_started`. `edit_of` is the turn whose message this one
    takes the place of: it was truncated away just before.
    """

    kind: ClassVar[str] = "submitted"
    role: str = "user"
    content: str | list[Any]
    attachments: list[Attachment] = []
    key: str | None = None
    digest: str
    stream_id: str | None = None
    agent: str | None = None
    workspace: str | None = None
    model: str | None = None
    model_provider: str | None = None
    retry_of: str | None = None
    edit_of: str | None = None


class WorkerStarted(Body, frozen=True, kw_only=True):
    """The owner begins to work on the turn."""

    kind: ClassVar[str] = "worker_started"
    owner: str
    fence: int
    agent: str | None = None
    agent_version: str | None = None


class AssistantStarted(Body, frozen=True, kw_only=True):
    """The first sign of an answer: written with the first draft or the first assistant item."""

    kind: ClassVar[str] = "assistant_started"


class Item(Body, frozen=True, kw_only=True):
    """One raw model item; `type`, `id`, `call_id` are read from it for those who do not parse it.

    `purpose` is None for what was said and done. A `submission` is the agent's own form of what was submitted: in a
    history it stands in its place. A `compaction` is a summary that the agent made for itself, and nobody's answer.
    """

    kind: ClassVar[str] = "item"
    format: str = "responses"
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    closes: list[Closed] = []
    synthesized: Synthesized | None = None
    purpose: Purpose | None = None
    raw: bytes = b""


class Step(Body, frozen=True, kw_only=True):
    """An upsert of one timeline entry: absent fields keep their value, an empty one never erases."""

    kind: ClassVar[str] = "step"
    id: str
    parent: str | None = None
    step: StepKind | None = msgspec.field(default=None, name="kind")
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
    closes: list[Closed] = []


class AttemptDropped(Body, frozen=True, kw_only=True):
    """An attempt was abandoned (a retry inside the agent); what it had shown stays in the trace only."""

    kind: ClassVar[str] = "attempt_dropped"
    attempt: int
    reason: str | None = None
    dropped: list[DroppedText] = []
    closes: list[Closed] = []


class Requested(Body, frozen=True, kw_only=True):
    """Somebody asked the owner to interrupt, or decided an approval. Any process may write it."""

    kind: ClassVar[str] = "requested"
    what: RequestWhat
    approval: str | None = None
    value: Any = None
    by: str | None = None


class Completed(Body, frozen=True, kw_only=True):
    """The turn ended well. `answer` is the seq of its last assistant message, if there is one."""

    kind: ClassVar[str] = "completed"
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    answer: int | None = None


class Interrupted(Body, frozen=True, kw_only=True):
    """The turn ended otherwise. `unknown_calls` were begun and their outcome is not known."""

    kind: ClassVar[str] = "interrupted"
    reason: Reason
    detail: str | None = None
    unknown_calls: list[str] = []


class ThreadCreated(Body, frozen=True, kw_only=True):
    """The thread begins: always its first event."""

    kind: ClassVar[str] = "thread_created"
    title: str | None = None


class ThreadItem(Body, frozen=True, kw_only=True):
    """A raw model item that belongs to no turn."""

    kind: ClassVar[str] = "thread_item"
    format: str = "responses"
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    raw: bytes = b""


class ThreadLate(Body, frozen=True, kw_only=True):
    """What a turn's owner sent after it had settled the turn itself. `raw` is the late event's own body."""

    kind: ClassVar[str] = "thread_late"
    of: str
    late: str
    raw: bytes = b""


class Unknown(Body, frozen=True, kw_only=True):
    """A record of a kind or version this turnlog does not know; its bytes are in `Event.data`."""

    kind: ClassVar[str] = "?"


class Damaged(Body, frozen=True, kw_only=True):
    """A record of a known kind that cannot be read; its bytes are in `Event.data`."""

    kind: ClassVar[str] = "!"
    problem: str


KnownBody = (
    Submitted
    | WorkerStarted
    | AssistantStarted
    | Item
    | Step
    | AttemptDropped
    | Requested
    | Completed
    | Interrupted
    | ThreadCreated
    | ThreadItem
    | ThreadLate
    | ThreadRenamed
    | ThreadSettings
    | ThreadTruncated
    | ThreadForked
    | ThreadCompacted
    | ThreadRepaired
    | ThreadRepairUndone
)
AnyBody = KnownBody | Unknown | Damaged

KINDS: dict[str, type[KnownBody]] = {
    body.kind: body
    for body in (
        Submitted,
        WorkerStarted,
        AssistantStarted,
        Item,
        Step,
        AttemptDropped,
        Requested,
        Completed,
        Interrupted,
        ThreadCreated,
        ThreadItem,
        ThreadLate,
        ThreadRenamed,
        ThreadSettings,
        ThreadTruncated,
        ThreadForked,
        ThreadCompacted,
        ThreadRepaired,
        ThreadRepairUndone,
    )
}
"""Every known kind by name."""

PAYLOAD_KINDS = frozenset({Item.kind, ThreadItem.kind, ThreadLate.kind})
"""Kinds whose stored body is a line of JSON followed by `raw`."""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One immutable record of a thread, decoded. `at` is wall time in µs, only shown; `data` the stored body."""

    thread: str
    seq: int
    turn: str | None
    at: int
    kind: str
    body: AnyBody
    data: bytes
    v: int = VERSION


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A committed chunk of text still being written.

    `draft` is `attempt/target/kind/part`; `offset` counts Unicode code points; (`after`, `rev`) is the draft's place:
    the head when its first chunk was committed, and that commit's revision. `chunk_rev` is the revision of this chunk.
    Apply it as `text[:offset] + chunk.text`.
    """

    turn: str
    draft: str
    after: int
    rev: int
    chunk_rev: int
    offset: int
    text: str


class DraftName(msgspec.Struct, frozen=True):
    """The parts of a draft's id. `target` is the agent's own item, call or step id, else anonymous: `~n`."""

    attempt: int
    target: str
    kind: DraftKind
    part: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}/{self.target}/{self.kind}/{self.part}"

    @classmethod
    def parse(cls, text: str) -> DraftName:
        """The parts of a draft id; the target may itself hold slashes."""
        attempt, _, rest = text.partition("/")
        target, kind, part = rest.rsplit("/", 2)
        return cls(int(attempt), target, msgspec.convert(kind, DraftKind), int(part))

    @property
    def anonymous(self) -> bool:
        """Whether the agent named no target."""
        return self.target.startswith("~")
