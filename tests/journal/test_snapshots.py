"""Snapshots of settled turns: made beside the writer, of nothing else, and never what hides a turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.stores import Store, call, eventually, message, output, unavailable
from turnlog.engines.protocol import Engine, Phase, SnapshotPart, TurnRow, Write
from turnlog.folds import pages
from turnlog.folds.entries import TimelineView
from turnlog.folds.pages import differs
from turnlog.folds.turn import decode_view
from turnlog.journal import snapshots
from turnlog.journal.log import Log
from turnlog.journal.traces import covered, fold_settled
from turnlog.journal.turn import Turn
from turnlog.limits import QUEUE_TURNS_MAX, SNAPSHOTS_KEPT


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(request.param, tmp_path) as opened:
        yield opened


def working(log: Log, turn: str = "T", calls: int = 3, thread: str = "t") -> Turn:
    """A turn that has called something."""
    begun = log.submit(thread, "question", turn=turn).result()
    begun.start(agent="a").result()
    for number in range(calls):
        begun.item(call(f"{turn}-{number}")).result()
        begun.item(output(f"{turn}-{number}", f"found {number}")).result()
    return begun


def settled(log: Log, turn: str = "T", calls: int = 3, thread: str = "t") -> Turn:
    done = working(log, turn, calls, thread)
    done.item(message("answer")).result()
    done.complete().result()
    return done


def row_of(engine: Engine, turn: str = "T", thread: str = "t") -> TurnRow:
    return engine.turns(thread=thread, turn=turn, limit=1).rows[0]


def stored(engine: Engine, turn: str = "T", thread: str = "t") -> list[bytes] | None:
    """The pages of a turn's snapshot; None when there is no whole one of what is stored of it now."""
    first = engine.snapshot(thread, turn)
    row = row_of(engine, turn, thread)
    if first is None or first.seq != covered(row, decode_view(row.fold)):
        return None
    found = [engine.snapshot(thread, turn, page=page) for page in range(first.pages)]
    assert all(page is not None for page in found)
    return [page.body for page in found if page is not None]


def refolded(engine: Engine, turn: str = "T", thread: str = "t") -> TimelineView:
    row = row_of(engine, turn, thread)
    return fold_settled(engine, row, decode_view(row.fold))


def agree(log: Log, engine: Engine, turn: str = "T") -> None:
    """What is read is the refold, whole and in parts; and so is the snapshot, if there is one."""
    fold = refolded(engine, turn)
    assert log.timeline("t", turn) == fold
    found, after = list[object](), None
    while True:
        part = log.timeline_page("t", turn, limit=2, after=after)
        found += part.entries
        after = part.next
        if after is None:
            break
    assert (part.turn, found) == (fold.turn, list(fold.entries))
    bodies = stored(engine, turn)
    assert bodies is None or differs(bodies, fold) is None


# --- who gets one --------------------------------------------------------------------------------------------------


def test_a_settled_turn_gets_a_snapshot(store: Store) -> None:
    """Once a turn has settled and the writer rests, its timeline is stored, equal to its refold (P9)."""
    engine = store.engine()
    log = store.open()
    settled(log)
    eventually(lambda: stored(engine) is not None)
    agree(log, engine)


def test_an_open_turn_has_none(store: Store) -> None:
    """A snapshot is of a turn that has settled: while it is open none is made, whoever asks (P9)."""
    engine = store.engine()
    log = store.open()
    turn = working(log)
    log._writer.refolded("t", "T")
    settled(log, "other", thread="u")
    log._writer.refolded("u", "other")
    eventually(lambda: stored(engine, "other", "u") is not None)
    assert engine.snapshot("t", "T") is None
    turn.complete().result()
    eventually(lambda: stored(engine) is not None)


def test_a_turn_that_called_nothing_has_none(store: Store) -> None:
    """A question with its answer is folded again as quickly as it is read: no disk is spent on it."""
    engine = store.engine()
    log = store.open()
    settled(log, "plain", calls=0)
    log.timeline("t", "plain")
    settled(log)
    eventually(lambda: stored(engine) is not None)
    assert engine.snapshot("t", "plain") is None


def test_the_newest_turns_of_a_thread_are_kept(store: Store) -> None:
    """Of a thread the newest settled turns have snapshots; older ones are folded again and show the same (P9, P11)."""
    engine = store.engine()
    log = store.open()
    names = [f"T{number}" for number in range(SNAPSHOTS_KEPT + 3)]
    for name in names:
        settled(log, name, calls=1)
        eventually(lambda name=name: stored(engine, name) is not None)  # type: ignore[misc]
    for name in names:
        agree(log, engine, name)
    settled(log, "last", thread="u")
    eventually(lambda: stored(engine, "last", "u") is not None)  # whatever reading asked for has been looked at
    kept = [name for name in names if engine.snapshot("t", name) is not None]
    assert kept == names[-SNAPSHOTS_KEPT:]


