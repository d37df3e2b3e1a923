"""Pages of settled turns are the same from their snapshots as from their events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.folds.simulate import Frame, Simulator, events_of, reworked, threads
from tests.journal.stores import Store, eventually, message
from tests.journal.test_reading import Keeper
from tests.journal.test_snapshots import settled, stored, working
from tests.journal.test_traces import keep
from tests.web.page.test_frames import fresh, html
from turnlog.engines.protocol import Phase
from turnlog.events.codec import decode_body
from turnlog.events.kinds import Event, ThreadLate
from turnlog.folds import summary
from turnlog.folds.turn import decode_view
from turnlog.journal import gists, reading
from turnlog.journal.gists import Gist
from turnlog.journal.log import Log
from turnlog.journal.records import read_events
from turnlog.journal.traces import fold_settled
from turnlog.testing.clock import ManualClock
from turnlog.web.page import thread_view
from turnlog.web.page.markup import page_html
from turnlog.web.page.thread_view import load
from turnlog.web.page.turn_page import trace_rows, turn_page
from turnlog.web.page.view import TurnSource


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(request.param, tmp_path) as opened:
        yield opened


@contextmanager
def opened(frames: Sequence[Frame], keeping: Sequence[bool] | None = None) -> Iterator[Log]:
    """A log of these frames, in which settled turns have snapshots, however short they are; of `keeping`, each in turn
    tells whether the next one has."""
    keeper = Keeper()
    keeper.keep(frames)
    rows = keeper.engine.turns(thread="t", limit=1_000).rows
    for number, row in enumerate(row for row in rows if row.phase is Phase.SETTLED):
        if keeping is None or keeping[number % len(keeping)]:
            keep(keeper.engine, row, fold_settled(keeper.engine, row, decode_view(row.fold)))
    with pytest.MonkeyPatch.context() as patch:
        for module in (reading, thread_view):
            patch.setattr(module, "SNAPSHOT_EVENTS_MIN", 1)
        with Log(keeper.engine, clock=ManualClock()) as log:
            yield log


def folded(frames: Sequence[Frame], turn: str, seq_first: int) -> TurnSource:
    source = TurnSource(turn, seq_first)
    for event in events_of(frames):
        if event.turn == turn or (isinstance(event.body, ThreadLate) and event.body.of == turn):
            source.event(event)
    return source


def told(gist: Gist) -> TurnSource:
    source = TurnSource(gist.view.turn, gist.view.seq_first)
    source.tell(gist)
    return source


def check(frames: Sequence[Frame], count: int) -> None:
    """Each settled turn has a gist, which gives what its events give."""
    with opened(frames) as log:
        rows = log.turns("t", limit=100).rows
        gists = [gist for row in rows if (gist := log.gist("t", row.turn)) is not None]
        assert len(gists) == count
        for gist in gists:
            one, other = told(gist), folded(frames, gist.view.turn, gist.view.seq_first)
            assert one.view() == other.view()
            assert (one.touched, one.open, one.waiting) == (other.touched, other.open, other.waiting)
        assert html(load(log, "t")) == html(fresh(frames))
        assert load(log, "t").head == fresh(frames).head


@settings(max_examples=60, deadline=None)
@given(st.one_of(threads(), reworked()))
def test_a_gist_gives_what_the_events_give(thread: Simulator) -> None:
    """Turns interrupted, retried, taken back, with drafts and late events: from their snapshots their sections are
    those that are made of all events (P9)."""
    check(thread.frames, len(thread.settled))


@settings(max_examples=40, deadline=None)
@given(reworked(), st.lists(st.booleans(), min_size=1, max_size=3))
def test_some_have_snapshots(thread: Simulator, keeping: list[bool]) -> None:
    """A page where some turns have a snapshot, and others are folded between them, is the page of all events (P9)."""
    with opened(thread.frames, keeping) as log:
        if log.thread("t").latest is not None or log.turns("t").rows:
            assert html(load(log, "t")) == html(fresh(thread.frames))


@settings(max_examples=40, deadline=None)
@given(st.one_of(threads(), reworked()), st.data())
def test_a_turns_own_page_is_the_same(thread: Simulator, data: st.DataObject) -> None:
    """A turn's own page is equal with its snapshot and without one (P9)."""
    turn = data.draw(st.sampled_from(sorted(thread.begun_at)) if thread.begun_at else st.nothing())
    pages = []
    for keeping in ([False], [True]):
        with opened(thread.frames, keeping) as log:
            page = turn_page(log, "t", turn, 0)
            html_, at = page_html([page.section]), page.at.rpartition(".")[2]
            pages.append((html_, at, page.pages, page.running, page.hidden, page.text))
    assert pages[0] == pages[1]


def strange(sim: Simulator, turn: str, kind: str, data: bytes) -> None:
    """A record in a turn that this version does not know, or that cannot be read."""
    sim.head += 1
    body = decode_body(kind, 1, data)
    sim.frames.append(Event(thread="t", seq=sim.head, turn=turn, at=sim.clock, kind=kind, body=body, data=data))


