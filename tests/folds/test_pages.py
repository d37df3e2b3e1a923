"""A timeline cut into pages: nothing is lost, doubled or moved, and no page is larger than it may be."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.folds.simulate import Simulator, events_of, threads
from turnlog.errors import InvalidInput, RecordDamaged
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Submitted, ThreadLate
from turnlog.folds import pages
from turnlog.folds.entries import Entry, TimelineView
from turnlog.folds.pages import (
    FOLD_VERSION,
    OtherVersion,
    differs,
    page_of,
    part_of,
    place_of,
    places,
    read_briefs,
    read_head,
    read_page,
    stored_pages,
)
from turnlog.folds.summary import summary_of
from turnlog.folds.timeline import Timeline
from turnlog.folds.turn import TurnView
from turnlog.limits import PAGE_BYTES_MAX, SNAPSHOT_PAGE_BYTES, SNAPSHOT_PAGE_ENTRIES_MAX


@contextmanager
def small(entries: int, size: int = SNAPSHOT_PAGE_BYTES) -> Iterator[None]:
    """Pages of a few entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SNAPSHOT_PAGE_ENTRIES_MAX", entries)
        patch.setattr(pages, "SNAPSHOT_PAGE_BYTES", size)
        yield


def traces(simulator: Simulator) -> list[TimelineView]:
    """The timelines of all turns of a thread, open ones too."""
    events = events_of(simulator.frames)
    found = []
    for turn in [event.turn or "" for event in events if isinstance(event.body, Submitted)]:
        fold = Timeline(turn)
        for event in events:
            if event.turn == turn or (isinstance(event.body, ThreadLate) and event.body.of == turn):
                fold.event(event)
        found.append(fold.view())
    return found


def entry(seq: int, rev: int, size: int = 1, id: str | None = None) -> Entry:
    nothing: dict[str, Any] = dict.fromkeys(
        ("parent", "name", "title", "started_at", "ended_at", "args", "output", "failure")
    )
    return Entry(
        id=id or f"{seq}.{rev}", seq=seq, rev=rev, kind="note", text="x" * size, status="running", output_bytes=0,
        truncated=False, **nothing,
    )  # fmt: skip


VIEW = TurnView(turn="T", state="completed", seq_first=1, seq_last=9, submitted_at=0)
PLACES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=12).map(sorted)


@given(threads(), st.integers(1, 4))
def test_pages_hold_the_whole_timeline(simulator: Simulator, count: int) -> None:
    """The pages of a snapshot read back are the timeline, whatever it shows, and say where they stand (P9)."""
    for view in traces(simulator):
        with small(count):
            bodies = list(stored_pages(view.turn, view.entries))
        read = [read_page(body, view.turn.turn) for body in bodies]
        assert [one for page in read for one in page.entries] == list(view.entries)
        assert [page.view for page in read] == [view.turn, *[None] * (len(read) - 1)]
        standing = [place for place, _ in places(view.entries)]
        assert all(page.place == standing[page.number] for page in read if page.entries)
        briefs = [brief for body in bodies for brief in read_briefs(body, view.turn.turn).briefs]
        assert [(b.id, b.parent, b.kind, b.mark) for b in briefs] == [
            (e.id, e.parent, e.kind, e.mark) for e in view.entries
        ]
        assert differs(bodies, view) is None


@given(threads(), st.integers(1, 5))
def test_parts_meet(simulator: Simulator, limit: int) -> None:
    """Part by part each entry comes once and in order, and no part is larger than was asked for (P9, P11)."""
    for view in traces(simulator):
        found: list[Entry] = []
        after: bytes | None = None
        while True:
            part = part_of(view.turn, view.entries, None, after, limit)
            found += part.entries
            if part.next is None:
                break
            assert len(part.entries) == limit
            after = part.next
        assert found == list(view.entries)


