"""Findings: what the audit tells of a store that is not as the journal would have left it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Severity: TypeAlias = Literal["info", "warning", "error"]

FindingKind: TypeAlias = Literal[
    "pending",
    "unnoticed_end",
    "illegal_transition",
    "terminal_collision",
    "seq_gap",
    "seq_duplicate",
    "malformed",
    "unknown_kind",
    "digest_differs",
    "dangling",
    "orphan_call",
    "orphan_output",
    "draft_left_behind",
    "snapshot_differs",
    "turn_row_differs",
    "thread_row_differs",
    "head",
    "dead_lease",
    "late_event",
    "unfinished_fork",
    "unreadable",
    "index_differs",
    "orphan",
    "duplicate",
]

SEVERITIES: Final[dict[FindingKind, Severity]] = {
    "pending": "warning",
    "unnoticed_end": "warning",
    "illegal_transition": "error",
    "terminal_collision": "error",
    "seq_gap": "error",
    "seq_duplicate": "error",
    "malformed": "error",
    "unknown_kind": "info",
    "digest_differs": "error",
    "dangling": "warning",
    "orphan_call": "warning",
    "orphan_output": "warning",
    "draft_left_behind": "warning",
    "snapshot_differs": "warning",
    "turn_row_differs": "warning",
    "thread_row_differs": "warning",
    "head": "error",
    "dead_lease": "info",
    "late_event": "info",
    "unfinished_fork": "info",
    "unreadable": "error",
    "index_differs": "error",
    "orphan": "error",
    "duplicate": "error",
}
"""How bad each kind is: an *error* is something lost or contradictory, a *warning* can be put right or does no harm to
what was said, an *info* happens in a sound store too."""

SET_ASIDE: Final[frozenset[FindingKind]] = frozenset(
    {
        "illegal_transition",
        "terminal_collision",
        "seq_gap",
        "malformed",
        "digest_differs",
        "dangling",
        "orphan_call",
        "orphan_output",
    }
)
"""Kinds of what is wrong in the log itself: a person acknowledges them, and the log says so from then on."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be.

    `place` names it within its thread (or, without a thread, within the store): the same thing has the same place in
    every audit. `seq` is the event it is about, of a gap the first one missing; `until` the last one. `repairable`
    tells whether a plan can do something about it; where it cannot, `detail` says why.
    """

    kind: FindingKind
    severity: Severity
    thread: str | None = None
    turn: str | None = None
    seq: int | None = None
    until: int | None = None
    place: str
    repairable: bool = False
    detail: str


def finding(
    kind: FindingKind,
    place: str,
    detail: str,
    *,
    thread: str | None = None,
    turn: str | None = None,
    seq: int | None = None,
    until: int | None = None,
    repairable: bool | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding of a kind, with the severity that its kind has unless another one is given."""
    return Finding(
        kind=kind,
        severity=severity or SEVERITIES[kind],
        thread=thread,
        turn=turn,
        seq=seq,
        until=until,
        place=place,
        repairable=kind in SET_ASIDE if repairable is None else repairable,
        detail=detail,
    )
