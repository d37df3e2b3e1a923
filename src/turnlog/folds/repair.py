"""The repair fold: findings to a plan, in words and as data. It reads and writes nothing.

What is wrong in the log is set aside by an event that says so; what is derived of the log is made again; what was left
open is settled by recovery. Nothing is taken away, and nothing that an agent did not say comes into being.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from turnlog.events.codec import encode_json
from turnlog.folds.findings import SET_ASIDE, Finding, FindingKind
from turnlog.limits import REPAIR_SEQS_MAX, REPAIR_STEPS_MAX

Action: TypeAlias = Literal[
    "reindex",
    "rebuild_thread",
    "set_aside",
    "move_draft",
    "rebuild_turn",
    "reopen",
    "finish_fork",
    "snapshot",
    "recover",
]

_ORDER: Final[tuple[Action, ...]] = (
    "reindex",
    "finish_fork",
    "rebuild_thread",
    "set_aside",
    "move_draft",
    "rebuild_turn",
    "reopen",
    "snapshot",
    "recover",
)
"""Each builds on those before it: an event can only be appended behind the right head, and recovery settles what was
opened again."""

_ACTIONS: Final[dict[FindingKind, Action]] = {
    **dict.fromkeys(SET_ASIDE, "set_aside"),
    "index_differs": "reindex",
    "head": "rebuild_thread",
    "thread_row_differs": "rebuild_thread",
    "draft_left_behind": "move_draft",
    "turn_row_differs": "rebuild_turn",
    "unnoticed_end": "reopen",
    "unfinished_fork": "finish_fork",
    "snapshot_differs": "snapshot",
    "pending": "recover",
    "dead_lease": "recover",
}

_BY_ABSENCE: Final[frozenset[FindingKind]] = frozenset(
    {
        "seq_gap",
        "dangling",
        "orphan_call",
        "orphan_output",
        "illegal_transition",
        "unnoticed_end",
        "turn_row_differs",
        "thread_row_differs",
        "head",
        "snapshot_differs",
    }
)
"""Kinds of what is found because something else is not, or of what would be made again without it."""

_SAYS: Final[dict[Action, str]] = {
    "reindex": "make the store's indexes again from its rows",
    "rebuild_thread": "make the thread's row again from its events",
    "set_aside": "append an event that sets aside",
    "move_draft": "move the text of the draft into an event",
    "rebuild_turn": "make the turn's row again from its events",
    "reopen": "open the turn again in its row, so that recovery settles it as interrupted",
    "finish_fork": "go on with the copy of the thread",
    "snapshot": "make the snapshot again from the turn's events",
    "recover": "settle the turns of dead owners, and forget dead owners that have none",
}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do, about `findings` of one thread (None: of any). Each is whole or not at all."""

    action: Action
    thread: str | None
    turn: str | None
    says: str
    findings: tuple[Finding, ...]


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair would do, in order, and what it leaves. `id` is equal for equal steps.

    `more` tells that there were more findings than one plan takes: repair, audit again, and plan again.
    """

    id: str
    steps: tuple[Step, ...]
    left: tuple[Finding, ...]
    more: bool = False


class StepDone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a step: `done`, `stale` (what it was about is not there any more) or `failed`; `seq` is the event
    that it appended."""

    action: Action
    thread: str | None
    turn: str | None
    outcome: Literal["done", "stale", "failed"]
    detail: str | None = None
    seq: int | None = None


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did: one entry for each step of its plan, in order."""

    plan: str
    steps: tuple[StepDone, ...]


def plan_repair(findings: Iterable[Finding]) -> RepairPlan:
    """The plan for these findings, of one audit or of several.

    Indexes are made again before anything else is looked at. Where something of a thread, or of the store, cannot be
    read, what seems to be missing may be there: nothing is concluded from that.
    """
    groups: dict[tuple[int, str, str, FindingKind | Literal[""]], list[Finding]] = {}
    left: list[Finding] = []
    unread: set[str | None] = set()
    more = False
    for found in dict.fromkeys(findings):
        if found.kind == "unreadable":
            unread.add(found.thread)
        if not found.repairable or found.kind not in _ACTIONS:
            if len(left) < REPAIR_STEPS_MAX:
                left.append(found)
            continue
        key = _group(found)
        if key not in groups and len(groups) >= REPAIR_STEPS_MAX:
            more = True
            continue
        groups.setdefault(key, []).append(found)
    for key in [key for key, found in groups.items() if _is_doubtful(found[0], unread)]:
        left += groups.pop(key)[: REPAIR_STEPS_MAX - len(left)]
    if any(key[0] == _ORDER.index("reindex") for key in groups) and len(groups) > 1:
        groups, more = {min(groups): groups[min(groups)]}, True
    steps = tuple(step for key in sorted(groups) for step in _steps(groups[key]))
    told = [(step.action, step.thread, step.turn, [_mark(found) for found in step.findings]) for step in steps]
    digest = hashlib.sha256(encode_json(told)).hexdigest()
    return RepairPlan(id=digest, steps=steps, left=tuple(left), more=more)


def _is_doubtful(found: Finding, unread: Collection[str | None]) -> bool:
    """Whether what cannot be read, of the thread or (None) of the store, may say otherwise."""
    return found.kind in _BY_ABSENCE and (found.thread in unread or None in unread)


def _group(found: Finding) -> tuple[int, str, str, FindingKind | Literal[""]]:
    """What is repaired together; it sorts in the order of the steps, and within one by thread and turn."""
    action = _ACTIONS[found.kind]
    order = _ORDER.index(action)
    match action:
        case "recover" | "reindex":
            return (order, "", "", "")
        case "rebuild_thread" | "finish_fork":
            return (order, found.thread or "", "", "")
        case "set_aside":
            return (order, found.thread or "", found.turn or "", found.kind)
        case _:
            return (order, found.thread or "", found.turn or "", "")


def _steps(findings: Sequence[Finding]) -> list[Step]:
    action = _ACTIONS[findings[0].kind]
    alone = action == "move_draft" or findings[0].kind == "seq_gap"
    size = 1 if alone else REPAIR_SEQS_MAX if action == "set_aside" else len(findings)
    parts = [tuple(findings[at : at + size]) for at in range(0, len(findings), size)]
    return [_step(action, part) for part in parts]


def _step(action: Action, findings: tuple[Finding, ...]) -> Step:
    one = findings[0]
    says = _SAYS[action]
    if action == "set_aside":
        places = ", ".join(found.place for found in findings[:3]) + (", ..." if len(findings) > 3 else "")
        says = f"{says} {one.kind} at {places}"
    elif action == "move_draft":
        says = f"{says}: {one.place}"
    of_all = action in ("recover", "reindex")
    return Step(
        action=action,
        thread=None if of_all else one.thread,
        turn=None if of_all or action in ("rebuild_thread", "finish_fork") else one.turn,
        says=says,
        findings=findings,
    )


def _mark(found: Finding) -> list[object]:
    return [found.kind, found.thread, found.turn, found.seq, found.until, found.place]


def identity(found: Finding) -> tuple[object, ...]:
    """What is equal of the same finding in two audits."""
    return tuple(_mark(found))
