"""A timeline cut into pages: those that are stored as its snapshot, and those that a reader asks for.

A stored page is compressed JSON, bounded in number of entries and in bytes. It says where it stands, so that the page
of a cursor is found by halving, and holds nothing that depends on the pages behind it: it is written when it is full.

A place in a timeline is (seq, rev, n): the place of an entry, and how many of the same place stand before it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from turnlog.errors import InvalidInput, RecordDamaged
from turnlog.events.codec import decode_json, encode_json
from turnlog.folds.entries import Brief, Entry, TimelineView
from turnlog.folds.summary import Counting, Summary, summary_of
from turnlog.folds.turn import TurnView
from turnlog.limits import (
    PAGE_BYTES_MAX,
    SNAPSHOT_BODY_BYTES_MAX,
    SNAPSHOT_PAGE_BYTES,
    SNAPSHOT_PAGE_ENTRIES_MAX,
)

FOLD_VERSION: Final = 2
"""Told in each page: raised whenever a timeline shows something else of the same events, or a page is written in
another way. A snapshot of another version is made again."""

Place: TypeAlias = tuple[int, int, int]
PageT = TypeVar("PageT", bound="PageHead")

_PLACE_MAX: Final = 2**63


class PageHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where a page stands: `number` is how many entries stand before it, `place` that of its first one."""

    v: int
    turn: str
    number: int
    place: Place


class BriefPage(PageHead, frozen=True, kw_only=True):
    """A page in brief. `view` is the turn's row, in the first page alone, `summary` that of the whole trace, in the
    last one alone."""

    view: TurnView | None
    summary: Summary | None = None
    briefs: tuple[Brief, ...]


class StoredPage(BriefPage, frozen=True, kw_only=True):
    """A page of a snapshot."""

    entries: tuple[Entry, ...]


class OtherVersion(RecordDamaged):
    """A page of a snapshot was written by another version."""


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one turn's trace: its row, some entries in order, and the `after` of the part behind it, None at the
    end. The parent of an entry may stand in an earlier part."""

    turn: TurnView
    entries: tuple[Entry, ...]
    next: bytes | None


# --- places ----------------------------------------------------------------------------------------------------


def places(entries: Iterable[Entry], before: Place | None = None) -> Iterator[tuple[Place, Entry]]:
    """Entries with their places. `before` is the place of the entry in front of them."""
    last = before
    for entry in entries:
        same = last is not None and last[:2] == (entry.seq, entry.rev)
        last = (entry.seq, entry.rev, last[2] + 1 if same and last is not None else 0)
        yield last, entry


def place_of(after: bytes) -> Place:
    """The first place that a cursor leaves to be read. Raises `InvalidInput`."""
    numbers = after.split(b".")
    if len(numbers) != 3 or not all(number.isdigit() and len(number) < 20 for number in numbers):
        raise InvalidInput(field="after", problem="must be the `next` of a timeline")
    seq, rev, given = map(int, numbers)
    if max(seq, rev, given) >= _PLACE_MAX:
        raise InvalidInput(field="after", problem="must be the `next` of a timeline")
    return seq, rev, given


def cursor_behind(shown: Sequence[Entry], after: bytes | None) -> bytes:
    """The cursor behind entries that were read from `after` on; there is at least one."""
    last = shown[-1]
    given = sum(1 for entry in shown if (entry.seq, entry.rev) == (last.seq, last.rev))
    if after is not None and given == len(shown):
        seq, rev, before = place_of(after)
        given += before if (seq, rev) == (last.seq, last.rev) else 0
    return b"%d.%d.%d" % (last.seq, last.rev, given)


def part_of(
    turn: TurnView, entries: Iterable[Entry], before: Place | None, after: bytes | None, limit: int
) -> TimelinePage:
    """The first `limit` of the entries behind `after`, and at least one; fewer when they have too many bytes.

    `entries` may begin anywhere in front of the cursor, behind an entry at the place `before`.
    """
    start = (0, 0, 0) if after is None else place_of(after)
    shown: list[Entry] = []
    size = 0
    for place, entry in places(entries, before):
        if place < start:
            continue
        size += len(encode_json(entry))
        if len(shown) == limit or (shown and size > PAGE_BYTES_MAX):
            return TimelinePage(turn=turn, entries=tuple(shown), next=cursor_behind(shown, after))
        shown.append(entry)
    return TimelinePage(turn=turn, entries=tuple(shown), next=None)


# --- snapshots -------------------------------------------------------------------------------------------------


def stored_pages(view: TurnView, entries: Iterable[Entry]) -> Iterator[bytes]:
    """The bodies of a snapshot's pages, in order; at least one. The same timeline always gives the same pages."""
    number, size = 0, 0
    first: Place = (0, 0, 0)
    held: list[Entry] = []
    counting = Counting()
    for place, entry in places(entries):
        more = len(encode_json(entry))
        if held and (len(held) == SNAPSHOT_PAGE_ENTRIES_MAX or size + more > SNAPSHOT_PAGE_BYTES):
            yield _body(view, number, first, held)
            number, size, held = number + len(held), 0, []
        first = first if held else place
        held.append(entry)
        counting.add(entry)
        size += more
    yield _body(view, number, first, held, counting.summary())


