"""Promise 4: reading events, in pages, forwards and backwards, of a turn or of some kinds."""

from __future__ import annotations

import threading
from collections.abc import Collection

from turnlog.engines.protocol import Engine, Tail
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit


def _interleaved(engine: Engine) -> dict[str | None, list[int]]:
    """A thread whose events of two turns and of itself lie between each other; the seqs of each."""
    first = writes.started_turn(engine, "T", "t1")
    second = writes.submitted_turn(engine, "T", "t2", base=2)
    seqs: dict[str | None, list[int]] = {"t1": [1, 2], "t2": [3], None: []}
    for base in range(3, 30):
        row = (first, second, None)[base % 3]
        commit(engine, writes.note("T", base=base) if row is None else writes.append(row, base=base))
        seqs[None if row is None else row.turn].append(base + 1)
    return seqs


def _seqs(
    engine: Engine, *, turn: str | None = None, kinds: Collection[str] | None = None, reverse: bool = False, step: int
) -> list[int]:
    """All pages of a read, one after the other."""
    seqs: list[int] = []
    while True:
        page = engine.read(
            "T",
            after=seqs[-1] if seqs and not reverse else 0,
            before=seqs[-1] if seqs and reverse else None,
            turn=turn,
            kinds=kinds,
            reverse=reverse,
            limit=step,
            bytes_max=1_000,
        )
        seqs += [event.seq for event in page.rows]
        if page.next is None:
            return seqs
        assert len(page.rows) == step


class ReadsConformance(Conformance):
    """See the module."""

    def test_an_unknown_thread_is_empty(self, engine: Engine) -> None:
        """Reading what is not there gives nothing, and makes nothing."""
        assert engine.tail("T", after=0, rev=0, limit=9) == Tail(
            epoch=engine.epoch, head=0, rev=0, floor=0, events=(), chunks=()
        )
        assert engine.read("T", limit=9, bytes_max=9).rows == ()
        assert engine.read("T", turn="t1", limit=9, bytes_max=9).rows == ()
        assert engine.turns(thread="T", limit=9).rows == ()
        assert engine.threads(limit=9).rows == ()

    def test_a_tail_goes_on_after_any_position(self, engine: Engine) -> None:
        """P9, C40: a tail has exactly the events after the position, in order of seq."""
        commit(engine, writes.note("T", base=0, count=6), writes.note("U", base=0, count=6))
        for after in range(8):
            for limit in range(1, 8):
                tail = engine.tail("T", after=after, rev=0, limit=limit)
                assert [event.seq for event in tail.events] == list(range(after + 1, 7))[:limit]
                assert tail.head == 6

    def test_a_read_lies_between_its_bounds(self, engine: Engine) -> None:
        """`after` and `before` are both exclusive."""
        commit(engine, writes.note("T", base=0, count=6))
        for after in range(7):
            for before in range(9):
                page = engine.read("T", after=after, before=before, limit=9, bytes_max=999)
                assert [event.seq for event in page.rows] == list(range(after + 1, min(before, 7)))

    def test_pages_make_the_whole(self, engine: Engine) -> None:
        """P11: whatever the page size and direction, the pages of a thread and of each turn give each event once."""
        seqs = _interleaved(engine)
        for step in (1, 2, 7, 50):
            assert _seqs(engine, step=step) == list(range(1, 31))
            assert _seqs(engine, step=step, reverse=True) == list(range(30, 0, -1))
            for turn in ("t1", "t2"):
                assert _seqs(engine, turn=turn, step=step) == seqs[turn]
                assert _seqs(engine, turn=turn, step=step, reverse=True) == seqs[turn][::-1]

    def test_bounds_of_a_turns_read_may_be_other_events(self, engine: Engine) -> None:
        """A turn is read from and up to any seq, its own or not."""
        seqs = _interleaved(engine)["t1"]
        for after in range(31):
            for before in (after, after + 1, after + 5, 31):
                page = engine.read("T", turn="t1", after=after, before=before, limit=99, bytes_max=999)
                assert [event.seq for event in page.rows] == [seq for seq in seqs if after < seq < before]

    def test_a_read_of_kinds_has_no_others(self, engine: Engine) -> None:
        """Only the kinds asked for come, in pages too, and none when no kind is."""
        _interleaved(engine)
        kinds = {event.seq: event.kind for event in engine.read("T", limit=99, bytes_max=9_999).rows}
        wanted = [seq for seq, kind in kinds.items() if kind in ("submitted", "thread_item")]
        assert _seqs(engine, kinds=("submitted", "thread_item"), step=2) == wanted
        assert _seqs(engine, kinds=(), step=2) == []
        assert _seqs(engine, turn="t2", kinds=("submitted",), step=2) == [3]

    def test_a_page_ends_at_its_bytes(self, engine: Engine) -> None:
        """P11: a page ends once its bodies reach `bytes_max`, and has one event at least."""
        for base in range(4):
            commit(engine, writes.note("T", base=base, body=b"x" * 10))
        for bytes_max, count in ((1, 1), (10, 1), (11, 2), (20, 2), (39, 4), (999, 4)):
            page = engine.read("T", limit=9, bytes_max=bytes_max)
            assert len(page.rows) == count
            assert (page.next is None) == (count == 4)

    def test_next_says_whether_there_is_more(self, engine: Engine) -> None:
        """A page that ends exactly with the last event has no next one."""
        commit(engine, writes.note("T", base=0, count=3))
        assert engine.read("T", limit=3, bytes_max=99).next is None
        assert engine.read("T", limit=2, bytes_max=99).next is not None
        assert engine.read("T", limit=2, reverse=True, bytes_max=99).next is not None

    def test_a_read_is_one_snapshot(self, harness: EngineHarness, engine: Engine) -> None:
        """Promises 1 and 4: while somebody appends and closes drafts, each tail has the drafts of its own head: with
        every event of this turn, the draft of the one before is gone."""
        row = writes.started_turn(engine, "T", "t1")
        reader, torn, done = harness.open(), [], threading.Event()

        def read() -> None:
            while not done.is_set():
                tail = reader.tail("T", after=2, rev=0, limit=999)
                drafts = [chunk.draft for chunk in tail.chunks]
                if drafts not in ([], [f"d{tail.head}"]) or [e.seq for e in tail.events] != list(
                    range(3, tail.head + 1)
                ):
                    torn.append(tail)

        thread = threading.Thread(target=read)
        thread.start()
        for head in range(2, 102):
            commit(engine, writes.draft(row, f"d{head}", b"x", after=head))
            commit(engine, writes.append(row, base=head, drop=(f"d{head}",)))
        done.set()
        thread.join()
        assert torn == []
