"""Every error that turnlog raises, in one tree.

    TurnlogError
    ├── InvalidInput              bad input: nothing was stored
    │   ├── TooLarge
    │   └── NotJson
    ├── Refused                   the log's state does not allow it: nothing was stored
    │   ├── KeyConflict
    │   ├── DuplicateTurn
    │   ├── Busy
    │   ├── IllegalTransition
    │   ├── AlreadySettled
    │   ├── Fenced
    │   ├── OwnerAlive
    │   ├── NotRetryable
    │   ├── TurnHidden
    │   ├── ThreadExists
    │   ├── ThreadImporting
    │   ├── AlreadyDecided
    │   └── Overloaded
    ├── UnknownThread
    ├── UnknownTurn
    ├── UnknownItem
    ├── CursorUnprovable
    ├── PlanChanged
    ├── StoreError                the store could not do it
    │   ├── StoreBusy
    │   ├── StoreUnavailable
    │   ├── StoreClosed
    │   ├── StoreVersion
    │   ├── StoreMissing
    │   ├── StoreForeign
    │   └── StoreDamaged
    ├── ForkedLog
    ├── RecordDamaged             one stored record that cannot be read
    └── AgentFailed               an agent did not finish its turn
        └── StartFailed
            └── RestoreFailed

The first line of an error's docstring is its message; what happened exactly stands in its attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(eq=False, kw_only=True)
class TurnlogError(Exception):
    """turnlog could not do what was asked."""

    @property
    def facts(self) -> dict[str, Any]:
        """The attributes of this error by name, for logs and machine-readable answers."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        message = (type(self).__doc__ or type(self).__name__).partition("\n")[0]
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items() if value is not None)
        return f"{message} ({facts})" if facts else message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)


def _rebuild(kind: type[TurnlogError], facts: dict[str, Any]) -> TurnlogError:
    return kind(**facts)


@dataclass(eq=False, kw_only=True)
class InvalidInput(TurnlogError):
    """The input is not valid, nothing was stored."""

    field: str
    problem: str


@dataclass(eq=False, kw_only=True)
class TooLarge(InvalidInput):
    """The input is larger than a limit allows, nothing was stored."""

    problem: str = "too large"
    limit: str
    limit_value: int
    given: int | None = None


@dataclass(eq=False, kw_only=True)
class NotJson(InvalidInput):
    """The input is not JSON that can be kept exactly, nothing was stored."""


@dataclass(eq=False, kw_only=True)
class Refused(TurnlogError):
    """The state of the log does not allow this."""

    thread: str
    turn: str | None = None


@dataclass(eq=False, kw_only=True)
class KeyConflict(Refused):
    """This key or turn id already names a submission with other content, which is untouched."""

    key: str | None = None
    stored_digest: str
    given_digest: str


@dataclass(eq=False, kw_only=True)
class DuplicateTurn(Refused):
    """This submission is already in the log, so its work must not be done a second time."""

    state: str


@dataclass(eq=False, kw_only=True)
class Busy(Refused):
    """Another turn of this thread has not settled yet."""

    running: str


@dataclass(eq=False, kw_only=True)
class IllegalTransition(Refused):
    """An event of this kind may not follow in the turn's present state."""

    state: str | None
    kind: str


@dataclass(eq=False, kw_only=True)
class AlreadySettled(Refused):
    """The turn has already ended; its first terminal event stands."""

    state: str


@dataclass(eq=False, kw_only=True)
class Fenced(Refused):
    """Another writer has taken this turn over, so this one may not write to it any more."""

    fence: int | None = None


@dataclass(eq=False, kw_only=True)
class OwnerAlive(Refused):
    """The turn belongs to a writer that is alive."""

    owner: str | None = None


@dataclass(eq=False, kw_only=True)
class NotRetryable(Refused):
    """Only an interrupted turn can be retried, while it, and its retry if there was one, are in the conversation."""

    state: str


