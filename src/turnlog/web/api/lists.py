"""Pages of what one turn or thread may have very much of, bounded in number and in bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from turnlog.errors import InvalidInput
from turnlog.events.codec import json_line
from turnlog.events.kinds import Event
from turnlog.folds.entries import Entry
from turnlog.journal import shapes
from turnlog.journal.documents import (
    cursor_of,
    cursor_text,
    entry_shape,
    events_document,
    transcript_document,
)
from turnlog.journal.follow import is_seq
from turnlog.journal.log import Log
from turnlog.limits import PAGE_BYTES_MAX


class EntryPage(NamedTuple):
    """Some entries of a timeline in order, and the cursor of the page after them, None at the end."""

    entries: list[shapes.Entry]
    next: str | None


def entry_page(entries: Sequence[Entry], after: str | None, limit: int) -> EntryPage:
    """At most `limit` of the entries behind `after`, and at least one; fewer when their bytes would be too many.

    A cursor is a place, and how many entries of that place were given before: what comes later stands behind it.
    """
    start = 0 if after is None else _behind(entries, after)
    page: list[shapes.Entry] = []
    size = 0
    for entry in entries[start : start + limit]:
        shape = entry_shape(entry)
        size += len(json_line(shape))
        if page and size > PAGE_BYTES_MAX:
            break
        page.append(shape)
    end = start + len(page)
    return EntryPage(page, None if end >= len(entries) else _cursor(entries, end))


def _place(entry: Entry) -> tuple[int, int]:
    return entry.seq, entry.rev


def _cursor(entries: Sequence[Entry], end: int) -> str | None:
    seq, rev = _place(entries[end - 1])
    given = sum(1 for entry in entries[:end] if _place(entry) == (seq, rev))
    return cursor_text(b"%d.%d.%d" % (seq, rev, given))


def _behind(entries: Sequence[Entry], after: str) -> int:
    numbers = cursor_of(after, "after").decode("latin-1").split(".")
    if len(numbers) != 3 or not all(is_seq(number) for number in numbers):
        raise InvalidInput(field="after", problem="must be the `next` of a timeline")
    seq, rev, given = map(int, numbers)
    end = bisect_right(entries, (seq, rev), key=_place)
    first = next((at for at in range(end, 0, -1) if _place(entries[at - 1]) != (seq, rev)), 0)
    return min(first + given, end)


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