def test_records_that_cannot_be_read_are_told() -> None:
    """Records in a turn that are damaged, of unknown kinds or no JSON have their notices, from a snapshot too (P4)."""
    sim = Simulator()
    turn = sim.submit()
    sim.start()
    strange(sim, turn, "news", b"{}")
    sim.call("c", "i")
    strange(sim, turn, "step", b"no JSON")
    strange(sim, turn, "item", b'{"type":"message"}\nno JSON')
    sim.message("hello")
    sim.interrupt()
    check(sim.frames, 1)
    with opened(sim.frames) as log:
        assert page_html(load(log, "t").elements()).count("A record here ") == 3


def test_a_record_behind_the_end_is_folded() -> None:
    """A turn of which something that is not known stands behind its end has no gist: its events tell all (P4)."""
    sim = Simulator()
    turn = sim.submit()
    sim.start()
    sim.message("hello")
    sim.complete()
    strange(sim, turn, "news", b"{}")
    check(sim.frames, 0)


def test_what_says_too_much_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of more messages than a snapshot names is folded, and shows them all (P11)."""
    monkeypatch.setattr(summary, "SAID_EVENTS_MAX", 3)
    sim = Simulator()
    sim.submit()
    sim.start()
    for number in range(4):
        sim.message(f"message {number}")
    sim.complete()
    check(sim.frames, 0)


def between(*, known: bool) -> Simulator:
    """Of one turn, with others in between, and what belongs to none; and a record of none that is not known."""
    sim = Simulator()
    sim.submit("first")
    sim.start()
    sim.call("c", "i")
    sim.submit("second")
    sim.loose("assistant", "aside")
    sim.output("c")
    if not known:
        sim.head += 1
        body: Any = decode_body("thread_news", 1, b"{}")
        sim.frames.append(
            Event(thread="t", seq=sim.head, turn=None, at=sim.clock, kind="thread_news", body=body, data=b"{}")
        )
    sim.message("one")
    sim.interrupt()
    sim.retry()
    sim.start()
    sim.message("two")
    sim.late("late")
    sim.complete()
    return sim


@pytest.mark.parametrize("known", [True, False])
def test_what_lies_between_is_found(known: bool) -> None:
    """What other turns and nobody's turn have between the events of a long one is all shown, known or not (P1, P9)."""
    check(between(known=known).frames, 2)


def test_where_much_lies_between_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more lies between than is found one by one, the page is made of all events (P9)."""
    monkeypatch.setattr(gists, "READ_EVENTS_MAX", 1)
    check(between(known=True).frames, 2)


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["thread", "turn"])
def test_a_page_reads_few_events(store: Store, page: str) -> None:
    """However long a settled turn is, the pages that show it read its snapshot and some events, not all (P11)."""
    engine = store.engine()
    log = store.open()
    settled(log, calls=300)
    eventually(lambda: stored(engine) is not None)
    log.rename("t", "title").result()
    faults = store.faults(log)
    read: list[Event] = []

    def counted(*given: Any, **more: Any) -> Iterator[Event]:
        for event in read_events(*given, **more):
            read.append(event)
            yield event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_events", counted)
        patch.setattr(gists, "read_events", counted)
        events_read = faults.traps.set("read.before", lambda place: None, forever=True)
        shown = load(log, "t").elements() if page == "thread" else [turn_page(log, "t", "T", 0).section]
    assert "300 steps" in page_html(shown)
    assert len(read) <= 8
    assert events_read.fired <= 12


def test_a_page_asks_for_a_snapshot(store: Store) -> None:
    """A thread whose newest turns have no snapshots that can be read is shown all the same, and then they are made."""
    engine = store.engine()
    log = store.open()
    settled(log)
    eventually(lambda: stored(engine) is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnlog.folds.pages.FOLD_VERSION", 1_000)
        old = stored(engine)
        assert "3 steps" in page_html(load(log, "t").elements())
        eventually(lambda: stored(engine) not in (None, old))


def test_what_comes_late_is_told_once(store: Store) -> None:
    """What came after the end of a turn is told once on its pages, whether its snapshot knows of it or not (P5)."""
    engine = store.engine()
    log = store.open()
    turn = settled(log)
    eventually(lambda: stored(engine) is not None)
    turn.item(message("too late")).result()
    for made in (False, True):
        if made:
            eventually(lambda: stored(engine) is not None)
        for elements in (load(log, "t").elements(), [turn_page(log, "t", "T", 0).section]):
            assert page_html(elements).count("Something came after this turn had ended.") == 1


def test_an_open_turn_has_no_gist(store: Store) -> None:
    """A turn that has not settled is folded."""
    log = store.open()
    working(log)
    assert log.gist("t", "T") is None


@settings(max_examples=40, deadline=None)
@given(threads())
def test_the_page_of_an_open_turn_has_its_rows(thread: Simulator) -> None:
    """A turn's own page, which folds an open turn once, shows the rows that its trace has (P9)."""
    with opened(thread.frames, [False]) as log:
        for turn in thread.begun_at:
            whole = page_html([turn_page(log, "t", turn, 0).section])
            assert all(page_html([row]) in whole for row in trace_rows(log, "t", turn))
