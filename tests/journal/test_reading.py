"""Reading views: pages lose nothing between them, damage hides no neighbour, bad places are refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.folds.simulate import Frame, Simulator, events_of, threads, whole_drafts
from tests.journal.stores import Store, message
from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.engines.protocol import Chunk, Claim, Done, Phase, Record, ThreadRow, TurnRow, Write
from turnlog.errors import CursorUnprovable, InvalidInput, RecordDamaged, UnknownTurn
from turnlog.events.ids import text_bytes
from turnlog.events.kinds import Event, Submitted, ThreadLate
from turnlog.folds.states import STARTED
from turnlog.folds.thread import ThreadFold, encode_thread_fold, fold_thread
from turnlog.folds.transcript import transcript
from turnlog.folds.turn import TurnFold, encode_view, fold_turn
from turnlog.journal.log import Log
from turnlog.journal.reading import Reading, TranscriptPage
from turnlog.testing.clock import ManualClock

# --- pages -----------------------------------------------------------------------------------------------------------


class Keeper:
    """Keeps a simulated thread in an engine, one write a frame."""

    def __init__(self) -> None:
        self.engine = MemoryEngine(MemoryStore(), ManualClock())
        self.engine.lease("o", 30)
        self._thread = ThreadFold()
        self._turns: dict[str, TurnFold] = {}
        self._drafts: set[tuple[str, str]] = set()

    def keep(self, frames: Sequence[Frame]) -> Reading:
        for frame in frames:
            write = self._event(frame) if isinstance(frame, Event) else self._chunk(frame)
            [outcome] = self.engine.commit([write])
            assert isinstance(outcome, Done)
        return Reading(self.engine)

    def _event(self, event: Event) -> Write:
        self._thread = fold_thread(self._thread, event)
        late = event.body.of if isinstance(event.body, ThreadLate) else None
        turn = event.turn or late
        if event.turn is not None:
            fold = fold_turn(self._turns.get(event.turn), event)
            assert fold is not None
            self._turns[event.turn] = fold
        elif late is not None:
            view = self._turns[late].view
            self._turns[late].view = replace(view, late=[*view.late, event.seq])
        fields = {name: getattr(event, name) for name in ("seq", "turn", "at", "v", "kind")}
        return Write(
            thread="t",
            base=event.seq - 1,
            turn=turn,
            claim=Claim(owner="o") if isinstance(event.body, Submitted) else None,
            events=(Record(body=event.data, **fields),),
            turn_row=None if turn is None else self._row(turn),
            thread_row=ThreadRow(thread="t", updated_at=event.at, fold=encode_thread_fold(self._thread)),
            drop=tuple(closed.draft for closed in getattr(event.body, "closes", ())),
        )

    def _row(self, turn: str) -> TurnRow:
        view = self._turns[turn].view
        settled = Phase.SETTLED if view.settled_at is not None else Phase.SUBMITTED
        return TurnRow(
            thread="t",
            turn=turn,
            digest="d",
            retry_of=view.retry_of,
            phase=Phase.STARTED if view.state in STARTED else settled,
            seq_first=view.seq_first,
            seq_last=view.seq_last,
            fold=encode_view(view),
        )

    def _chunk(self, draft: Any) -> Write:
        known = (draft.turn, draft.draft) in self._drafts
        self._drafts.add((draft.turn, draft.draft))
        after, rev = (draft.after, draft.rev) if known else (0, 0)
        text = text_bytes(draft.text)
        chunk = Chunk(turn=draft.turn, draft=draft.draft, after=after, rev=rev, offset=draft.offset, text=text)
        return Write(thread="t", turn=draft.turn, chunks=(chunk,))


def pages(read: Callable[[bytes | None], TranscriptPage]) -> list[TranscriptPage]:
    """All pages of a transcript, the oldest first."""
    found: list[TranscriptPage] = []
    before = None
    while True:
        found.insert(0, read(before))
        before = found[0].next
        if before is None:
            return found


def check_pages(simulator: Simulator, limit: int) -> None:
    reading = Keeper().keep(simulator.frames)
    whole = transcript(events_of(simulator.frames), whole_drafts(simulator.frames))
    found = pages(lambda before: reading.transcript("t", limit, before))
    assert [message for page in found for message in page.messages] == list(whole.messages)
    notices = [notice for page in found for notice in page.notices]
    assert sorted(notices, key=repr) == sorted(whole.notices, key=repr)
    assert {page.at for page in found} == {f"{reading._engine.epoch}.{simulator.head}"}
    assert max(len(page.turns) for page in found) <= limit
    assert max(sum(it.turn is None for it in page.messages) for page in found) <= limit


@given(threads(), st.integers(1, 4))
def test_pages_are_the_whole(simulator: Simulator, limit: int) -> None:
    """P4, P9: whatever waited, overlapped, came late or was retried, the pages together are the transcript, once."""
    check_pages(simulator, limit)


@given(st.lists(st.sampled_from(["turn", "loose", "loose", "loose"]), max_size=40), st.integers(1, 4))
def test_messages_without_a_turn_bound_a_page(written: list[str], limit: int) -> None:
    """P4, P11: a page has no more of them, and of turns, than were asked for, and the pages together are the whole."""
    simulator = Simulator()
    for number, what in enumerate(written):
        if what == "turn":
            simulator.submit(f"{number}")
        else:
            simulator.loose("assistant", f"{number}")
    if written:
        check_pages(simulator, limit)


def test_a_place_before_all_turns_stays_one(log: Log) -> None:
    """P4, P9: pages that were begun with no turn on the newest one go on as they were while turns are submitted."""
    log.submit("t", "old").result().interrupt("failed").result()
    for number in range(5):
        log.append_message("t", message(f"{number}")).result()
    page = log.transcript("t", limit=2)
    assert [found.text for found in page.messages] == ["3", "4"]
    for text in ("new", "newer", "newest"):
        log.submit("t", text).result().interrupt("failed").result()
    older = pages(lambda before: log.transcript("t", limit=2, before=before or page.next))
    assert [found.text for page in older for found in page.messages] == ["old", "0", "1", "2"]
    assert [view.preview for page in older for view in page.turns] == ["old"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_turn_that_goes_on_beyond_its_page_is_whole(limit: int) -> None:
    """P4: a turn that still writes, or is asked again, while later ones wait has question and answer on one page."""
    simulator = Simulator()
    simulator.submit("one")
    simulator.start()
    simulator.submit("two")
    simulator.loose("assistant", "aside")
    simulator.submit("three")
    simulator.message("one!")
    simulator.interrupt()
    simulator.late("too late")
    simulator.start()
    simulator.message("two!")
    simulator.complete()
    simulator.retry()
    simulator.start()
    simulator.draft("three, so far")
    check_pages(simulator, limit)


def test_a_turn_submitted_while_a_page_is_read_is_on_it_once(store: Store, log: Log) -> None:
    """P4, P9: turns that come while the newest page is read are on it or beyond its cursor, and on no other page."""
    with log.turn("t", "first"):
        pass
    other = store.open()

    def more(_: object) -> None:
        for text in ("second", "third"):
            with log.turn("t", text):
                pass

    store.faults(other).traps.set("turns.before", more)
    page = other.transcript("t", limit=1)
    seen = [found.text for found in page.messages]
    older = other.transcript("t", limit=9, before=page.next)
    assert (seen, [found.text for found in older.messages]) == (["third"], ["first", "second"])
    assert page.at == f"{log.epoch}.{log.thread('t').head}"


# --- damage ----------------------------------------------------------------------------------------------------------


def fill(log: Log) -> str:
    """Two threads; of `t` the second turn has a step, a late item and usage. Gives that turn."""
    with log.turn("t", "one", key="k1") as turn:
        turn.item(message("one!"))
    with log.turn("t", "two", key="k2", agent="mine") as turn:
        turn.step("s", kind="tool", status="failed", usage={"input": 3})
        turn.item(message("two!"))
    turn.item(message("late")).result()
    with log.turn("t", "three") as last:
        last.item(message("three!"))
    with log.turn("u", "elsewhere"):
        pass
    return turn.id


def damage(path: Path, sql: str, *values: str) -> None:
    """Change a store that nobody has open."""
    with sqlite3.connect(path) as db:
        assert db.execute(sql, [value.encode() for value in values]).rowcount == 1
    db.close()


@pytest.fixture
def closed(tmp_path: Path) -> Callable[[], Store]:
    return lambda: Store("sqlite", tmp_path)


@pytest.mark.parametrize("fold", ["x'00'", "CAST('{}' AS BLOB)", "x''"])
def test_a_damaged_turn_row_hides_nothing(closed: Callable[[], Store], fold: str) -> None:
    """P4: a turn row that cannot be read is made again from its events and marked; its neighbours are as before."""
    with closed() as store:
        log = store.open()
        turn = fill(log)
        rows, page, timeline = log.turns("t").rows, log.transcript("t"), log.timeline("t", turn)
    damage(store.path, f"UPDATE turn SET fold = {fold} WHERE turn = ?", turn)
    with closed() as store:
        log = store.open()
        marked = tuple(replace(row, damaged=row.turn == turn) for row in rows)
        assert marked[1].late
        assert log.turns("t").rows == marked
        assert log.turn_view("t", turn) == marked[1]
        assert log.transcript("t") == replace(page, turns=marked)
        assert log.timeline("t", turn) == timeline


def test_a_damaged_thread_row_hides_nothing(closed: Callable[[], Store]) -> None:
    """P4: a thread row that cannot be read is made again from its events and marked; all threads are listed."""
    with closed() as store:
        log = store.open()
        fill(log)
        rows = log.threads().rows
    damage(store.path, "UPDATE thread SET fold = x'00' WHERE thread = ?", "t")
    with closed() as store:
        log = store.open()
        assert log.threads().rows == tuple(replace(row, damaged=row.thread == "t") for row in rows)
        assert log.thread("t").damaged


def test_a_turn_row_without_any_record_says_what_its_columns_tell(closed: Callable[[], Store]) -> None:
    """P3, P4: of a turn whose row and records are gone the list still tells that it was there, and its trace raises."""
    with closed() as store:
        turn = fill(store.open())
    damage(store.path, "UPDATE turn SET fold = x'00' WHERE turn = ?", turn)
    with sqlite3.connect(store.path) as db:
        db.execute("DELETE FROM event WHERE id >> 20 = (SELECT id FROM turn WHERE turn = ?)", [turn.encode()])
    db.close()
    with closed() as store:
        log = store.open()
        row = log.turns("t").rows[1]
        assert (row.turn, row.damaged) == (turn, True)
        assert [found.text for found in log.transcript("t").messages] == ["one", "one!", "three", "three!"]
        with pytest.raises(RecordDamaged):
            log.timeline("t", turn)


# --- places ----------------------------------------------------------------------------------------------------------

LONG = "9" * 5_000


@pytest.mark.parametrize("after", [-1, 2**63, 2**70, -(2**70)])
def test_a_place_that_no_event_has_is_refused(log: Log, after: int) -> None:
    """Events after a number that is no seq are refused by name, on every engine."""
    fill(log)
    with pytest.raises(InvalidInput, match="after"):
        log.events("t", after=after)
    with pytest.raises(CursorUnprovable):
        log.follow("t", after)


def test_a_cursor_of_any_length_is_refused(log: Log) -> None:
    """C40: a cursor or place that is longer than any number is unprovable or invalid, never an error of Python."""
    fill(log)
    for cursor in (f"{log.epoch}.{LONG}", f"{log.epoch}.{2**63}", LONG, f"{log.epoch}.-1", f"{log.epoch}.१", "."):
        with pytest.raises(CursorUnprovable):
            log.follow("t", cursor)
    for before in (LONG.encode(), f"{LONG}:".encode(), f"{2**63}:x".encode(), b"\xff:", b"", b"-1:x", "१:".encode()):
        with pytest.raises(InvalidInput, match="before"):
            log.transcript("t", before=before)
    with pytest.raises(InvalidInput, match="before"):
        log.transcript("t", before=5)  # type: ignore[arg-type]
    for limit in (0, -1, 1.5, None, True, "9"):
        with pytest.raises(InvalidInput, match="limit"):
            log.transcript("t", limit=limit)  # type: ignore[arg-type]


def test_events_and_history_of_an_unknown_turn_are_refused(log: Log) -> None:
    """A turn that there is not is unknown, and not the same as no turn named."""
    fill(log)
    with pytest.raises(UnknownTurn):
        log.events("t", turn="nobody")
    with pytest.raises(UnknownTurn):
        log.history("t", until="nobody")


def test_an_unknown_profile_is_refused(log: Log) -> None:
    """A history of a profile that there is not is refused by name."""
    fill(log)
    with pytest.raises(InvalidInput, match="profile"):
        log.history("t", "everything")  # type: ignore[arg-type]
    assert json.loads(log.history("t").items[0])["role"] == "user"
