"""The shapes of JSON documents that clients may rely on: every field is there, null where there is no value.

Times are RFC 3339 in UTC with microseconds. `Json` and `RawItem` are values of other people, passed on as they are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from turnlog.events.kinds import DraftKind, Reason, StepStatus, Synthesized
from turnlog.folds.findings import FindingKind, Severity
from turnlog.folds.nodes import EntryKind, Mark
from turnlog.folds.notices import NoticeKind
from turnlog.folds.repair import Action
from turnlog.folds.states import State

Time: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Json: TypeAlias = Annotated[Any, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/Json"})]
JsonObject: TypeAlias = dict[str, Json]
RawItem: TypeAlias = Annotated[Any, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/RawItem"})]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What all shapes are."""


class ThreadRow(Shape, frozen=True, kw_only=True):
    """A thread in a list. `head` is its last seq, `latest` its newest turn that no truncation hides.

    `pinned` ones come first. `damaged` tells that the row could not be read and was made anew.
    """

    thread: str
    title: str
    epoch: str
    head: int
    created_at: Time
    updated_at: Time
    latest: str | None
    pinned: bool
    damaged: bool


class TurnRow(Shape, frozen=True, kw_only=True):
    """A turn in a list.

    `queue_place` is how many open turns of its thread come before a submitted one. `retried_by` is the later
    turn that asked the same again, `hidden_by` the seq of the truncation that took the turn out of the conversation,
    `hidden` tells that there is one of them. `answer` is the seq of the last assistant message;
    `late` are seqs of what came after the end. `illegal` counts events that the table of states does not allow,
    `collisions` are seqs of further ends of the turn, of which the first stands, `damaged` tells that the stored row
    could not be read: all three only where the store is damaged. `usage` is as the agent reported it.
    """

    thread: str
    turn: str
    state: State
    reason: Reason | None
    seq_first: int
    seq_last: int
    submitted_at: Time
    started_at: Time | None
    settled_at: Time | None
    events: int
    tools: int
    subagents: int
    failures: int
    agent: str | None
    agent_version: str | None
    model: str | None
    key: str | None
    retry_of: str | None
    edit_of: str | None
    owner: str | None
    queue_place: int | None
    retried_by: str | None
    hidden_by: int | None
    hidden: bool
    pruned: bool
    preview: str
    usage: JsonObject | None
    answer: int | None
    late: list[int]
    interrupt_requested: bool
    illegal: int
    collisions: list[int]
    damaged: bool


class Threads(Shape, frozen=True, kw_only=True):
    """Threads: pinned ones, then the last changed first. `next` is the `before` of the next page, null at the end."""

    threads: list[ThreadRow]
    next: str | None


class Turns(Shape, frozen=True, kw_only=True):
    """A thread's turns, the newest first. `at` is the cursor to follow the thread from."""

    turns: list[TurnRow]
    next: str | None
    at: str


class NewestTurns(Shape, frozen=True, kw_only=True):
    """The newest turn of each thread, the last changed thread first."""

    turns: list[TurnRow]
    next: str | None


class FailureFacts(Shape, frozen=True, kw_only=True):
    """Why something failed, and what a person can do about it."""

    reason: str
    next_step: str | None


class Entry(Shape, frozen=True, kw_only=True):
    """One thing that happened in a turn.

    `id` stays the same from the first draft on. `parent` is the id of an entry of the same turn, which a page before
    may hold. (`seq`, `rev`) is its place. `item` is the seq of the raw item that gave its text or call. `text`, `args`
    and `output` are each cut at 64 KiB: `truncated` tells so, `output_bytes` is the size of the whole output in UTF-8.
    `mark` sets apart what came `late` and what a `dropped` attempt had shown; `draft` is text still being written;
    `synthesized` tells that no item of the agent ended the text.
    """

    id: str
    parent: str | None
    seq: int
    rev: int
    kind: EntryKind
    name: str | None
    title: str | None
    text: str | None
    status: StepStatus
    started_at: Time | None
    ended_at: Time | None
    args: str | None
    output: str | None
    output_bytes: int
    truncated: bool
    failure: FailureFacts | None
    detail: str | None
    agent: str | None
    worker_thread: str | None
    round: int | None
    usage: JsonObject | None
    call_id: str | None
    item: int | None
    draft: bool
    synthesized: Synthesized | None
    mark: Mark | None


class Timeline(Shape, frozen=True, kw_only=True):
    """A turn's trace: its row, and its entries flat and in order. `next` is the `after` of the page after this one.

    `at` is the cursor from which the thread can be followed without missing anything of this turn.
    """

    turn: TurnRow
    entries: list[Entry]
    next: str | None
    at: str


class AttachmentFacts(Shape, frozen=True, kw_only=True):
    """A file that came with a submission: described, not stored."""

    name: str
    path: str | None
    type: str | None
    bytes: int | None
    sha256: str | None


class Message(Shape, frozen=True, kw_only=True):
    """One message. `turn` is null for what belongs to no turn; `seq` its event, or the head when its draft began.

    `item` is the model's own item id, `draft` the id of a draft still being written. `hidden` messages are of an
    attempt that was asked again.
    """

    role: str
    turn: str | None
    seq: int
    text: str
    item: str | None
    synthesized: Synthesized | None
    draft: str | None
    hidden: bool
    attachments: list[AttachmentFacts]
    at: Time | None


