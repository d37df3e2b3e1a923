"""Notices: what a person is told about a turn or a record, beside the messages, in plain sentences."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from turnlog.events.kinds import Reason

NoticeKind: TypeAlias = Literal[
    "queued", "running", "interrupted", "damaged", "unknown", "late", "collision", "truncated", "forked", "compacted"
]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know. `kind` and `reason` are for programs, `text` is for people.

    queued: not answered yet, waiting; running: being answered; interrupted: ended without a whole answer, and nobody
    knows the outcome of `unknown_calls`; damaged, unknown: a record that cannot be read, or is of a kind this version
    does not know; late: something came after the turn had ended; collision: the store holds a second end of it;
    truncated: messages before it were taken out of the conversation; forked: what stands before it was copied;
    compacted: the agent is given a summary of what stands before it. `retried_by` is the turn that replaces this one.
    `hidden` ones are of what was retried or taken out.
    """

    turn: str | None
    seq: int
    kind: NoticeKind
    text: str
    reason: Reason | None = None
    unknown_calls: tuple[str, ...] = ()
    can_retry: bool = False
    retried_by: str | None = None
    hidden: bool = False


SAFE_TEXT: Final = "Your message is safe."
KEPT_TEXT: Final = "What was shown is kept."
RETRIED_TEXT: Final = "It was asked again."
HIDDEN_TEXT: Final = "This message was taken back."
CHECK_TEXT: Final = "Check before you run again what these calls may have done:"
MORE_TEXT: Final = "There are more notices about records here than are shown."

_KIND_TEXT: Final[dict[NoticeKind, str]] = {
    "queued": "Your message is safe. It waits to be answered.",
    "running": "Your message is safe. It is being answered.",
    "interrupted": SAFE_TEXT,
    "damaged": "A record here cannot be read. Its neighbours are not affected.",
    "unknown": "A record here was written by a newer version. It is kept as it is.",
    "collision": "The store holds two ends of this turn, which contradict each other. The first one is shown.",
    "late": "Something came after this turn had ended. It is kept in the trace.",
    "truncated": "Messages were taken back here. They are kept.",
    "forked": "What stands above was copied from another thread.",
    "compacted": "What stands above was summed up for the agent. It is kept.",
}

EDITED_TEXT: Final = "A message was changed here. What it was before is kept, with all that followed."

_REASON_TEXT: Final[dict[Reason, str]] = {
    "cancelled": "The answer was stopped on request.",
    "failed": "The agent failed.",
    "timed_out": "The agent took too long.",
    "transport_closed": "The connection to the agent was lost.",
    "process_died": "The process that was answering ended.",
    "not_started": "The agent had not begun.",
    "start_failed": "The agent could not be started.",
    "workspace_failed": "The workspace could not be used.",
    "too_large": "The answer grew over a limit.",
    "recovery_exhausted": "The turn could not be recovered.",
}


def notice_text(kind: NoticeKind, reason: Reason | None, unknown_calls: int) -> str:
    """The sentences of a notice."""
    sentences = [_KIND_TEXT[kind]]
    if kind == "interrupted":
        sentences.append(reason_text(reason))
    if unknown_calls:
        sentences.append(unknown_text(unknown_calls))
    return " ".join(sentences)


def reason_text(reason: Reason | None) -> str:
    """Why a turn ended, in a sentence. None is of an end that cannot be read."""
    return "The turn was interrupted." if reason is None else _REASON_TEXT[reason]


def unknown_text(calls: int) -> str:
    """What to know of calls that were begun and whose outcome nobody knows."""
    return f"The outcome of {calls} {'call' if calls == 1 else 'calls'} is unknown; nothing is run again by itself."
