"""The states of a turn, as one table.

The journal refuses with it, the audit finds with it, and docs/states.md is generated from it.
"""

from __future__ import annotations

from typing import Final, Literal

State = Literal["submitted", "worker_started", "assistant_started", "completed", "interrupted"]

TRANSITIONS: Final[dict[tuple[State | None, str], State]] = {
    (None, "submitted"): "submitted",
    ("submitted", "worker_started"): "worker_started",
    ("worker_started", "assistant_started"): "assistant_started",
    ("worker_started", "completed"): "completed",
    ("assistant_started", "completed"): "completed",
    ("submitted", "interrupted"): "interrupted",
    ("worker_started", "interrupted"): "interrupted",
    ("assistant_started", "interrupted"): "interrupted",
    ("worker_started", "item"): "worker_started",
    ("worker_started", "step"): "worker_started",
    ("worker_started", "attempt_dropped"): "worker_started",
    ("assistant_started", "item"): "assistant_started",
    ("assistant_started", "step"): "assistant_started",
    ("assistant_started", "attempt_dropped"): "assistant_started",
    ("submitted", "requested"): "submitted",
    ("worker_started", "requested"): "worker_started",
    ("assistant_started", "requested"): "assistant_started",
}
"""(state, event kind) -> the state after it. What is not here is illegal."""

TERMINAL: Final[frozenset[State]] = frozenset({"completed", "interrupted"})
"""States that nothing follows."""

STARTED: Final[frozenset[State]] = frozenset({"worker_started", "assistant_started"})
"""States in which the turn's agent may write."""


def next_state(state: State | None, kind: str) -> State | None:
    """The state after an event of `kind` in `state`, or None when that is illegal."""
    return TRANSITIONS.get((state, kind))
