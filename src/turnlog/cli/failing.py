"""What a person reads, and which code a program gets, when something could not be done."""

from __future__ import annotations

from typing import Any, Final

from turnlog.cli.output import OutputLost
from turnlog.cli.store import Store
from turnlog.cli.words import harmless, one_line, shell_word
from turnlog.errors import (
    Busy,
    CursorUnprovable,
    ForkedLog,
    InvalidInput,
    KeyConflict,
    NotRetryable,
    StartFailed,
    StoreError,
    StoreMissing,
    StoreUnavailable,
    TurnHidden,
    TurnlogError,
    UnknownThread,
    UnknownTurn,
)

FINE: Final = 0
FINDINGS: Final = 1
USAGE: Final = 2
STORE: Final = 3
HUNG_UP: Final = 129
INTERRUPTED: Final = 130
TERMINATED: Final = 143

_FACTS_IN_ADVICE: Final = (Busy, KeyConflict, NotRetryable, StoreMissing, TurnHidden, UnknownThread, UnknownTurn)


def exit_code(error: Exception) -> int:
    """0 fine, 1 findings or refused, 2 usage, 3 store not usable."""
    if isinstance(error, InvalidInput):
        return USAGE
    return STORE if isinstance(error, StoreError | ForkedLog | OSError) else FINDINGS


def sentence(error: Exception, store: Store | None) -> str:
    """The error for a person: what is the matter and, where there is something to do, what."""
    if isinstance(error, InvalidInput):
        return f"{one_line(error.field)}: {one_line(error.problem)}{_over(error)}."
    if isinstance(error, TurnlogError) and store is not None and isinstance(error, _FACTS_IN_ADVICE):
        return _advice(error, store)
    if isinstance(error, StoreError):
        message = (type(error).__doc__ or "").partition("\n")[0]
        said = f"{message} {one_line(error.detail)}" if error.detail else message
        return f"{said} (turn {shell_word(error.turn)})" if isinstance(error, StoreUnavailable) and error.turn else said
    if isinstance(error, StartFailed) and error.detail:
        return one_line(error.detail)
    if isinstance(error, CursorUnprovable):
        return f"This cursor is not of this log ({error.reason}). Read from the beginning, or go on from {error.head}"
    if isinstance(error, OutputLost):
        return f"Standard output could not be written: {error.strerror}."
    return harmless(str(error))


def _over(error: InvalidInput) -> str:
    facts = error.facts
    return (
        f" ({facts['given'] or 'more'} of at most {facts['limit_value']}, {facts['limit']})" if "limit" in facts else ""
    )


def _advice(error: TurnlogError, store: Store) -> str:
    match error:
        case Busy(thread=thread, running=running):
            return (
                f"Turn {shell_word(running)} of this thread has not ended yet, so nothing was written. "
                f"Watch it: {store.command('tail', thread, options=('--follow',))}. "
                f"Or end it: {store.command('stop', thread)}"
            )
        case KeyConflict(key=key, stored_digest=stored, given_digest=given):
            return (
                f"The key {shell_word(key or '')} already names a message with other content, which is untouched "
                f"(stored {stored[:12]}, given {given[:12]}). Take a new key for a new message."
            )
        case NotRetryable(turn=turn, state="interrupted"):
            return f"Turn {shell_word(turn or '')}, or its retry, was taken back: ask in a new message."
        case NotRetryable(turn=turn, state=state):
            return f"Turn {shell_word(turn or '')} is {state}: only an interrupted turn can be asked again."
        case TurnHidden(thread=thread, turn=turn):
            return (
                f"Turn {shell_word(turn or '')} was taken back, and is no part of the conversation any more. "
                f"Read it: {store.command('show', thread, turn or '')}"
            )
        case UnknownTurn(thread=thread, turn=turn):
            return f"There is no turn {shell_word(turn)} in this thread. See {store.command('show', thread)}"
        case UnknownThread(thread=thread):
            return f"There is no thread {shell_word(thread)}. See {store.command('threads')}"
    return f"There is no store at {one_line(str(error.facts['detail']))}. `turnlog ask` creates it."


def error_document(error: Exception) -> dict[str, Any]:
    """The error for a program."""
    facts = error.facts if isinstance(error, TurnlogError) else {}
    said = str(error) if not isinstance(error, TurnlogError) else (type(error).__doc__ or "").partition("\n")[0]
    return {"error": type(error).__name__, "message": said, **facts}
