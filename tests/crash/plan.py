"""Where and when a child is killed, and what it plays until then."""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from tests.proof.scripts import Script, answering, halting, waiting

ROUNDS: Final = 20
"""Rounds after which a child gives up; no kill waits for that long."""

PLACES: Final = ("sync.before", "sync.after", "write.before", "write.after", "commit.before", "commit.after")
WRITES_A_SYNC: Final = 12
SYNCS_MAX: Final = 40


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A child dies when it reaches `place` for the k-th time, or by its parent when that is None.

    Counted from its start, or, `in_draft`, from the first draft it showed. `number` makes its turns its own.
    """

    number: int
    place: str | None
    k: int
    in_draft: bool


def draw(random: Random, number: int) -> Kill:
    """A kill: a third at random instants, the others at named places; every fourth counts from the child's start."""
    place = random.choice(PLACES) if random.random() < 2 / 3 else None
    k = random.randint(1, SYNCS_MAX)
    if place is not None and place.startswith("write"):
        k = random.randint(1, SYNCS_MAX * WRITES_A_SYNC)
    return Kill(number=number, place=place, k=k, in_draft=random.random() < 3 / 4)


def scripts_of(number: int) -> list[list[Script]]:
    """The rounds of the child of this number."""
    return [
        [
            answering("answered", f"a{number}.{round_}", key=f"key-a{number}.{round_}"),
            halting("halted", f"h{number}.{round_}", key=f"key-h{number}.{round_}"),
            waiting(f"waiting {number}.{round_}", f"w{number}.{round_}"),
        ]
        for round_ in range(ROUNDS)
    ]
