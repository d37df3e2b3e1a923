"""Views as JSON documents: the shapes that programs may rely on. Times are RFC 3339 in UTC with microseconds.

Pure: a document is built of what was read, as values that `events.codec.json_line` takes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from turnlog.errors import InvalidInput
from turnlog.events.clock import rfc3339
from turnlog.events.codec import event_json, json_line
from turnlog.events.kinds import Draft, Event
from turnlog.folds.drafts import draft_name
from turnlog.folds.entries import TimelineView
from turnlog.folds.turn import TurnView
from turnlog.journal.reading import ThreadView, TranscriptPage, ViewPage
from turnlog.journal.recovery import Recovered

Document = dict[str, Any]

_TIMES: Final = frozenset({"at", "created_at", "updated_at", "submitted_at", "started_at", "settled_at", "ended_at"})


def thread_row(view: ThreadView) -> Document:
    """A thread in a list."""
    return _plain(view)


def turn_row(thread: str, view: TurnView) -> Document:
    """A turn in a list; every field is there, those without a value as null."""
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return {"thread": thread, **_timed(fields)}


def threads_document(page: ViewPage[ThreadView]) -> Document:
    """A page of threads."""
    return {"threads": [thread_row(row) for row in page.rows], "next": cursor_text(page.next)}


def transcript_document(thread: str, page: TranscriptPage) -> Document:
    """A page of a transcript, with the rows of its turns, newest first."""
    return {
        "messages": [_plain(message) for message in page.messages],
        "notices": [_plain(notice) for notice in page.notices],
        "turns": [turn_row(thread, row) for row in page.turns],
        "next": cursor_text(page.next),
        "at": page.at,
    }


def timeline_document(thread: str, view: TimelineView, epoch: str) -> Document:
    """One turn's trace."""
    return {
        "turn": turn_row(thread, view.turn),
        "entries": [_plain(entry) for entry in view.entries],
        "next": None,
        "at": f"{epoch}.{view.turn.seq_last}",
    }


def recovered_document(recovered: Sequence[Recovered]) -> Document:
    """What a recovery settled."""
    return {"recovered": [turn._asdict() | {"unknown_calls": list(turn.unknown_calls)} for turn in recovered]}


def event_frame(event: Event, epoch: str) -> bytes:
    """One event of a stream, as a line of JSON without its LF: `{"event":"event","id":cursor,"data":event}`."""
    head = json_line({"event": "event", "id": f"{epoch}.{event.seq}"})
    return head[:-1] + b',"data":' + event_json(event) + b"}"


def draft_frame(draft: Draft) -> bytes:
    """One chunk of a draft in a stream, likewise. `item` is what it targets; an anonymous draft has none."""
    name = draft_name(draft.draft)
    data = {
        "turn": draft.turn,
        "draft": draft.draft,
        "item": None if name.anonymous else name.target,
        "kind": name.kind,
        "after": draft.after,
        "offset": draft.offset,
        "text": draft.text,
    }
    return json_line({"event": "draft", "data": data})


def cursor_text(cursor: bytes | None) -> str | None:
    """The place where a list goes on, as text that needs no quoting anywhere."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).decode().rstrip("=")


def cursor_of(text: str) -> bytes:
    """The inverse of `cursor_text`. Raises `InvalidInput`."""
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field="before", problem="must be the `next` of a list") from None


def _plain(view: msgspec.Struct) -> Document:
    """A view's fields by name, with times for people."""
    return _timed({name: getattr(view, name) for name in view.__struct_fields__})


def _timed(fields: Document) -> Document:
    return {name: rfc3339(value) if name in _TIMES and value is not None else value for name, value in fields.items()}
