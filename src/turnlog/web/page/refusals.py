"""What a person is told when a page or a form is refused: what is the matter, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from turnlog.limits import SUBMISSION_BYTES_MAX


class Refusal(NamedTuple):
    """One sentence, and what can be done; "" when nothing can."""

    sentence: str
    advice: str = ""


_LOST: Final = "It may be of another store, or its address was cut: look among all threads."
_AGAIN: Final = "Try it again in a little while: a message that is sent again is kept once."
_RELOAD: Final = "Go back, load the page again and try once more."
_SHORTER: Final = "Send it in several parts, or let the agent read it from a file."
_SEE: Final = "Load the page again to see it."

_NOT_OURS: Final = Refusal("This link or form is not one that this server has made.", _RELOAD)

_BY_TYPE: Final[Mapping[str, Refusal]] = {
    "key-conflict": Refusal("An earlier version of this message had already arrived.", _SEE),
    "duplicate-turn": Refusal("This message had already arrived.", _SEE),
    "busy": Refusal("Another answer of this thread is still being written.", _AGAIN),
    "already-settled": Refusal("This answer had already ended.", _SEE),
    "already-decided": Refusal("This was already decided, and the first decision stands.", _SEE),
    "turn-hidden": Refusal("This message was already taken back.", _SEE),
    "thread-exists": Refusal("There is another thread under this name.", _RELOAD),
    "thread-importing": Refusal("This thread is still being copied.", _AGAIN),
    "not-retryable": Refusal("Only an answer that was interrupted can be asked for again.", _SEE),
    "overloaded": Refusal("Too many messages are waiting to be answered.", _AGAIN),
    "unknown-thread": Refusal("There is no such thread.", _LOST),
    "unknown-turn": Refusal("There is no such turn in this thread.", _LOST),
    "invalid-input": _NOT_OURS,
    "not-json": _NOT_OURS,
    "store-busy": Refusal("Another program keeps the store busy.", _AGAIN),
    "store-closed": Refusal("The server is stopping.", _AGAIN),
    "record-damaged": Refusal("A record that this page needs cannot be read.", "`turnlog doctor` tells more of it."),
}

_BY_STATUS: Final[Mapping[int, Refusal]] = {
    404: Refusal("There is nothing at this address.", _LOST),
    405: Refusal("This address is not one to go to.", _RELOAD),
    408: Refusal("The request did not arrive in time.", _AGAIN),
    415: _NOT_OURS,
    503: Refusal("The store cannot be read or written at the moment.", _AGAIN),
}


def refusal(problem: Mapping[str, Any]) -> Refusal:
    """What to say instead of a problem document, whose words are for programs."""
    kind, status = str(problem["type"]).rpartition(":")[2], problem["status"]
    if status == 413:
        message = problem.get("field", "content") == "content"
        what = "Your message is too long" if message else "What was sent is too long"
        return Refusal(f"{what}: at most {_size(problem, message=message):,} bytes fit.", _SHORTER)
    if kind == "invalid-input" and problem.get("field") == "content":
        return Refusal("There is no message to send: write something first.")
    return _BY_TYPE.get(kind) or _BY_STATUS.get(status) or Refusal(str(problem["detail"]))


def _size(problem: Mapping[str, Any], *, message: bool) -> int:
    """How much fits. A form may be refused for its own size; of what is in it, that of the message counts."""
    return SUBMISSION_BYTES_MAX if message else int(problem["limit_value"])
