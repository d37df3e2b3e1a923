"""Lists of turns and threads: their order, their pages, and every way to ask."""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.engines.protocol import Engine, Phase, TurnRow, Write
from turnlog.testing import writes
from turnlog.testing.clock import START_US
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.writes import commit, stored_turn


def _names(rows: tuple[TurnRow, ...]) -> list[str]:
    return [f"{row.thread}{row.turn}" for row in rows]


def _turn_pages(
    engine: Engine, *, thread: str | None = None, open_only: bool = False, latest_each: bool = False
) -> list[str]:
    names: list[str] = []
    before = None
    while True:
        page = engine.turns(thread=thread, open_only=open_only, latest_each=latest_each, before=before, limit=2)
        names += _names(page.rows)
        before = page.next
        if before is None:
            return names


def _threads_in_pages(engine: Engine, step: int) -> list[str]:
    names: list[str] = []
    before = None
    while True:
        page = engine.threads(before=before, limit=step)
        names += [row.thread for row in page.rows]
        before = page.next
        if before is None:
            return names


def _several_turns(engine: Engine) -> None:
    """Turns A1 A2 B1 A3 B2 C1, submitted in this order; A1 is settled, A2 and B1 have started, B2 is owner2's."""
    for thread, turn, base in (
        ("A", "1", 0),
        ("A", "2", 1),
        ("B", "1", 0),
        ("A", "3", 2),
        ("B", "2", 1),
        ("C", "1", 0),
    ):
        owner = "owner2" if (thread, turn) == ("B", "2") else "owner1"
        write = writes.submission(thread, turn, base=base, key=f"key{turn}", owner=owner)
        commit(engine, replace(write, thread_row=writes.thread_row(thread, updated_at=ord(thread))))
    commit(engine, _at(writes.settle(stored_turn(engine, "A", "1"), base=3)))
    commit(engine, _at(writes.start(stored_turn(engine, "A", "2"), base=4)))
    commit(engine, _at(writes.start(stored_turn(engine, "B", "1"), base=2)))


def _at(write: Write) -> Write:
    return replace(write, thread_row=writes.thread_row(write.thread, updated_at=ord(write.thread)))


class ListsConformance(Conformance):
    """See the module."""

    def test_turns_of_a_thread_come_newest_first(self, engine: Engine) -> None:
        """In pages or at once, in the order of their submission."""
        _several_turns(engine)
        assert _names(engine.turns(thread="A", limit=9).rows) == ["A3", "A2", "A1"]
        assert _turn_pages(engine, thread="A") == ["A3", "A2", "A1"]
        assert _turn_pages(engine, thread="nowhere") == []

    def test_a_turn_is_found_by_each_of_its_names(self, engine: Engine) -> None:
        """By id, by key and by the turn it retries, within its thread only."""
        _several_turns(engine)
        commit(engine, writes.submission("A", "4", base=5, retry_of="1"))
        assert _names(engine.turns(thread="A", turn="2", limit=9).rows) == ["A2"]
        assert _names(engine.turns(thread="B", key="key2", limit=9).rows) == ["B2"]
        assert _names(engine.turns(thread="A", retry_of="1", limit=9).rows) == ["A4"]
        assert engine.turns(thread="B", retry_of="1", limit=9).rows == ()
        assert engine.turns(thread="C", key="key2", limit=9).rows == ()
        assert engine.turns(thread="A", turn="2", key="key3", limit=9).rows == ()

    def test_open_turns_are_those_that_have_not_settled(self, engine: Engine) -> None:
        """Of the store, of a thread or of an owner, newest first."""
        _several_turns(engine)
        assert _turn_pages(engine, open_only=True) == ["C1", "B2", "A3", "B1", "A2"]
        assert _turn_pages(engine, thread="A", open_only=True) == ["A3", "A2"]
        assert _names(engine.turns(owner="owner2", open_only=True, limit=9).rows) == ["B2"]
        assert _names(engine.turns(thread="A", owner="owner1", open_only=True, limit=1).rows) == ["A3"]
        assert engine.turns(thread="A", turn="1", open_only=True, limit=9).rows == ()

    def test_a_turn_leaves_the_open_ones_when_it_settles(self, engine: Engine) -> None:
        """P5: the list follows the phase of the row in the same write."""
        _several_turns(engine)
        commit(engine, writes.settle(stored_turn(engine, "B", "1"), base=3))
        assert "B1" not in _turn_pages(engine, open_only=True)
        assert stored_turn(engine, "B", "1").phase is Phase.SETTLED

    def test_the_latest_turn_of_each_thread(self, engine: Engine) -> None:
        """In the order of threads; of one thread; and only where that turn is open."""
        _several_turns(engine)
        commit(engine, writes.note("D", base=0))
        assert _turn_pages(engine, latest_each=True) == ["C1", "B2", "A3"]
        assert _turn_pages(engine, thread="A", latest_each=True) == ["A3"]
        commit(engine, _at(writes.settle(stored_turn(engine, "B", "2"), base=3)))
        assert _turn_pages(engine, latest_each=True, open_only=True) == ["C1", "A3"]
        assert _turn_pages(engine, thread="B", latest_each=True, open_only=True) == []

    def test_threads_come_last_updated_first(self, engine: Engine) -> None:
        """By the time in their rows, whatever the order of writing."""
        for at in (3, 1, 2):
            commit(engine, writes.note(f"T{at}", base=0, updated_at=at))
        assert _threads_in_pages(engine, 9) == ["T3", "T2", "T1"]
        commit(engine, writes.note("T1", base=1, updated_at=4))
        assert _threads_in_pages(engine, 9) == ["T1", "T3", "T2"]

    def test_equal_and_backward_clocks_break_nothing(self, engine: Engine) -> None:
        """C09, C25: with one time for all, or one that runs backwards, appends are accepted, their order is seq, and
        pages of threads still give each once."""
        for n in range(30):
            at = START_US if n < 20 else START_US - 7_200_000_000 * n
            commit(engine, writes.note(f"T{n}", base=0, updated_at=at), writes.note("T", base=n, updated_at=at))
        assert [event.seq for event in engine.tail("T", after=0, rev=0, limit=99).events] == list(range(1, 31))
        for step in (1, 4, 31, 50):
            names = _threads_in_pages(engine, step)
            assert sorted(names) == sorted(["T", *(f"T{n}" for n in range(30))])
            assert names == _threads_in_pages(engine, 99)

    def test_one_thread_is_found_by_its_id(self, engine: Engine) -> None:
        """With head and rev as the engine counts them, and as other engines see them."""
        commit(engine, writes.note("T", base=0, count=3), writes.note("U", base=0))
        (row,) = engine.threads(thread="T", limit=1).rows
        assert (row.thread, row.head, row.rev, row.fold) == ("T", 3, 0, b"thread fold")
        assert engine.threads(thread="V", limit=1).rows == ()