@given(PLACES, PLACES, st.integers(1, 5), st.sampled_from([1, PAGE_BYTES_MAX // 2 + 1]))
def test_parts_of_a_trace_meet_while_it_grows(
    standing: list[tuple[int, int]], more: list[tuple[int, int]], limit: int, size: int
) -> None:
    """Part by part each entry comes once, also of equal places, and what is added behind while reading comes too."""
    entries = [entry(*place, size, str(at)) for at, place in enumerate(standing)]
    added = sorted((entry(4, 2 + rev, 1, f"+{at}") for at, (_, rev) in enumerate(more)), key=lambda one: one.rev)
    first = part_of(VIEW, entries, None, None, limit)
    found, cursor = list(first.entries), first.next
    whole = [*entries, *added]
    while cursor is not None:
        page = part_of(VIEW, whole, None, cursor, limit)
        assert 1 <= len(page.entries) <= limit
        found, cursor = [*found, *page.entries], page.next
    assert [one.id for one in found] in ([one.id for one in whole], [one.id for one in entries])


@given(PLACES, st.integers(1, 3), st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)))
def test_the_page_of_a_place_is_found_by_halving(
    standing: list[tuple[int, int]], count: int, place: tuple[int, int, int]
) -> None:
    """Nothing at a place or behind it stands before the page that is found for it."""
    entries = [entry(*one) for one in standing]
    with small(count):
        bodies = list(stored_pages(VIEW, entries))
    found = page_of(place, len(bodies), lambda page: read_head(bodies[page], "T"))
    wanted = next((number for number, (at, _) in enumerate(places(entries)) if at >= place), len(entries))
    number = read_head(bodies[found], "T").number
    assert number <= wanted
    assert found == len(bodies) - 1 or wanted <= read_head(bodies[found + 1], "T").number


def test_a_page_is_bounded_in_entries_and_bytes() -> None:
    """A page ends at its number of entries or bytes, whichever comes first; one entry alone may be larger (P11)."""
    many = [entry(seq, 0) for seq in range(1, 2 * SNAPSHOT_PAGE_ENTRIES_MAX + 2)]
    counts = [len(read_page(body, "T").entries) for body in stored_pages(VIEW, many)]
    assert counts == [SNAPSHOT_PAGE_ENTRIES_MAX, SNAPSHOT_PAGE_ENTRIES_MAX, 1]
    large = [entry(1, 0, SNAPSHOT_PAGE_BYTES), entry(2, 0), entry(3, 0), entry(4, 0, SNAPSHOT_PAGE_BYTES - 2_000)]
    assert [len(read_page(body, "T").entries) for body in stored_pages(VIEW, large)] == [1, 3]


def test_an_empty_timeline_is_one_page() -> None:
    """A turn that shows nothing has a snapshot all the same, with its row."""
    [body] = stored_pages(VIEW, ())
    assert read_page(body, "T").view == VIEW
    assert differs([body], TimelineView(turn=VIEW, entries=())) is None


def test_a_difference_is_told_by_its_place() -> None:
    """A snapshot whose row or entries differ from the refold, or that cannot be read, is found out, and where (P9)."""
    entries = tuple(entry(seq, 0) for seq in range(1, 6))
    view = TimelineView(turn=VIEW, entries=entries)
    with small(2):
        bodies = list(stored_pages(VIEW, entries))
        changed = list(stored_pages(VIEW, [*entries[:3], replace(entries[3], text="y"), entries[4]]))
        longer = list(stored_pages(VIEW, [*entries, entry(6, 0)]))
        of_others = list(stored_pages(replace(VIEW, turn="U"), entries))
        other_row = list(stored_pages(replace(VIEW, tools=1), entries))
    assert differs(bodies, view) is None
    assert differs(changed, view) == 3
    assert differs(bodies[:2], view) == 4
    assert differs(longer, view) == 5
    assert differs([bodies[0], bodies[2]], view) == 2
    assert differs([bodies[0], b"no page", bodies[2]], view) == 2
    assert differs([bodies[0], bodies[1][:-1], bodies[2]], view) == 2
    assert differs(of_others, view) == 0
    assert differs(other_row, view) == 0


def test_a_page_of_another_version_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages written by another version are told apart from damage, and differ in nothing: nobody shows them."""
    view = TimelineView(turn=VIEW, entries=(entry(1, 0),))
    [body] = stored_pages(VIEW, view.entries)
    monkeypatch.setattr(pages, "FOLD_VERSION", FOLD_VERSION + 1)
    with pytest.raises(OtherVersion):
        read_page(body, "T")
    assert differs([body], TimelineView(turn=VIEW, entries=())) is None


def test_a_page_of_the_first_version_is_another_version() -> None:
    """A snapshot that was stored before its last page told the trace in numbers is as if it were not there."""
    brief: dict[str, Any] = {"v": 1, "turn": "T", "number": 0, "place": (0, 0, 0), "view": VIEW, "briefs": []}
    head = zlib.compress(encode_json(brief), 1)
    body = b"%d\n" % len(head) + head + zlib.compress(b"[]", 1)
    with pytest.raises(OtherVersion):
        read_page(body, "T")
    assert differs([body], TimelineView(turn=VIEW, entries=(entry(1, 0),))) is None


def test_the_last_page_tells_the_trace_in_numbers() -> None:
    """The last page has the summary of all entries and no other page has one; a wrong one differs (P9)."""
    entries = [replace(entry(seq, 0), kind="tool", status="failed") for seq in range(1, 6)]
    with small(2):
        bodies = list(stored_pages(VIEW, entries))
        wrong = list(stored_pages(VIEW, [replace(entries[0], status="unknown"), *entries[1:]]))
    told = [read_briefs(body, "T").summary for body in bodies]
    assert told == [None, None, summary_of(entries)]
    assert (summary_of(entries).steps, summary_of(entries).failures) == (5, 5)
    assert differs([*bodies[:2], wrong[2]], TimelineView(turn=VIEW, entries=tuple(entries))) == 5


def test_a_page_does_not_unpack_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that claims more bytes than any page has is damaged (P11)."""
    monkeypatch.setattr(pages, "SNAPSHOT_BODY_BYTES_MAX", 1_000)
    bomb = zlib.compress(b" " * 10_000)
    with pytest.raises(RecordDamaged):
        read_page(b"%d\n" % len(bomb) + bomb, "T")


@pytest.mark.parametrize("after", [b"", b"1.2", b"1.2.x", b"-1.0.0", b"1.2.3.4", b"9" * 30 + b".0.0", b"1. 2.3"])
def test_a_cursor_that_nobody_was_given_is_refused(after: bytes) -> None:
    """What is not the `next` of a timeline is named as invalid input."""
    with pytest.raises(InvalidInput):
        place_of(after)


@given(threads())
def test_the_same_timeline_gives_the_same_pages(simulator: Simulator) -> None:
    """Who makes a snapshot twice, or in two processes, writes the same bytes."""
    for view in traces(simulator):
        assert list(stored_pages(view.turn, view.entries)) == list(stored_pages(view.turn, iter(view.entries)))


def test_another_fold_is_another_version() -> None:
    """What a timeline shows of the same events is of the version that pages tell: both change, or neither.

    When this fails because of a change that was meant, raise `FOLD_VERSION` and put the new digest beside it.
    """
    sim = Simulator()
    sim.submit()
    sim.start()
    sim.reasoning("Hm.", "r")
    sim.draft("dropped")
    sim.drop_attempt()
    sim.call("c", "i")
    sim.output("c", "\x00 \ud800")
    sim.step("A", step="subagent", name="reader", status="running")
    sim.step("b", step="tool", parent="A", args={"path": "x"}, status="failed", usage={"in": 10**30})
    sim.call("unanswered")
    sim.draft("half")
    sim.request()
    sim.interrupt()
    sim.late("too late")
    [view] = traces(sim)
    shown = hashlib.sha256(encode_json([view.turn, view.entries])).hexdigest()[:16]
    assert (FOLD_VERSION, shown) == (2, "f5204f0914e7047e")