@dataclass(eq=False, kw_only=True)
class TurnHidden(Refused):
    """This turn is no part of the conversation any more; the truncation at `hidden_by` took it out."""

    hidden_by: int


@dataclass(eq=False, kw_only=True)
class ThreadExists(Refused):
    """There is a thread of this name already, and it is not this copy."""


@dataclass(eq=False, kw_only=True)
class ThreadImporting(Refused):
    """This thread is still being copied, so nothing else can be written to it."""


@dataclass(eq=False, kw_only=True)
class AlreadyDecided(Refused):
    """This approval has been decided before; the first decision stands."""

    approval: str
    seq: int


@dataclass(eq=False, kw_only=True)
class Overloaded(Refused):
    """More is waiting to be written than a limit allows; nothing of this call was taken."""

    limit: str
    limit_value: int


@dataclass(eq=False, kw_only=True)
class UnknownThread(TurnlogError):
    """There is no such thread."""

    thread: str


@dataclass(eq=False, kw_only=True)
class UnknownTurn(TurnlogError):
    """There is no such turn in this thread."""

    thread: str
    turn: str


@dataclass(eq=False, kw_only=True)
class UnknownItem(TurnlogError):
    """There is no item at this place of the thread."""

    thread: str
    seq: int


@dataclass(eq=False, kw_only=True)
class CursorUnprovable(TurnlogError):
    """The cursor is not of this log, so what it has missed cannot be told: read the documents again.

    `reason` is `malformed`, `epoch` (another store, or a restored backup) or `future` (beyond the head).
    `head` is the cursor to go on from.
    """

    thread: str
    reason: str
    head: str


@dataclass(eq=False, kw_only=True)
class PlanChanged(TurnlogError):
    """The store is not as it was when this plan of repair was made: look at the new plan before it is applied.

    `plan` is the id of the plan as it would be now.
    """

    plan: str


@dataclass(eq=False, kw_only=True)
class StoreError(TurnlogError):
    """The store could not do this."""

    detail: str | None = None


@dataclass(eq=False, kw_only=True)
class StoreBusy(StoreError):
    """Another process holds the store's write lock for longer than we wait; nothing was written."""


@dataclass(eq=False, kw_only=True)
class StoreUnavailable(StoreError):
    """The disk or database refused a write; whether it is stored will be known when it works again.

    No agent was started for a submission that ends so. Submitting the same `key` again tells what became of it.
    """

    thread: str | None = None
    turn: str | None = None
    key: str | None = None


@dataclass(eq=False, kw_only=True)
class StoreClosed(StoreError):
    """This log is closed."""


@dataclass(eq=False, kw_only=True)
class StoreVersion(StoreError):
    """The store was written by a newer turnlog, or needs one that is not installed."""


@dataclass(eq=False, kw_only=True)
class StoreMissing(StoreError):
    """There is no store yet, and looking for one does not create it."""


@dataclass(eq=False, kw_only=True)
class StoreForeign(StoreError):
    """This file is not a turnlog store; it is left untouched."""


@dataclass(eq=False, kw_only=True)
class StoreDamaged(StoreError):
    """The store is damaged."""


@dataclass(eq=False, kw_only=True)
class ForkedLog(TurnlogError):
    """The store was open when this process was forked: open it in a process that is started anew, or fork before."""


@dataclass(eq=False, kw_only=True)
class RecordDamaged(TurnlogError):
    """A stored record cannot be read; its neighbours are not affected."""

    problem: str
    seq: int | None = None
    kind: str | None = None


@dataclass(eq=False, kw_only=True)
class AgentFailed(TurnlogError):
    """The agent did not finish its turn."""

    reason: str
    detail: str | None = None


@dataclass(eq=False, kw_only=True)
class StartFailed(AgentFailed):
    """The agent could not be started."""


@dataclass(eq=False, kw_only=True)
class RestoreFailed(StartFailed):
    """The agent could not be given what the thread holds so far, so the turn was not begun."""
