"""What the processes of a random mix do, how often, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from turnlog.events.clock import SystemClock
from turnlog.limits import LEASE_S

HURRY: Final = 10
"""How much quicker the processes' clock since boot runs: a lease of 30 seconds is over after three."""

LEASE_WAIT_S: Final = LEASE_S / HURRY

ROLES: Final = ("library", "server", "command")


class HurriedClock(SystemClock):
    """Time since boot passes quicker, so that a lease ends soon."""

    def boot_s(self) -> float:
        """See `Clock`."""
        return super().boot_s() * HURRY


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that one process is asked to do. What an action has no use for is empty."""

    what: str
    thread: str
    turn: str = ""
    content: str = ""
    key: str | None = None
    when_busy: str = "refuse"
    value: Any = None
    text: str = ""
    """An approval, a title, a summary, or the name of a fork."""


@dataclass(frozen=True)
class Scale:
    """Numbers of one run."""

    seconds: float
    least: int
    """Each kind of thing must have happened so often, else the run tells nothing."""


SHORT: Final = Scale(seconds=30, least=1)
LONG: Final = Scale(seconds=600, least=10)

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "submit": frozenset({"busy", "overloaded"}),
    "again": frozenset({"busy", "overloaded"}),
    "conflict": frozenset({"key-conflict"}),
    "interrupt": frozenset({"already-settled"}),
    "decide": frozenset({"already-settled", "already-decided"}),
    "retry": frozenset({"busy", "overloaded", "not-retryable"}),
    "read": frozenset(),
    "append": frozenset(),
    "recover": frozenset(),
    "truncate": frozenset({"busy", "turn-hidden"}),
    "edit": frozenset({"busy", "turn-hidden", "overloaded"}),
    "fork": frozenset({"busy", "turn-hidden"}),
    "rename": frozenset(),
    "pin": frozenset(),
    "compact": frozenset({"busy", "turn-hidden", "invalid-input"}),
    "repair": frozenset({"plan-changed"}),
}
"""The refusals that an action may meet; anything else is wrong."""

CAN: Final[Mapping[str, frozenset[str]]] = {
    "library": frozenset(ALLOWED),
    "server": frozenset(ALLOWED) - {"append", "recover"},
    "command": frozenset(ALLOWED) - {"append"},
}
"""What each kind of process is able to do."""

ASKING: Final = frozenset({"submit", "again", "conflict", "retry", "edit"})
"""What asks for an answer."""

CALM: Final = frozenset({"truncate", "edit", "fork", "compact"})
"""What is refused while a turn is open is done where none is; in the first thread people talk less than elsewhere."""

WEIGHTS: Final[Mapping[str, int]] = {
    "submit": 30,
    "again": 10,
    "conflict": 2,
    "interrupt": 6,
    "decide": 12,
    "retry": 8,
    "read": 6,
    "append": 2,
    "recover": 1,
    "truncate": 4,
    "edit": 5,
    "fork": 4,
    "rename": 1,
    "pin": 1,
    "compact": 1,
    "repair": 3,
}

KINDS: Final[Mapping[str, int]] = {"answer": 4, "brief": 6, "halt": 3, "words": 1, "ask": 5, "call": 1, "talk": 1}
"""How often each script is asked for. What talks, halts or asks does not end by itself."""

BUSY: Final[Mapping[str, int]] = {"refuse": 3, "queue": 6, "replace": 1}

MUST: Final = (
    *(f"{role}: {what} done" for role in ROLES for what in sorted(CAN[role] - {"conflict"})),
    *(f"{role}: {what}" for role in ROLES for what in ("conflict key-conflict", "killed", "paused")),
    "decide already-decided",
    "repaired",
    "taken over",
    "completed",
    "interrupted process_died",
    "interrupted cancelled",
    "interrupted not_started",
    "drafts shown",
)
"""What must have happened."""

MEANS: Final[Mapping[str, tuple[str, ...]]] = {
    "decide already-decided": ("decide",),
    "repaired": ("repair",),
    "completed": ("submit",),
    "interrupted cancelled": ("interrupt",),
    "interrupted not_started": ("submit", "interrupt"),
    "drafts shown": ("submit",),
}
"""What is done by whomever for what must have happened."""

BEYOND: Final = 0.35
"""Part of its time that a run goes on beyond it while something is lacking."""

TURNS_A_THREAD: Final = 24
"""Turns after which a thread is left in peace, and another one begins."""

THREADS: Final = 4
"""Threads in which people talk at the same time."""


def means(lack: str, role: str) -> tuple[str, ...]:
    """What a role does for something that must have happened."""
    of, colon, what = lack.partition(": ")
    if not colon:
        return MEANS.get(lack, ())
    kind = what.partition(" ")[0]
    return (kind,) if of == role and kind in CAN[role] else ()


def chosen(random: Random, weights: Mapping[str, int]) -> str:
    """One of them, by weight."""
    return random.choices(list(weights), list(weights.values()))[0]
