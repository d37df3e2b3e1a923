"""The thread fold: what a list of threads shows."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

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
    body, at = event.body, event.at
    if isinstance(body, ThreadCreated):
        return replace(fold, updated_at=at, created_at=at, title=body.title or "")
    if isinstance(body, Submitted):
        title = fold.title or first_line(content_text(body.content))
        return replace(fold, updated_at=at, latest=event.turn, title=title)
    return replace(fold, updated_at=at)


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
