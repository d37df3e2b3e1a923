"""The thread fold: what a list of threads shows."""

from __future__ import annotations

import msgspec

from turnlog.events.codec import decode_json, encode_json
from turnlog.events.kinds import Event, Submitted, ThreadCreated
from turnlog.folds.turn import content_text
from turnlog.limits import TITLE_CHARS_MAX


class ThreadFold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Title (given, else the first line of the first message), the newest turn, times in µs."""

    title: str = ""
    created_at: int = 0
    updated_at: int = 0
    latest: str | None = None


def fold_thread(fold: ThreadFold, event: Event) -> ThreadFold:
    """The fold after one more event of the thread."""
    body = event.body
    changes: dict[str, object] = {"updated_at": event.at}
    if isinstance(body, ThreadCreated):
        changes |= {"created_at": event.at, "title": body.title or ""}
    elif isinstance(body, Submitted):
        changes["latest"] = event.turn
        if not fold.title:
            changes["title"] = first_line(content_text(body.content))
    return msgspec.structs.replace(fold, **changes)


def first_line(text: str) -> str:
    """The first line with something on it, on one line and not longer than a title."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return " ".join(line.split())[:TITLE_CHARS_MAX]


def encode_thread_fold(fold: ThreadFold) -> bytes:
    """The bytes kept in the thread's row."""
    return encode_json(fold)


def decode_thread_fold(data: bytes) -> ThreadFold:
    """The inverse of `encode_thread_fold`; raises `RecordDamaged`."""
    return decode_json(data, ThreadFold)
