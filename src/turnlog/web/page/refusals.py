"""What a person is told when a page or a form is refused: what is the matter, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from turnlog.limits import SUBMISSION_BYTES_MAX, TITLE_GIVEN_CHARS_MAX, TRUNCATIONS_MAX


class Refusal(NamedTuple):
    """One sentence, and what can be done."""

    sentence: str
    advice: str


_LOST: Final = "It may be of another store, or its address was cut: look among all threads."
_AGAIN: Final = "Try it again in a little while: a message that is sent again is kept once."
_RELOAD: Final = "Go back, load the page again and try once more."
_SEE: Final = "Open the thread again to see it."
_LOG: Final = "The server's log says why."
_DOCTOR: Final = "`turnlog doctor` tells more of it."

_NOT_OURS: Final = Refusal("This link or form is not one that this server has made.", _RELOAD)
_STORE: Final = Refusal("The store cannot be read or written at the moment.", _AGAIN)

_BY_TYPE: Final[Mapping[str, Refusal]] = {
    "key-conflict": Refusal("An earlier version of this message had already arrived.", _SEE),
    "duplicate-turn": Refusal("This message had already arrived.", _SEE),
    "busy": Refusal("Another answer of this thread is still being written.", "Wait for its end, or stop it first."),
    "already-settled": Refusal("This answer had already ended.", _SEE),
    "already-decided": Refusal("This was already decided, and the first decision stands.", _SEE),
    "turn-hidden": Refusal("This message was already edited or taken back.", _SEE),
    "thread-exists": Refusal("There is another thread under this name.", _RELOAD),
    "thread-importing": Refusal("This thread is still being copied.", _AGAIN),
    "not-retryable": Refusal("Only an answer that was interrupted can be asked for again.", _SEE),
    "illegal-transition": Refusal("This answer is not where it was any more.", _SEE),
    "fenced": Refusal("Another program goes on with this answer.", _SEE),
    "owner-alive": Refusal("Another program is at work on this answer.", _SEE),
    "refused": Refusal("The thread is not as it was any more.", _SEE),
    "overloaded": Refusal("Too many messages are waiting to be answered.", _AGAIN),
    "unknown-thread": Refusal("There is no such thread.", _LOST),
    "unknown-turn": Refusal("There is no such turn in this thread.", _LOST),
    "unknown-item": Refusal("There is no such record in this thread.", _LOST),
    "cursor-unprovable": Refusal("This page was made of another state of the store.", _RELOAD),
    "plan-changed": Refusal("The store is not as it was when this repair was planned.", "Look at the plan again."),
    "invalid-input": _NOT_OURS,
    "too-large": _NOT_OURS,
    "not-json": _NOT_OURS,
    "store-error": _STORE,
    "store-unavailable": _STORE,
    "store-busy": Refusal("Another program keeps the store busy.", _AGAIN),
    "store-closed": Refusal("The server is stopping.", _AGAIN),
    "store-missing": Refusal("The server's store is not there.", _DOCTOR),
    "store-version": Refusal("This version of turnlog cannot read the store.", "Install the newest one."),
    "store-foreign": Refusal("What the server was given as its store is none.", "It was left as it is."),
    "store-damaged": Refusal("The store is damaged.", _DOCTOR),
    "forked-log": Refusal("The server cannot use its store any more.", "Start it again."),
    "record-damaged": Refusal("A record that this page needs cannot be read.", _DOCTOR),
    "agent-failed": Refusal("The agent did not finish.", _LOG),
    "start-failed": Refusal("The agent could not be started.", _LOG),
    "restore-failed": Refusal("The agent could not be given what the thread holds so far.", _LOG),
    "turnlog-error": Refusal("The server could not do this.", _LOG),
}

_BY_STATUS: Final[Mapping[int, Refusal]] = {
    400: _NOT_OURS,
    401: Refusal("This server needs its token.", "Open /?token=TOKEN once, with the one it was started with."),
    403: Refusal("This request comes from another site.", "Open the page at its own address, and go on from there."),
    404: Refusal("There is nothing at this address.", _LOST),
    405: Refusal("This address is not one to go to.", _RELOAD),
    408: Refusal("The request did not arrive in time.", _AGAIN),
    415: _NOT_OURS,
    421: Refusal("This server is not known by this address.", "Open the page at the one that it names as it starts."),
    500: Refusal("The server met a defect of its own.", "Its log says more; try it again, or look among all threads."),
    503: Refusal("The server is stopping.", _AGAIN),
}

_INVALID: Final[Mapping[str, Refusal]] = {
    "content": Refusal("There is no message to send: write something first.", "Then send it."),
    "title": Refusal("A title is one line of text.", "Take its ends of lines out, and save it again."),
}
"""What else than its size may be wrong with what a person has typed."""

_TOO_LONG: Final = Refusal(
    f"Your message is too long: at most {SUBMISSION_BYTES_MAX:,} bytes fit.",
    "Send it in several parts, or let the agent read it from a file.",
)
_TITLE_TOO_LONG: Final = Refusal(
    f"This title is too long: at most {TITLE_GIVEN_CHARS_MAX:,} characters fit.", "Make it shorter, and save it again."
)

_BY_LIMIT: Final[Mapping[str, Refusal]] = {
    "SUBMISSION_BYTES_MAX": _TOO_LONG,
    "TITLE_GIVEN_CHARS_MAX": _TITLE_TOO_LONG,
    "TRUNCATIONS_MAX": Refusal(
        f"Messages of this thread were taken back {TRUNCATIONS_MAX:,} times, and cannot be once more.",
        "Fork it at an earlier turn, and go on there.",
    ),
}
"""What a person may have too much of. All else that is limited is no person's doing."""


def refusal(problem: Mapping[str, Any], path: str = "") -> Refusal:
    """What to say, of a request to `path`, instead of a problem document, whose words are for programs."""
    kind, status = str(problem["type"]).rpartition(":")[2], problem["status"]
    if kind == "too-large" and (said := _BY_LIMIT.get(problem["limit"])) is not None:
        return said
    if kind == "invalid-input" and (said := _INVALID.get(problem["field"])) is not None:
        return said
    if kind == "blank" and status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # a form, of which its text is nearly all
        said = _TITLE_TOO_LONG if path.endswith("/title") else _TOO_LONG
        return said._replace(advice=f"Go back to it: your browser has it still. {said.advice}")
    return _BY_TYPE.get(kind) or _BY_STATUS.get(status) or Refusal(str(problem["detail"]), _RELOAD)