def test_turns_that_wait_take_no_place(store: Store) -> None:
    """The newest settled turns are kept, however many open ones were submitted after them (P11)."""
    engine = store.engine()
    log = store.open()
    working(log)
    log.close()  # which settles it
    log = store.open()
    for number in range(QUEUE_TURNS_MAX):
        log.submit("t", "later", turn=f"W{number}", when_busy="queue").result()
    log.timeline("t", "T")
    eventually(lambda: stored(engine) is not None)


def test_a_turn_settled_by_recovery_gets_one(store: Store) -> None:
    """A dead writer's turn is kept like any other once recovery has settled it."""
    engine = store.engine()
    log = store.open()
    working(log)
    store.kill(log)
    log = store.open()
    assert [turn.turn for turn in log.recovered] == ["T"]
    eventually(lambda: stored(engine) is not None)
    agree(log, engine)


def test_a_turn_that_had_to_be_folded_gets_one(store: Store) -> None:
    """A log that is closed at once makes no snapshot; the first reader of the turn gets it made for the next."""
    engine = store.engine()
    log = store.open()
    working(log)
    log.close()  # which settles it
    log = store.open()
    assert stored(engine) is None
    assert log.timeline("t", "T") == refolded(engine)
    eventually(lambda: stored(engine) is not None)


# --- what is served --------------------------------------------------------------------------------------------------


def test_a_late_event_is_shown_at_once(store: Store) -> None:
    """What came after the end is in the trace from the moment it is stored, and soon in the snapshot (P5, P9, C41)."""
    engine = store.engine()
    log = store.open()
    turn = settled(log)
    eventually(lambda: stored(engine) is not None)
    seq = turn.item(message("too late")).result()
    assert log.timeline("t", "T").entries[-1].seq == seq
    assert log.timeline_page("t", "T", limit=1_000).entries[-1].mark == "late"
    eventually(lambda: stored(engine) is not None)
    agree(log, engine)


def test_an_older_snapshot_is_not_served(store: Store) -> None:
    """A snapshot that covers less than the turn's row says is as if it were not there (P9, C41)."""
    engine = store.engine()
    log = store.open()
    turn = settled(log)
    eventually(lambda: stored(engine) is not None)
    first = engine.snapshot("t", "T")
    assert first is not None
    turn.item(message("too late")).result()
    eventually(lambda: stored(engine) is not None)
    part = SnapshotPart(seq=first.seq, first=0, pages=(first.body,), last=True, keep=SNAPSHOTS_KEPT)
    engine.commit([Write(thread="t", turn="T", snapshot=part)])
    assert log.timeline("t", "T").entries[-1].mark == "late"
    eventually(lambda: stored(engine) is not None)


def test_a_snapshot_of_another_version_is_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of another fold is not shown; the turn is folded, and its snapshot replaced."""
    engine = store.engine()
    log = store.open()
    settled(log)
    eventually(lambda: stored(engine) is not None)
    old = stored(engine)
    monkeypatch.setattr(pages, "FOLD_VERSION", 1_000)
    assert log.timeline("t", "T") == refolded(engine)
    eventually(lambda: stored(engine) not in (None, old))
    agree(log, engine)


def test_a_damaged_snapshot_hides_nothing(store: Store) -> None:
    """Where a page of a snapshot cannot be read the turn is folded again, and shows all it has (P4)."""
    engine = store.engine()
    log = store.open()
    settled(log, calls=5)
    eventually(lambda: stored(engine) is not None)
    first = engine.snapshot("t", "T")
    assert first is not None
    part = SnapshotPart(seq=first.seq, first=0, pages=(first.body[:-3],), last=True, keep=SNAPSHOTS_KEPT)
    engine.commit([Write(thread="t", turn="T", snapshot=part)])
    agree_whole = refolded(engine)
    assert log.timeline("t", "T") == agree_whole
    assert log.timeline_page("t", "T", limit=1_000).entries == agree_whole.entries


def test_parts_are_the_same_with_and_without_a_snapshot(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part and its cursor are equal, whether they come from pages or from a refold, and pages meet (P9)."""
    monkeypatch.setattr(pages, "SNAPSHOT_PAGE_ENTRIES_MAX", 3)
    engine = store.engine()
    log = store.open()
    settled(log, calls=11)
    eventually(lambda: stored(engine) is not None)
    fold = refolded(engine)
    for limit in (1, 2, 3, 4, 7, 100):
        after = None
        while True:
            expected = pages.part_of(fold.turn, fold.entries, None, after, limit)
            assert log.timeline_page("t", "T", limit=limit, after=after) == expected
            after = expected.next
            if after is None:
                break
    numbers = [11, 0, 7, 3]
    assert list(log.timeline_rows("t", "T", lambda briefs: numbers)) == [fold.entries[number] for number in numbers]


