"""Where and when a server is killed."""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

BEGINNINGS: Final = ("commit.submitted", "commit.worker_started", "commit.assistant_started")
COMMITS: Final = ("draft", "item", "step", "attempt_dropped", "requested", "completed", "interrupted")
"""Commits are named after what is in each of their writes (`places.name_of`)."""

SENDS: Final = ("frame", "answer")
"""What leaves the server: a piece of a stream, or of the answer to anything else."""

DISK: Final = ("sync", "write")
WRITES_A_SYNC: Final = 12
RECOVERING: Final = ("commit.claim", "commit.interrupted", "sync")
"""What a server does before it listens when the one before it was killed."""

PLACES: Final = tuple(f"commit.{name}" for name in COMMITS) + tuple(f"send.{name}" for name in SENDS) + DISK
"""Where a server may be killed in a draft; before it has one, also where turns begin."""
OFTEN: Final = {"draft": 12, "step": 6, "item": 5, "frame": 25, "answer": 12, "sync": 30, "write": 360}
"""How often the frequent places are reached in a round; the others a few times."""


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A server dies when it reaches `place` for the k-th time, or by its parent when that is None.

    Counted from its start, or, `in_draft`, from the first draft of a turn that stays open until a client stops it.
    `number` makes its turns its own.
    """

    number: int
    place: str | None
    k: int
    in_draft: bool

    @property
    def mark(self) -> str:
        """How the drafts of those turns begin."""
        return f"h{self.number}."


def draw(random: Random, number: int, *, recovers: bool) -> Kill:
    """A kill: a third at random instants, the others at named places, most of them in a draft.

    A server that `recovers` what one before it left is killed while it does, every fourth time.
    """
    in_draft, place, k = random.random() < 0.8, None, 1
    if recovers and random.random() < 1 / 4:
        in_draft, place = False, random.choice(RECOVERING)
    elif random.random() < 2 / 3:
        place = random.choice(PLACES if in_draft else BEGINNINGS + PLACES)
        k = random.randint(1, OFTEN.get(place.rpartition(".")[2], 2))
    if place is not None:
        place = f"{place}.{random.choice(('before', 'after'))}"
    return Kill(number=number, place=place, k=k, in_draft=in_draft)
