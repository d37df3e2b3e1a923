"""The turn fold: one turn's state, times and counts, as its row shows them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from turnlog.errors import RecordDamaged
from turnlog.events.codec import decode_json, encode_json
from turnlog.events.kinds import (
    AnyBody,
    Completed,
    Damaged,
    Event,
    Interrupted,
    Item,
    Reason,
    Requested,
    Step,
    Submitted,
    Unknown,
    WorkerStarted,
)
from turnlog.folds.states import TERMINAL, State, next_state
from turnlog.limits import EVENTS_LATE_MAX, PREVIEW_CHARS_MAX


class TurnView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One turn as lists show it. Times are wall time in µs.

    `events` counts its events; `tools`, `subagents` and `failures` count what has begun or failed so far. `answer` is
    the seq of the last assistant message. `agent` is who was asked, and from the start on who answers. `illegal` counts
    events that the table of states does not allow; it is 0 unless the store is damaged. `damaged` tells that the turn's
    row could not be read, and this was made without it.
    """

    turn: str
    state: State
    reason: Reason | None = None
    seq_first: int
    seq_last: int
    submitted_at: int
    started_at: int | None = None
    settled_at: int | None = None
    events: int = 1
    tools: int = 0
    subagents: int = 0
    failures: int = 0
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    key: str | None = None
    retry_of: str | None = None
    edit_of: str | None = None
    preview: str = ""
    usage: dict[str, Any] | None = None
    answer: int | None = None
    late: list[int] = []
    """Seqs of what its owner sent after it had settled."""
    interrupt_requested: bool = False
    illegal: int = 0
    collisions: list[int] = []
    """Seqs of further ends, after the one that stands; there are none unless the store is damaged."""
    damaged: bool = False


class TurnFold:
    """What the fold keeps to go on from: the view, and which steps and calls it has counted.

    Only the view is stored with the events: what was counted grows with the turn, and a row rewritten with each event
    must not. Whoever goes on with a turn it did not follow folds its events again.
    """

    __slots__ = ("counted", "view")

    def __init__(self, view: TurnView) -> None:
        self.view = view
        self.counted: set[str] = set()


def fold_turn(fold: TurnFold | None, event: Event) -> TurnFold | None:
    """The fold after one more event of the turn. None until its `submitted`, or a record there that cannot be read;
    the given fold must not be used again.

    A record of an unknown kind is no transition, and not illegal; nor is one of which only the place is known.
    """
    view, counted = next_view(None if fold is None else fold.view, event, () if fold is None else fold.counted)
    if view is None:
        return None
    if fold is None:
        fold = TurnFold(view)
    fold.view = view
    fold.counted.update(counted)
    return fold


def next_view(view: TurnView | None, event: Event, counted: Container[str]) -> tuple[TurnView | None, list[str]]:
    """The view after one more event, and the names it has newly counted. Nothing is changed in place."""
    body = event.body
    if view is None:
        return _first(event, body), []
    if isinstance(body, Unknown) or event.kind == Damaged.kind:
        return msgspec.structs.replace(view, seq_last=event.seq, events=view.events + 1), []
    state = next_state(view.state, event.kind)
    if state is None:
        return _illegal(view, event), []
    changes: dict[str, Any] = {"seq_last": event.seq, "state": state, "events": view.events + 1}
    names: list[str] = []
    match body:
        case WorkerStarted():
            changes |= {"started_at": event.at, "agent": body.agent or view.agent, "agent_version": body.agent_version}
        case Item() if is_assistant_message(body):
            changes["answer"] = event.seq
        case Item() if is_call(body.type):
            names = [f"tools:{body.call_id or body.id or event.seq}"]
        case Step():
            names = _step_names(body)
            if body.usage is not None:
                changes["usage"] = body.usage
        case Requested(what="interrupt"):
            changes["interrupt_requested"] = True
        case Completed():
            changes |= {"settled_at": event.at, "usage": body.usage or view.usage, "answer": body.answer}
        case Interrupted():
            changes |= {"settled_at": event.at, "reason": body.reason}
        case Damaged() if state in TERMINAL:
            changes["settled_at"] = event.at
        case _:
            pass
    names = [name for name in names if name not in counted]
    for name in names:
        what = name.partition(":")[0]
        changes[what] = getattr(view, what) + 1
    return msgspec.structs.replace(view, **changes), names


def _illegal(view: TurnView, event: Event) -> TurnView:
    """The first end stands (P5). Another one is no silent winner, and no silent loser either."""
    again = view.state in TERMINAL and event.kind in TERMINAL and len(view.collisions) < EVENTS_LATE_MAX
    collisions = [*view.collisions, event.seq] if again else view.collisions
    return msgspec.structs.replace(view, seq_last=event.seq, illegal=view.illegal + 1, collisions=collisions)


def _step_names(body: Step) -> list[str]:
    """What a step counts as, each name once a turn; a call counts once, be it an item, a step or both."""
    names = []
    if body.step == "tool":
        names.append(f"tools:{body.call_id or body.id}")
    elif body.step == "subagent":
        names.append(f"subagents:{body.id}")
    if body.status == "failed":
        names.append(f"failures:{body.id}")
    return names


def _first(event: Event, body: AnyBody) -> TurnView | None:
    """A turn begins with its submission; one whose first record cannot be read is still there. Damage is illegal."""
    if isinstance(body, Submitted):
        return _submitted(event, body)
    if not isinstance(body, Damaged | Unknown):
        return None
    return TurnView(
        turn=event.turn or "",
        state="submitted",
        seq_first=event.seq,
        seq_last=event.seq,
        submitted_at=event.at,
        illegal=int(isinstance(body, Damaged)),
    )


def _submitted(event: Event, body: Submitted) -> TurnView:
    return TurnView(
        turn=event.turn or "",
        state="submitted",
        seq_first=event.seq,
        seq_last=event.seq,
        submitted_at=event.at,
        agent=body.agent,
        model=body.model,
        key=body.key,
        retry_of=body.retry_of,
        edit_of=body.edit_of,
        preview=content_text(body.content)[:PREVIEW_CHARS_MAX],
    )


def is_assistant_message(body: Item) -> bool:
    """Whether an item is a message of the assistant: what counts as an answer."""
    if body.type not in ("message", "") or body.purpose is not None:
        return False
    try:
        return bool(decode_json(body.raw, _Role).role == "assistant")
    except RecordDamaged:
        return False


class _Role(msgspec.Struct, frozen=True):
    role: Any = None


def is_call(item_type: str) -> bool:
    """Whether an item of this type asks for something to be done, and so awaits an output of the same call id."""
    return item_type.endswith("_call")


def is_call_output(item_type: str) -> bool:
    """Whether an item of this type is the output of a call."""
    return item_type.endswith("_call_output") or item_type.endswith("_output")


def content_text(content: str | list[Any]) -> str:
    """The text of a submission: itself, or its text parts joined; other parts are named in brackets."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            texts.append(text if isinstance(text, str) else f"[{part.get('type', 'part')}]")
    return "\n".join(texts)


def encode_view(view: TurnView) -> bytes:
    """The bytes kept in the turn's row."""
    return encode_json(view)


def decode_view(data: bytes) -> TurnView:
    """The inverse of `encode_view`; raises `RecordDamaged`."""
    return decode_json(data, TurnView)