class NoticeFacts(Shape, frozen=True, kw_only=True):
    """Something to know about a turn or a record: `kind` and `reason` for programs, `text` for people."""

    turn: str | None
    seq: int
    kind: NoticeKind
    text: str
    reason: Reason | None
    unknown_calls: list[str]
    can_retry: bool
    retried_by: str | None
    hidden: bool


class TranscriptPage(Shape, frozen=True, kw_only=True):
    """What a person reads: messages in reading order, notices in order of seq, the rows of their turns newest first.

    `next` is the `before` of the older turns; `at` is the cursor to follow the thread from.
    """

    messages: list[Message]
    notices: list[NoticeFacts]
    turns: list[TurnRow]
    next: str | None
    at: str


class AddedItem(Shape, frozen=True, kw_only=True):
    """An item that nobody wrote: its index in `items`, and why it is there."""

    at: int
    why: str


class OmittedEvent(Shape, frozen=True, kw_only=True):
    """An event that gave no item, or not all of it: its seq, and why.

    Where `until` is not null it is a range: all that was begun at the seqs from `seq` to `until`, each turn whole.
    """

    seq: int
    until: int | None
    why: str


class HistoryItems(Shape, frozen=True, kw_only=True):
    """Raw items as an agent is given them. An item that is no JSON any more stands as text.

    `changed` are indexes of items that differ from what is stored: a lone surrogate became U+FFFD, or `portable` took
    something out. `at` is the cursor behind the last event.
    """

    items: list[RawItem]
    added: list[AddedItem]
    omitted: list[OmittedEvent]
    changed: list[int]
    at: str


class DraftChunk(Shape, frozen=True, kw_only=True):
    """A piece of text still being written: the text is now `text[:offset] + ` this. Offsets count code points.

    `item` is what the agent says the text belongs to, null when it names nothing. `after` is the seq behind which the
    draft began. An event whose body's `closes` names the draft takes its place.
    """

    turn: str
    draft: str
    item: str | None
    kind: DraftKind
    after: int
    offset: int
    text: str


class Submission(Shape, frozen=True, kw_only=True):
    """An accepted submission: durable, whatever happens now. `duplicate` tells that it was in the log before."""

    thread: str
    turn: str
    seq: int
    duplicate: bool
    state: State
    queue_place: int | None


class Request(Shape, frozen=True, kw_only=True):
    """A request that its turn's owner will find. `seq` is its place: of an interrupt, that of the first one."""

    thread: str
    turn: str
    seq: int


class Health(Shape, frozen=True, kw_only=True):
    """The store takes writes. `reason` is null: why it does not is told by a problem document."""

    status: Literal["ok"]
    reason: str | None


class FindingFacts(Shape, frozen=True, kw_only=True):
    """One thing of the store that is not as it should be.

    `place` names it within its thread, or, without a thread, within the store. `seq` is the event it is about, of a gap
    the first one missing and `until` the last one. `detail` is for people; where nothing can be done it says why.
    """

    kind: FindingKind
    severity: Severity
    thread: str | None
    turn: str | None
    seq: int | None
    until: int | None
    place: str
    repairable: bool
    detail: str


class Findings(Shape, frozen=True, kw_only=True):
    """Findings of an audit, thread by thread. `next` is the `after` of those behind them, null at the end.

    Each page is an audit of its own, so that what changes in between may be missed or told twice.
    """

    findings: list[FindingFacts]
    next: str | None


class RepairStep(Shape, frozen=True, kw_only=True):
    """One thing that a repair does, in words and as data; without a thread it is about all of them."""

    action: Action
    thread: str | None
    turn: str | None
    says: str
    findings: list[FindingFacts]


class RepairDone(Shape, frozen=True, kw_only=True):
    """What became of a step: `stale` when there was nothing to do any more. `seq` is the event that it appended."""

    action: Action
    thread: str | None
    turn: str | None
    outcome: Literal["done", "stale", "failed"]
    detail: str | None
    seq: int | None


class Repair(Shape, frozen=True, kw_only=True):
    """A plan of repair: `plan` is its id, `left` what it can do nothing about. `more` tells that one plan does not take
    all that was found. `done` is what became of its steps, null when it was only planned."""

    plan: str
    steps: list[RepairStep]
    left: list[FindingFacts]
    more: bool
    done: list[RepairDone] | None


class ThreadEvent(Shape, frozen=True, kw_only=True):
    """What was asked of a thread is durable, as the event `seq`."""

    thread: str
    seq: int


class Truncation(ThreadEvent, frozen=True, kw_only=True):
    """A truncation, and the turns it has hidden, in order; `more` tells that older ones are not named."""

    hidden: list[str]
    more: bool


class Undone(Shape, frozen=True, kw_only=True):
    """The repair at `repair` holds no longer; `seq` is the event that says so, or the head when it was said before."""

    thread: str
    repair: int
    seq: int
