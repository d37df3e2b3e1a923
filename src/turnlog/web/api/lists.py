"""Pages of what one turn or thread may have very much of, bounded in number and in bytes."""

from __future__ import annotations

from typing import NamedTuple

from turnlog.events.codec import json_line
from turnlog.events.kinds import Event
from turnlog.folds.pages import cursor_behind
from turnlog.folds.turn import TurnView
from turnlog.journal import shapes
from turnlog.journal.documents import (
    cursor_of,
    cursor_text,
    entry_shape,
    events_document,
    transcript_document,
)
from turnlog.journal.log import Log
from turnlog.limits import PAGE_BYTES_MAX


class EntryPage(NamedTuple):
    """Some entries of a timeline in order, the turn's row that was folded with them, and the cursor of the page after
    them, None at the end."""

    turn: TurnView
    entries: list[shapes.Entry]
    next: str | None


def entry_page(log: Log, thread: str, turn: str, after: str | None, limit: int) -> EntryPage:
    """At most `limit` of the entries behind `after`, and at least one; fewer when their bytes would be too many.

    A cursor is a place, and how many entries of that place were given before: what comes later stands behind it.
    """
    start = None if after is None else cursor_of(after, "after")
    part = log.timeline_page(thread, turn, limit=limit, after=start)
    page: list[shapes.Entry] = []
    size = 0
    for entry in part.entries:
        shape = entry_shape(entry)
        size += len(json_line(shape))
        if page and size > PAGE_BYTES_MAX:
            break
        page.append(shape)
    next = part.next
    if len(page) < len(part.entries):
        next = cursor_behind(part.entries[: len(page)], start)
    return EntryPage(part.turn, page, None if next is None else cursor_text(next))


def transcript_page(log: Log, thread: str, limit: int, before: bytes | None) -> bytes:
    """The newest `limit` turns as people read them; fewer when their bytes would be too many, and at least one."""
    while True:
        page = log.transcript(thread, limit=limit, before=before)
        document = json_line(transcript_document(page))
        if len(document) <= PAGE_BYTES_MAX or limit == 1:
            return document
        limit = max(1, min(limit, len(page.turns)) // 2)


def event_page(log: Log, thread: str, after: int, limit: int) -> bytes:
    """At most `limit` of the events behind `after`, and at least one; fewer when their bytes would be too many."""
    events: list[Event] = []
    size, more = 0, False
    for event in log.events(thread, after=after):
        size += len(event.data)
        if more := len(events) == limit or (bool(events) and size > PAGE_BYTES_MAX):
            break
        events.append(event)
    at = f"{log.epoch}.{events[-1].seq if events else after}"
    return events_document(events, next=at if more else None, at=at)
