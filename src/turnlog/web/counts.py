"""What one server counts of itself, for `/metrics`. Everything here runs in the server's event loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Counts:
    """Counts since the server began, but for `running` and `waiting`, which are those of this moment.

    The keys are names from our own tables, never a client's words: so their number is bounded.
    """

    running: int = 0
    waiting: int = 0
    turns: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Turns that this server ran, by how they ended: state and reason."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Answers by method and status."""

    store_errors: Counter[str] = field(default_factory=Counter)
    """Errors of the store that a client was told or a turn met, by class."""
