"""Promise 8, and drafts: chunks, drops and what a tail shows of them."""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.engines.protocol import Chunk, Engine, Fenced
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.writes import commit


def _chunks(engine: Engine, *, rev: int = 0) -> list[tuple[str, int, bytes]]:
    tail = engine.tail("T", after=99, rev=rev, limit=9)
    return [(chunk.draft, chunk.offset, chunk.text) for chunk in tail.chunks]


class DraftsConformance(Conformance):
    """See the module."""

    def test_rev_grows_by_one_with_each_write_of_drafts(self, engine: Engine) -> None:
        """Promise 8: adding and dropping count once a write; events, claims and refusals do not."""
        row = writes.started_turn(engine, "T", "t1")
        revs = []
        for write in (
            writes.draft(row, "d", b"a", after=2),
            writes.draft(row, "d", b"b", after=2, offset=1, rev=1),
            writes.append(row, base=2),
            writes.draft(row, "d", b"c", after=2, fence=7),
            writes.claim(row, "owner1", expected="owner1"),
        ):
            commit(engine, write)
            revs.append(engine.threads(thread="T", limit=1).rows[0].rev)
        assert revs == [1, 2, 2, 2, 2]
        dropping = writes.append(replace(row, fence=2), base=3, drop=("d",))
        commit(engine, dropping)
        assert engine.tail("T", after=0, rev=0, limit=9).rev == 3

    def test_a_chunk_keeps_its_place(self, engine: Engine) -> None:
        """A draft's place is (after, rev) of its first chunk; each chunk has the rev of its own write."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", "né".encode(), after=2))
        commit(engine, writes.append(row, base=2))
        commit(engine, writes.draft(row, "d", b"w", after=2, offset=2, rev=1))
        first = Chunk(turn="t1", draft="d", after=2, rev=1, chunk_rev=1, offset=0, text="né".encode())
        second = Chunk(turn="t1", draft="d", after=2, rev=1, chunk_rev=2, offset=2, text=b"w")
        assert engine.tail("T", after=0, rev=0, limit=9).chunks == (first, second)

    def test_a_tail_gives_the_chunks_after_a_rev(self, engine: Engine) -> None:
        """P9, C39: prefix and tail make the whole, at every rev."""
        row = writes.started_turn(engine, "T", "t1")
        for n in range(4):
            commit(engine, writes.draft(row, "d", b"%d" % n, after=2, offset=n, rev=1 if n else 0))
        whole = _chunks(engine)
        assert [text for _, _, text in whole] == [b"0", b"1", b"2", b"3"]
        for rev in range(5):
            assert _chunks(engine, rev=rev) == whole[rev:]

    def test_chunks_come_in_the_order_they_were_written(self, engine: Engine) -> None:
        """P9: chunks of several drafts and turns of a thread come in the order of their writes."""
        row = writes.started_turn(engine, "T", "t1")
        queued = writes.submitted_turn(engine, "T", "t2", base=2)
        commit(engine, writes.draft(queued, "z", b"1", after=3), writes.draft(row, "b", b"2", after=3))
        commit(engine, writes.draft(row, "a", b"3", after=3), writes.draft(queued, "z", b"4", after=3, offset=1, rev=1))
        assert [text for _, _, text in _chunks(engine)] == [b"1", b"2", b"3", b"4"]

    def test_one_write_may_go_on_with_several_drafts(self, engine: Engine) -> None:
        """Chunks of one write have one rev, in the order given."""
        row = writes.started_turn(engine, "T", "t1")
        opened = [writes.draft(row, name, b"1", after=2) for name in ("z", "a")]
        commit(engine, *opened)
        both = tuple(
            replace(write.chunks[0], rev=rev, offset=1, text=b"2") for rev, write in enumerate(opened, start=1)
        )
        commit(engine, replace(opened[0], chunks=both))
        tail = engine.tail("T", after=2, rev=2, limit=9)
        assert [(chunk.draft, chunk.chunk_rev) for chunk in tail.chunks] == [("z", 3), ("a", 3)]

    def test_an_event_drops_the_drafts_it_closes(self, engine: Engine) -> None:
        """P9: text and the event that replaces it change places in one write; other drafts stay."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"gone", after=2), writes.draft(row, "e", b"stays", after=2))
        commit(engine, writes.append(row, base=2, drop=("d",)))
        assert _chunks(engine) == [("e", 0, b"stays")]
        assert engine.tail("T", after=2, rev=0, limit=9).events[0].seq == 3

    def test_a_drop_is_of_its_own_turn(self, engine: Engine) -> None:
        """A draft of the same name in another turn or thread stays."""
        row = writes.started_turn(engine, "T", "t1")
        queued = writes.submitted_turn(engine, "T", "t2", base=2)
        elsewhere = writes.started_turn(engine, "U", "t1")
        for turn in (row, queued, elsewhere):
            commit(engine, writes.draft(turn, "d", turn.turn.encode(), after=3))
        commit(engine, writes.append(row, base=3, drop=("d",)))
        assert _chunks(engine) == [("d", 0, b"t2")]
        assert len(engine.tail("U", after=2, rev=0, limit=9).chunks) == 1

    def test_a_draft_dropped_in_its_own_batch_leaves_nothing(self, engine: Engine) -> None:
        """P9: a batch that adds to a draft and closes it leaves no chunk, stored earlier or not."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"1", after=2))
        commit(
            engine,
            writes.draft(row, "d", b"2", after=2, offset=1, rev=1),
            writes.draft(row, "e", b"3", after=2),
            writes.append(row, base=2, drop=("d",)),
            writes.draft(row, "f", b"4", after=3),
        )
        assert [draft for draft, _, _ in _chunks(engine)] == ["e", "f"]
        assert engine.tail("T", after=3, rev=0, limit=9).rev == 5

    def test_settling_drops_many_drafts_at_once(self, engine: Engine) -> None:
        """P5: one write closes all drafts of a turn, however many."""
        row = writes.started_turn(engine, "T", "t1")
        names = [f"attempt1/item{n}/text/0" for n in range(500)]
        commit(engine, *[writes.draft(row, name, b"x", after=2) for name in names])
        assert len(_chunks(engine)) == 500
        commit(engine, writes.settle(row, base=2, drop=tuple(names)))
        assert _chunks(engine) == []

    def test_a_settled_turn_takes_no_draft(self, engine: Engine) -> None:
        """P5: a draft after the terminal event is refused and does not move rev."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.settle(row, base=2))
        assert commit(engine, writes.draft(row, "d", b"late", after=3)) == [Fenced(fence=1)]
        assert engine.tail("T", after=3, rev=0, limit=9).rev == 0

    def test_a_tail_cut_short_has_no_chunks(self, engine: Engine) -> None:
        """Promise 4: chunks belong to the head, so events that stop before it come without."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"text", after=2))
        cut = engine.tail("T", after=0, rev=0, limit=1)
        assert ([event.seq for event in cut.events], cut.chunks, cut.head, cut.rev) == ([1], (), 2, 1)
        whole = engine.tail("T", after=0, rev=0, limit=2)
        assert ([event.seq for event in whole.events], len(whole.chunks)) == ([1, 2], 1)

    def test_drafts_leave_the_threads_row_alone(self, engine: Engine) -> None:
        """A write without a thread row keeps fold and time of the one there is."""
        row = writes.started_turn(engine, "T", "t1")
        before = engine.threads(thread="T", limit=1).rows[0]
        commit(engine, writes.draft(row, "d", b"text", after=2))
        assert engine.threads(thread="T", limit=1).rows == (replace(before, rev=1),)