def test_a_part_reads_few_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part behind a cursor is found without reading the whole snapshot, and without reading events (P11)."""
    monkeypatch.setattr(pages, "SNAPSHOT_PAGE_ENTRIES_MAX", 1)
    engine = store.engine()
    log = store.open()
    settled(log, calls=100)
    eventually(lambda: stored(engine) is not None)
    after = log.timeline_page("t", "T", limit=90).next
    faults = store.faults(log)
    pages_read = faults.traps.set("snapshot.before", lambda place: None, forever=True)
    events_read = faults.traps.set("read.before", lambda place: None, forever=True)
    part = log.timeline_page("t", "T", limit=2, after=after)
    assert len(part.entries) == 2
    assert pages_read.fired <= 14
    assert events_read.fired == 0


# --- what may go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
def test_dying_while_it_is_written_leaves_no_half_told_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, k: int, place: str
) -> None:
    """Whichever of its writes is the last one that a process makes, the snapshot is whole or not there (P9)."""
    monkeypatch.setattr(pages, "SNAPSHOT_PAGE_ENTRIES_MAX", 2)
    monkeypatch.setattr(snapshots, "SNAPSHOT_WRITE_BYTES", 1)
    engine = store.engine()
    log = store.open()
    turn = working(log, calls=9)
    turn.item(message("answer")).result()
    died = store.faults(log).fail(place, unavailable, k=k + 1, forever=True)  # the first one settles the turn
    turn.complete().result()
    eventually(lambda: died.fired > 0 or stored(engine) is not None)
    store.kill(log)
    log = store.open()
    agree(log, engine)
    eventually(lambda: stored(engine) is not None)
    agree(log, engine)


def test_a_store_that_refuses_a_snapshot_takes_turns_all_the_same(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A snapshot that cannot be stored is told in the diagnostic log and left out; nothing else is touched by it."""
    caplog.set_level(logging.INFO, "turnlog")
    engine = store.engine()
    log = store.open()
    turn = working(log)
    failing = store.faults(log).fail("commit.before", unavailable, k=2)
    turn.complete().result()
    eventually(lambda: failing.fired > 0)
    eventually(lambda: "snapshots were not stored" in caplog.text)
    settled(log, "next")
    eventually(lambda: stored(engine, "next") is not None)
    assert row_of(engine).phase is Phase.SETTLED


def test_closing_does_not_wait_for_a_snapshot(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is closed while a snapshot is being made: that stops where it is, and nothing is stored of it."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_PIECE_S", 0.0)
    monkeypatch.setattr(snapshots, "SNAPSHOT_PAUSE_S", 1_000.0)  # each event is followed by an endless rest
    engine = store.engine()
    log = store.open()
    settled(log)
    eventually(lambda: log._writer._upkeep.snapshots._waiting == {})
    log.close()
    assert engine.snapshot("t", "T") is None


def test_no_more_than_a_bounded_number_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When too many turns wait for their snapshots, the others get none, and are served all the same (P11)."""
    monkeypatch.setattr(snapshots, "SNAPSHOTS_WAITING_MAX", 2)
    engine = store.engine()
    log = store.open()
    with store.faults(log).hold("snapshot.before") as hold:
        for number in range(5):
            thread = f"t{number}"
            turn = working(log, thread=thread)
            turn.complete().result()
            if number == 0:
                hold.wait_held()
        assert len(log._writer._upkeep.snapshots._waiting) == 2
    eventually(lambda: sum(engine.snapshot(f"t{number}", "T") is not None for number in range(5)) == 3)
    assert all(len(log.timeline(f"t{number}", "T").entries) == 3 for number in range(5))


def test_two_logs_that_make_it_at_once_leave_a_whole_one(store: Store) -> None:
    """Two processes that make the same snapshot write the same pages: what is stored is one whole snapshot."""
    engine = store.engine()
    one, two = store.open(), store.open()
    settled(one)
    two._writer.refolded("t", "T")
    eventually(lambda: stored(engine) is not None)
    for log in (one, two):
        log.close()
    bodies = stored(engine)
    assert bodies is not None and differs(bodies, refolded(engine)) is None


def test_a_snapshot_is_no_news(store: Store) -> None:
    """Storing it changes neither the thread's head nor its place in the list, and wakes nobody."""
    engine = store.engine()
    log = store.open()
    settled(log)
    before = engine.threads(limit=10).rows
    _, position = engine.changes(b"", 0)
    eventually(lambda: stored(engine) is not None)
    assert engine.threads(limit=10).rows == before
    assert engine.changes(position, 0)[0] == []