def _body(view: TurnView, number: int, place: Place, entries: list[Entry], summary: Summary | None = None) -> bytes:
    """The page in brief, with its length in front, then its entries: who wants only the first part unpacks no other."""
    brief = BriefPage(
        v=FOLD_VERSION,
        turn=view.turn,
        number=number,
        place=place,
        view=view if number == 0 else None,
        summary=summary,
        briefs=tuple(Brief(entry.id, entry.parent, entry.kind, entry.mark) for entry in entries),
    )
    head = zlib.compress(encode_json(brief), 1)
    return b"%d\n" % len(head) + head + zlib.compress(encode_json(entries), 1)


def _parts(body: bytes) -> tuple[bytes, bytes]:
    """The two parts of a page, still compressed."""
    length, lf, rest = body.partition(b"\n")
    if not lf or not length.isdigit() or len(length) > len(str(SNAPSHOT_BODY_BYTES_MAX)):
        raise RecordDamaged(problem="a page of a snapshot does not say how long it is")
    return rest[: int(length)], rest[int(length) :]


def _opened(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        opened = unpacking.decompress(data, SNAPSHOT_BODY_BYTES_MAX)
    except zlib.error as error:
        raise RecordDamaged(problem=f"a page of a snapshot: {error}") from None
    if not unpacking.eof or unpacking.unused_data:
        raise RecordDamaged(problem="a page of a snapshot does not end where it should")
    return opened


def read_page(body: bytes, turn: str) -> StoredPage:
    """A stored page. Raises `RecordDamaged` for one that is damaged, of another version or of another turn."""
    brief = read_briefs(body, turn)
    entries = decode_json(_opened(_parts(body)[1]), tuple[Entry, ...])
    if len(entries) != len(brief.briefs):
        raise RecordDamaged(problem="a page of a snapshot has other entries than it says")
    return StoredPage(**{name: getattr(brief, name) for name in brief.__struct_fields__}, entries=entries)


def read_briefs(body: bytes, turn: str) -> BriefPage:
    """The same, for the order of its entries only."""
    return _checked(decode_json(_opened(_parts(body)[0]), BriefPage), turn)


def read_head(body: bytes, turn: str) -> PageHead:
    """The same, for where it stands only."""
    return _checked(decode_json(_opened(_parts(body)[0]), PageHead), turn)


def _checked(page: PageT, turn: str) -> PageT:
    if page.v != FOLD_VERSION:
        raise OtherVersion(problem=f"a page of a snapshot of version {page.v}, not {FOLD_VERSION}")
    if page.turn != turn:
        raise RecordDamaged(problem="a page of another turn's snapshot")
    return page


def page_of(place: Place, pages: int, head: Callable[[int], PageHead]) -> int:
    """The index of the page in which the first entry at `place` or behind it stands, or the page in front of it.

    `head` reads where a page stands; about log2(`pages`) of them are read.
    """
    low, high = 0, pages
    while high - low > 1:
        middle = (low + high) // 2
        if head(middle).place <= place:
            low = middle
        else:
            high = middle
    return low


def differs(pages: Iterable[bytes], timeline: TimelineView) -> int | None:
    """The number of the first entry in which a snapshot's pages differ from the timeline, None when they are equal.

    A row that differs is told as 0, a summary that does as the number of all entries, a page that cannot be read by the
    number of entries before it. A snapshot of another version, which nobody reads, differs in nothing.
    """
    number, summary = 0, None
    for index, body in enumerate(pages):
        try:
            page = read_page(body, timeline.turn.turn)
        except OtherVersion:
            return number if index else None
        except RecordDamaged:
            return number
        if page.number != number or (index == 0) is not (page.view is not None):
            return number
        if page.view is not None and page.view != timeline.turn:
            return 0
        for entry in page.entries:
            if number >= len(timeline.entries) or entry != timeline.entries[number]:
                return number
            number += 1
        summary = page.summary
    return None if number == len(timeline.entries) and summary == summary_of(timeline.entries) else number
