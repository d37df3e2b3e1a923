"""The thread fold: what a list of threads shows."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from turnlog.events.codec import decode_json, encode_json
from turnlog.events.kinds import Event, Submitted, ThreadCreated
from turnlog.events.thread_kinds import ThreadForked, ThreadRenamed, ThreadSettings, ThreadTruncated
from turnlog.folds.turn import content_text
from turnlog.limits import TITLE_CHARS_MAX


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a copied thread is from: events 1 to `seq` of the thread `of` in the store `epoch`. `turn` was asked to be
    the last one that stays."""

    of: str
    epoch: str
    seq: int
    turn: str | None = None


class ThreadFold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Title (given, else `first`, the first line of the first message), the newest turn, times in µs.

    `truncated` is the seq of the newest truncation that holds; `latest` is what that one left, or what came after it.
    `source` is where a fork is from; it is being copied still while it is `importing`.
    """

    title: str = ""
    first: str = ""
    created_at: int = 0
    updated_at: int = 0
    latest: str | None = None
    pinned: bool = False
    truncated: int | None = None
    source: Source | None = None
    importing: bool = False


def fold_thread(fold: ThreadFold, event: Event) -> ThreadFold:
    """The fold after one more event of the thread."""
    body, at = event.body, event.at
    match body:
        case ThreadCreated():
            return replace(fold, updated_at=at, created_at=at, title=body.title or "")
        case Submitted():
            first = fold.first or first_line(content_text(body.content))
            return replace(fold, updated_at=at, latest=event.turn, first=first, title=fold.title or first)
        case ThreadRenamed():
            return replace(fold, updated_at=at, title=body.title or fold.first)
        case ThreadSettings(pinned=bool(pinned)):
            return replace(fold, updated_at=at, pinned=pinned)
        case ThreadTruncated():
            return replace(fold, updated_at=at, truncated=event.seq, latest=body.latest)
        case ThreadForked():
            source = Source(of=body.of, epoch=body.epoch, seq=body.seq, turn=body.turn)
            return replace(fold, updated_at=at, source=source, importing=False)
        case _:
            return replace(fold, updated_at=at)


def first_line(text: str) -> str:
    """The first line with something on it, on one line and not longer than a title."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return " ".join(line.split())[:TITLE_CHARS_MAX]


def encode_thread_fold(fold: ThreadFold) -> bytes:
    """The bytes kept in the thread's row."""
    return encode_json(fold)


def decode_thread_fold(data: bytes) -> ThreadFold:
    """The inverse of `encode_thread_fold`; raises `RecordDamaged`.

    The first version kept no `first`, and knew no title but that one.
    """
    fold = decode_json(data, ThreadFold)
    return replace(fold, first=fold.title) if not fold.first and fold.latest is not None else fold
