"""What an exception makes of the turn whose work raised it: a reason, and a line that fits a terminal event."""

from __future__ import annotations

import asyncio
from typing import Final, get_args

from turnlog.errors import AgentFailed, Overloaded, TooLarge
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Reason, Requested
from turnlog.limits import DETAIL_BYTES_MAX

STOPPED = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Raised to stop the work, not by it."""

REPLACED_BY: Final = "replaced by "
"""How a request names the turn for which it asks another one to end, before its id."""


def reason_of(error: BaseException, default: Reason = "failed") -> Reason:
    """Why a turn ends, by what its work raised; `default` when the error itself does not say."""
    if isinstance(error, STOPPED):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timed_out"
    if isinstance(error, TooLarge | Overloaded):
        return "too_large"
    if isinstance(error, AgentFailed):
        for reason in get_args(Reason):
            if error.reason == reason:
                return reason  # type: ignore[no-any-return]  # get_args does not tell the literal's type
    return default


def detail_of(error: BaseException) -> str | None:
    """A line about an exception: an agent's own words, else its name and message; the beginning, when it is long.

    None where it says no more than the reason does: of a cancellation without a message, of an agent without words.
    """
    if isinstance(error, asyncio.CancelledError) and not error.args:
        return None
    words = _words_of(error)
    return None if words is None else _shortened(words)


def told_by(request: Requested) -> str | None:
    """A line about who asked a turn to end, if the request says it."""
    if request.by is None:
        return None
    return _shortened(request.by if request.by.startswith(REPLACED_BY) else f"interrupted by {request.by}")


def _shortened(text: str) -> str:
    while len(encode_json(text)) - 2 > DETAIL_BYTES_MAX:
        text = text[: len(text) * 3 // 4] + " …"
    return text


def _words_of(error: BaseException) -> str | None:
    try:
        if isinstance(error, AgentFailed) and not error.detail:
            return None if error.reason in get_args(Reason) else str(error.reason)
        if isinstance(error, AgentFailed):
            return error.detail if isinstance(error.detail, str) else str(error)
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # an exception that cannot say what it is must not keep its turn from ending
        return type(error).__name__
