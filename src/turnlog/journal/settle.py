"""How a turn ends: its open drafts are closed and the terminal event is appended, in one write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from turnlog.events.body import DroppedText
from turnlog.events.codec import encode_json
from turnlog.events.kinds import (
    AttemptDropped,
    Completed,
    Interrupted,
    Item,
    KnownBody,
    Reason,
    Step,
    StepStatus,
    Synthesized,
)
from turnlog.folds.states import STARTED
from turnlog.journal.drafts import OpenDraft
from turnlog.journal.plan import Plan
from turnlog.journal.state import OpenTurn
from turnlog.limits import BODY_BYTES_MAX, CALLS_NAMED_MAX, NAME_BYTES_MAX

_DROPPED_BYTES_MAX = BODY_BYTES_MAX - 2_048
"""Bytes of texts in one `attempt_dropped`, with room for its other fields."""


def plan_completed(plan: Plan, turn: OpenTurn, *, usage: dict[str, Any] | None, finish_reason: str | None) -> None:
    """Close what is open and complete the turn. Text that no item closed becomes the agent's last word."""
    _close_drafts(plan, turn, synthesized="no_final_item", text="succeeded", call="unknown")
    answer = next((event.seq for event in reversed(plan.events) if event.kind == Item.kind), turn.view.answer)
    plan.event(Completed(usage=usage, finish_reason=finish_reason, answer=answer), turn.row.turn)
    plan.write_events(turn, closing=list(turn.book.drafts.values()))


def plan_interrupted(plan: Plan, turn: OpenTurn, *, reason: Reason, detail: str | None) -> None:
    """Close what is open as interrupted, and end the turn."""
    if turn.view.state in STARTED:
        _close_drafts(plan, turn, synthesized="interrupted", text="interrupted", call="interrupted")
    named = list(_fitting(list(turn.calls)[:CALLS_NAMED_MAX], BODY_BYTES_MAX // 2))
    if unnamed := len(turn.calls) - len(named):
        more = f"{unnamed} more calls have an unknown outcome"
        detail = f"{detail}; {more}" if detail else more
    plan.event(Interrupted(reason=reason, detail=detail, unknown_calls=named), turn.row.turn)
    plan.write_events(turn, closing=list(turn.book.drafts.values()))


def _fitting(names: Sequence[str], bytes_max: int) -> Iterator[str]:
    for name in names:
        bytes_max -= len(encode_json(name)) + 1
        if bytes_max < 0:
            return
        yield name


def _close_drafts(plan: Plan, turn: OpenTurn, *, synthesized: Synthesized, text: StepStatus, call: StepStatus) -> None:
    """An event for each open draft, in the order of their places."""
    drafts = [draft for draft in turn.book.drafts.values() if draft.whole]
    told: set[tuple[str, str]] = set()
    for draft in sorted(drafts, key=_place):
        body: KnownBody
        if draft.name.kind == "text" and draft.name.target not in turn.steps:
            plan.begin_answer(turn)
            body = _item(draft, synthesized)
        elif draft.name.kind in ("text", "reasoning"):
            body = _text_step(draft, turn, text)
        else:
            body = _call_step(draft, turn, call, again=_field(draft) in told)
            told.add(_field(draft))
        plan.event(body, turn.row.turn)


def _place(draft: OpenDraft) -> tuple[int, int]:
    """Committed drafts by their place; what was never committed came last, in the order it was opened."""
    return draft.place or (2**62, 0)


def message_bytes(text: str) -> bytes:
    """An assistant message of `text` alone, in the form the third ancestor gives an answer that was cut short."""
    content = [{"type": "output_text", "text": text}]
    return encode_json({"type": "message", "role": "assistant", "content": content})


def _item(draft: OpenDraft, synthesized: Synthesized) -> Item:
    return Item(type="message", closes=draft.closed, synthesized=synthesized, raw=message_bytes(draft.whole))


def _text_step(draft: OpenDraft, turn: OpenTurn, status: StepStatus) -> Step:
    return Step(
        id=f"~{draft.id}",
        parent=draft.name.target if draft.name.target in turn.steps else None,
        step="reasoning" if draft.name.kind == "reasoning" else "note",
        status=status,
        text=draft.whole,
        closes=draft.closed,
    )


def _field(draft: OpenDraft) -> tuple[str, str]:
    return draft.name.target, draft.name.kind


def _call_step(draft: OpenDraft, turn: OpenTurn, status: StepStatus, *, again: bool) -> Step:
    """Half arguments or output are no item: they stay in the trace, with the call or step they belong to.

    What is drafted `again` for the same of the two is an entry of its own inside it: an upsert of the field would take
    the place of the first part.
    """
    if again:
        return Step(
            id=f"~{draft.id}",
            parent=draft.name.target,
            step="note",
            status=status,
            text=draft.whole,
            closes=draft.closed,
        )
    target = None if draft.name.anonymous else draft.name.target
    return Step(
        id=target or f"~{draft.id}",
        step="tool",
        call_id=None if target in turn.steps else target,
        status=status,
        args=draft.whole if draft.name.kind == "args" else None,
        output=draft.whole if draft.name.kind == "output" else None,
        closes=draft.closed,
    )


def dropped_events(attempt: int, reason: str | None, drafts: Sequence[OpenDraft]) -> Iterator[AttemptDropped]:
    """The given-up attempt, in as many events as its text needs."""
    group: list[OpenDraft] = []
    size = 0 if reason is None else len(encode_json(reason))
    for draft in drafts:
        more = draft.encoded_bytes + 2 * NAME_BYTES_MAX
        if size and size + more > _DROPPED_BYTES_MAX:
            yield _dropped(attempt, reason, group)
            group, size, reason = [], 0, None
        group.append(draft)
        size += more
    yield _dropped(attempt, reason, group)


def _dropped(attempt: int, reason: str | None, drafts: Sequence[OpenDraft]) -> AttemptDropped:
    return AttemptDropped(
        attempt=attempt,
        reason=reason,
        dropped=[DroppedText(draft=draft.id, text=draft.whole) for draft in drafts if draft.whole],
        closes=[closed for draft in drafts for closed in draft.closed],
    )
