"""What the outside knows of a log: what was acknowledged to it, and what it was shown, each with the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`at` is the position of the disk when the fact was known; 0 where no disk is recorded.

    `to` tells those apart who were shown something: each has a text of its own that grows.
    """

    at: int = 0
    to: str = ""
    thread: str
    turn: str


class Accepted(Fact, frozen=True, kw_only=True, tag=True):
    """The submission's receipt was durable."""

    content: str
    key: str | None


class Began(Fact, frozen=True, kw_only=True, tag=True):
    """The agent was started."""


class Wrote(Fact, frozen=True, kw_only=True, tag=True):
    """An item's receipt was durable; `late`: after its turn had ended."""

    raw: bytes
    late: bool = False


class Decided(Fact, frozen=True, kw_only=True, tag=True):
    """A decision was acknowledged to who made it, or given to the agent that asked."""

    approval: str
    value: Any


class Happened(Fact, frozen=True, kw_only=True, tag=True):
    """Something that was asked for was acknowledged with its seq; of a whole thread, `turn` is empty."""

    seq: int
    kind: str
    fields: dict[str, Any]


class Stepped(Fact, frozen=True, kw_only=True, tag=True):
    """A step's receipt was durable."""

    step: str
    status: str | None


class Ended(Fact, frozen=True, kw_only=True, tag=True):
    """The turn's end was acknowledged: `completed` or `interrupted`."""

    state: str


class ShownEvent(Fact, frozen=True, kw_only=True, tag=True):
    """A follower got an event; of one without a turn, `turn` is empty."""

    seq: int
    kind: str
    data: bytes


class ShownJson(Fact, frozen=True, kw_only=True, tag=True):
    """A client got an event as a JSON value: `body` with the raw item in it. Without a turn, `turn` is empty."""

    seq: int
    kind: str
    body: Any


class ShownMessage(Fact, frozen=True, kw_only=True, tag=True):
    """A client got a message that an event carries."""

    seq: int
    text: str


class ShownWords(Fact, frozen=True, kw_only=True, tag=True):
    """A person read a text; if it was a draft, it was this one."""

    draft: str
    text: str


class ShownDraft(Fact, frozen=True, kw_only=True, tag=True):
    """A follower got a piece of a draft. Not everybody is told the revision of the draft's place."""

    draft: str
    after: int
    rev: int | None
    offset: int
    text: str


AnyFact = (
    Accepted
    | Began
    | Wrote
    | Decided
    | Happened
    | Stepped
    | Ended
    | ShownEvent
    | ShownJson
    | ShownMessage
    | ShownWords
    | ShownDraft
)


class Account:
    """Facts in the order in which they became known. `position` gives their moment, `tell` passes them on at once."""

    def __init__(
        self, position: Callable[[], int] = lambda: 0, tell: Callable[[Fact], None] = lambda fact: None
    ) -> None:
        self.facts: list[Fact] = []
        self._position = position
        self._tell = tell

    def add(self, fact: Fact) -> None:
        """Note a fact, known now."""
        fact = msgspec.structs.replace(fact, at=self._position())
        self._tell(fact)
        self.facts.append(fact)

    def by(self, position: int) -> list[Fact]:
        """What was known at a position of the disk."""
        return [fact for fact in self.facts if fact.at <= position]
