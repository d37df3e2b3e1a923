"""How a page tells that a turn has ended without a whole answer: in words, without ids and names of programs."""

from __future__ import annotations

from typing import Final

from turnlog.events.kinds import Reason, Requested
from turnlog.folds.notices import SAFE_TEXT, reason_text
from turnlog.journal.ends import REPLACED_BY, told_by
from turnlog.web.work import STOPPED

BY: Final = "the page"
"""Who asks for what is asked for by the forms of a page."""

REQUEST_WORDS: Final = "You stopped it."
_REPLACED_WORDS: Final = "You asked something else instead."
_BY_PAGE: Final = told_by(Requested(what="interrupt", by=BY)) or ""


def end_words(reason: Reason | None, detail: str | None, *, began: bool = True) -> str:
    """Why a turn ended, in a sentence. `detail` is that of its end; `began` tells whether it was ever begun."""
    if reason != "cancelled":
        return reason_text(reason)
    if not began:
        return "It was cancelled before it began."
    told = detail or ""
    if told.startswith(REPLACED_BY):
        return _REPLACED_WORDS
    if told.startswith(_BY_PAGE):
        return REQUEST_WORDS
    return "The server was stopped." if told.startswith(STOPPED) else "It was stopped."


def end_detail(reason: Reason | None, detail: str | None) -> str | None:
    """What else there is to say of an end. Of one that was asked for, everything is said."""
    return None if reason == "cancelled" else detail


def notice_words(reason: Reason | None, detail: str | None, *, began: bool) -> str:
    """The first sentences of the notice of an interrupted turn. Who stopped it knows that the message is safe."""
    words = end_words(reason, detail, began=began)
    return words if reason == "cancelled" else f"{SAFE_TEXT} {words}"


def request_words(by: str | None) -> str:
    """Who asked for the end of a turn."""
    if by is not None and by.startswith(REPLACED_BY):
        return _REPLACED_WORDS
    return REQUEST_WORDS if by == BY else "A stop was asked for."
