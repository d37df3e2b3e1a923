"""What clients send to the API. A field that is not here is refused: a misspelt one would be lost without a word."""

from __future__ import annotations

import msgspec

from turnlog.journal.jobs import WhenBusy
from turnlog.journal.shapes import Json, JsonObject


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all bodies are."""


class GivenAttachment(Given, frozen=True, kw_only=True):
    """A file that comes with a message: described, not stored."""

    name: str
    path: str | None = None
    type: str | None = None
    bytes: int | None = None
    sha256: str | None = None


class GivenMessage(Given, frozen=True, kw_only=True):
    """A message to be answered: text, or a list of Responses input parts.

    The same `key` again, in the same thread, is the same submission: send it when an answer was lost. `turn` is an id
    for the turn, ours when it is left out; `agent` one of the server's agents. While another turn of the thread is
    open, `when_busy` refuses this one, queues it, or replaces what runs. `edit_of` is the turn whose message this one
    takes the place of: that turn and everything begun after it are hidden by the same write.
    """

    content: str | list[JsonObject]
    key: str | None = None
    turn: str | None = None
    agent: str | None = None
    attachments: list[GivenAttachment] = []
    when_busy: WhenBusy = "refuse"
    edit_of: str | None = None


class GivenSettings(Given, frozen=True, kw_only=True):
    """What to change of a thread; what is left out stays. `by` says who did it, for people, here and below."""

    title: str | None = None
    pinned: bool | None = None
    by: str | None = None


class GivenTruncation(Given, frozen=True, kw_only=True):
    """The first turn that goes."""

    turn: str
    by: str | None = None


class GivenFork(Given, frozen=True, kw_only=True):
    """The last turn that stays, all that have settled when it is left out; and the new thread's id, ours by default."""

    turn: str | None = None
    to: str | None = None


class GivenCompaction(Given, frozen=True, kw_only=True):
    """The summary, and the last turn that it tells of: the newest settled one when it is left out."""

    summary: str
    until: str | None = None
    by: str | None = None


class GivenRetry(Given, frozen=True, kw_only=True):
    """How to ask an interrupted turn again: by which agent, by default the one it had, and `when_busy` as above."""

    agent: str | None = None
    when_busy: WhenBusy = "refuse"


class GivenInterrupt(Given, frozen=True, kw_only=True):
    """Who asks for the end of a turn, as people shall read it."""

    by: str | None = None


class GivenDecision(Given, frozen=True, kw_only=True):
    """The decision of an approval, of the shape that its agent understands, and who made it."""

    value: Json
    by: str | None = None


class GivenRepair(Given, frozen=True, kw_only=True):
    """What to do about findings, of the whole store or of `thread`.

    Without `apply` it is shown what a repair would do; `apply` is the id of the plan that was shown, which is carried
    out if it is still the same. `by` says who did it, for people.
    """

    thread: str | None = None
    apply: str | None = None
    by: str | None = None


class GivenUndo(Given, frozen=True, kw_only=True):
    """The repair that was written at `seq` of `thread` shall hold no longer. `by` says who did it, for people."""

    thread: str
    seq: int
    by: str | None = None
