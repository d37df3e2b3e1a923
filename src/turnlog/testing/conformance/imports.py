"""Threads that are brought in from elsewhere, and rows that are made again from their events."""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.engines.protocol import Done, Duplicate, Engine, Fenced, KeyConflict, Moved, Phase
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit, stored_turn


class ImportsConformance(Conformance):
    """See the module."""

    def test_an_imported_thread_is_what_was_brought_in(self, harness: EngineHarness, engine: Engine) -> None:
        """P10: events of several turns and of the thread itself, lying between each other and brought in pages, read as
        they were given, by thread and by turn; the rows have neither owner nor fence."""
        events = [
            writes.record(seq, turn, kind="item" if turn else "thread_item", body=b"%d" % seq)
            for seq, turn in zip(range(1, 13), (None, "t1", "t2") * 4, strict=True)
        ]
        rows = [writes.imported_turn("T", name, key=f"k{name}") for name in ("t1", "t2")]
        for base in range(0, 12, 4):
            page = writes.ingest("T", *events[base : base + 4], base=base, turns=rows, importing=base < 8)
            assert commit(engine, page) == [Done(head=base + 4, rev=0, fence=0)]
        for reader in (engine, harness.open()):
            assert reader.tail("T", after=0, rev=0, limit=99).events == tuple(events)
            for row in rows:
                own = tuple(event for event in events if event.turn == row.turn)
                assert reader.read("T", turn=row.turn, limit=99, bytes_max=999).rows == own
                assert stored_turn(reader, "T", row.turn) == replace(row, owner=None, fence=0)
            assert list(reader.check()) == []

    def test_turns_are_in_the_order_in_which_they_came(self, engine: Engine) -> None:
        """Lists of an imported thread are newest first, as of any other one, in whatever order its rows were given."""
        names = [f"t{n}" for n in range(5)]
        events = [writes.record(n, name) for n, name in enumerate(names, start=1)]
        for at in (0, 3):
            rows = [writes.imported_turn("T", name) for name in reversed(names[at : at + 3])]
            commit(engine, writes.ingest("T", *events[at : at + 3], base=at, turns=rows))
        assert [row.turn for row in engine.turns(thread="T", limit=9).rows] == names[::-1]

    def test_a_thread_that_is_being_imported_is_in_no_list(self, engine: Engine) -> None:
        """P4: until its last page it is found by its name or as such a one, and wakes nobody; then it is as any
        other."""
        commit(engine, writes.submission("U", "t1"))
        _, position = engine.changes(b"", 0.0)
        rows = [writes.imported_turn("T", "t1", phase=Phase.SUBMITTED)]
        commit(engine, writes.ingest("T", writes.record(1, "t1"), base=0, turns=rows))
        assert [row.thread for row in engine.threads(limit=9).rows] == ["U"]
        assert [row.thread for row in engine.turns(latest_each=True, limit=9).rows] == ["U"]
        assert [row.thread for row in engine.turns(open_only=True, limit=9).rows] == ["U"]
        assert engine.changes(position, 0.0)[0] == []
        (found,) = engine.threads(thread="T", limit=1).rows
        assert (found.importing, found.head) == (True, 1)
        assert engine.threads(importing=True, limit=9).rows == (found,)
        assert len(engine.turns(thread="T", limit=9).rows) == 1
        assert len(engine.turns(thread="T", latest_each=True, limit=9).rows) == 1
        commit(engine, writes.ingest("T", writes.record(2, kind="thread_item"), base=1, turns=[], importing=False))
        assert {row.thread for row in engine.threads(limit=9).rows} == {"T", "U"}
        assert {row.thread for row in engine.turns(latest_each=True, limit=9).rows} == {"T", "U"}
        assert {row.thread for row in engine.turns(open_only=True, limit=9).rows} == {"T", "U"}
        assert engine.changes(position, 0.0)[0] == ["T"]
        assert engine.threads(importing=True, limit=9).rows == ()

    def test_nothing_is_brought_into_a_thread_that_is_there(self, engine: Engine) -> None:
        """P4: a thread that was made in another way, or is whole, takes no turns from elsewhere."""
        commit(engine, writes.note("T", base=0))
        rows = [writes.imported_turn("T", "t1")]
        assert commit(engine, writes.ingest("T", writes.record(2, "t1"), base=1, turns=rows)) == [Moved(head=1)]
        whole = writes.ingest(
            "U", writes.record(1, "t1"), base=0, turns=[replace(rows[0], thread="U")], importing=False
        )
        again = replace(whole, base=1, events=(writes.record(2, "t1"),))
        assert commit(engine, whole, again) == [Done(head=1, rev=0, fence=0), Moved(head=1)]
        assert engine.turns(thread="T", limit=9).rows == ()

    def test_an_import_goes_on_from_its_head(self, engine: Engine) -> None:
        """P6: a page that is given again, or too early, is `Moved`, and says from where to go on."""
        rows = [writes.imported_turn("T", "t1")]
        page = writes.ingest("T", writes.record(1, "t1"), writes.record(2, "t1"), base=0, turns=rows)
        assert commit(engine, page, page) == [Done(head=2, rev=0, fence=0), Moved(head=2)]
        assert commit(engine, replace(page, base=5)) == [Moved(head=2)]

    def test_an_imported_thread_goes_on_as_any_other(self, engine: Engine) -> None:
        """P6, P7: its keys name its turns, its open turn is anybody's to claim, its events keep their places."""
        rows = [writes.imported_turn("T", "t1", key="k"), writes.imported_turn("T", "t2", phase=Phase.SUBMITTED)]
        events = [writes.record(1, "t1"), writes.record(2, "t2"), writes.record(3, "t1")]
        commit(engine, writes.ingest("T", *events, base=0, turns=rows, importing=False))
        known = stored_turn(engine, "T", "t1")
        assert commit(engine, writes.submission("T", "t9", base=3, key="k")) == [Duplicate(row=known)]
        other = writes.submission("T", "t9", base=3, key="k", digest="other")
        assert commit(engine, other) == [KeyConflict(row=known, digest="other")]
        queued = stored_turn(engine, "T", "t2")
        assert commit(engine, writes.claim(queued, "owner1", expected=None)) == [Done(head=3, rev=0, fence=1)]
        commit(engine, writes.start(stored_turn(engine, "T", "t2"), base=3))
        late = replace(writes.append(known, base=4), fence=None)
        assert commit(engine, late) == [Done(head=5, rev=0, fence=0)]
        read = [event.seq for event in engine.read("T", turn="t1", limit=9, bytes_max=99).rows]
        assert read == [1, 3, 5]
        assert list(engine.check()) == []

    def test_rebuilding_puts_rows_in_the_place_of_wrong_ones(self, engine: Engine) -> None:
        """P8: the thread's head, fold and flags and the turn's phase, seqs and fold are the given ones; its names,
        owner and fence stay, and a second time changes nothing."""
        row = writes.started_turn(engine, "T", "t1")
        wrong = writes.rebuild("T", base=2, thread_row=replace(writes.thread_row("T", fold=b"wrong"), head=9))
        assert commit(engine, wrong) == [Done(head=9, rev=0, fence=0)]
        right = writes.rebuild(
            "T",
            base=9,
            thread_row=replace(writes.thread_row("T", fold=b"right"), head=2, pinned=True),
            turn_row=replace(
                row, phase=Phase.SUBMITTED, seq_first=2, seq_last=1, fold=b"new", owner="x", fence=7, key="k"
            ),
        )
        assert commit(engine, right, replace(right, base=2)) == [Done(head=2, rev=0, fence=1)] * 2
        (thread,) = engine.threads(thread="T", limit=1).rows
        assert (thread.head, thread.fold, thread.pinned) == (2, b"right", True)
        assert stored_turn(engine, "T", "t1") == replace(
            row, phase=Phase.SUBMITTED, seq_first=2, seq_last=1, fold=b"new"
        )
        assert commit(engine, writes.note("T", base=2)) == [Done(head=3, rev=0, fence=0)]

    def test_rebuilding_is_refused_where_it_does_not_fit(self, engine: Engine) -> None:
        """P5: another head than the one that was seen, an unknown turn and an unknown thread are refused."""
        row = writes.started_turn(engine, "T", "t1")
        assert commit(engine, writes.rebuild("T", base=1, thread_row=writes.thread_row("T"))) == [Moved(head=2)]
        unknown = writes.rebuild("T", base=2, turn_row=replace(row, turn="t2"))
        assert commit(engine, unknown) == [Fenced(fence=0)]
        assert commit(engine, writes.rebuild("U", base=0, thread_row=writes.thread_row("U"))) == [Moved(head=0)]
        assert engine.threads(thread="U", limit=1).rows == ()
        assert stored_turn(engine, "T", "t1") == row

    def test_a_rebuilt_turn_takes_events_again(self, engine: Engine) -> None:
        """P8: after rebuilding, a turn's next events have places of their own."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.append(row, base=2, kinds=("item",) * 3))
        commit(engine, writes.rebuild("T", base=5, turn_row=replace(stored_turn(engine, "T", "t1"), fold=b"new")))
        commit(engine, writes.append(stored_turn(engine, "T", "t1"), base=5))
        assert [event.seq for event in engine.read("T", turn="t1", limit=9, bytes_max=99).rows] == [1, 2, 3, 4, 5, 6]
        assert list(engine.check()) == []

    def test_drafts_that_a_settled_turn_left_behind_can_go(self, engine: Engine) -> None:
        """P3: an event of the thread itself, or a rebuilding write, drops them, without any fence."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"left", after=2), writes.draft(row, "e", b"too", after=2))
        commit(engine, writes.settle(row, base=2))
        told = replace(writes.note("T", base=3), turn="t1", drop=("d",))
        assert commit(engine, told) == [Done(head=4, rev=3, fence=1)]
        assert [chunk.draft for chunk in engine.tail("T", after=4, rev=0, limit=9).chunks] == ["e"]
        settled = stored_turn(engine, "T", "t1")
        again = replace(writes.rebuild("T", base=4, turn_row=settled), drop=("e",))
        assert commit(engine, again) == [Done(head=4, rev=4, fence=1)]
        assert engine.tail("T", after=4, rev=0, limit=9).chunks == ()
        assert stored_turn(engine, "T", "t1") == settled
        assert engine.read("T", after=3, limit=9, bytes_max=9).rows[0].turn is None

    def test_events_of_an_unknown_turn_are_fenced(self, engine: Engine) -> None:
        """P5: whoever names a turn that is not there is refused, with a fence or without."""
        row = writes.started_turn(engine, "T", "t1")
        lost = replace(writes.append(replace(row, turn="t2"), base=2), fence=None)
        assert commit(engine, lost) == [Fenced(fence=0)]
        assert commit(engine, replace(writes.note("T", base=2), turn="t2", drop=("d",))) == [Fenced(fence=0)]
        assert engine.tail("T", after=0, rev=0, limit=9).head == 2


class CheckConformance(Conformance):
    """What an engine finds of its own damage, as far as it can be made through the contract."""

    def test_a_sound_store_has_no_damage(self, engine: Engine) -> None:
        """P4: whatever was accepted is found to be as it was written."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"x", after=2), writes.note("T", base=2, count=3))
        commit(engine, *[writes.submission(f"U{n}", "t1", key="k") for n in range(30)])
        commit(engine, writes.settle(row, base=5, drop=("d",)), writes.snapshot("T", "t1", b"a", seq=6))
        assert list(engine.check()) == []
        assert list(engine.check("T")) == []
        assert list(engine.check("nowhere")) == []

    def test_a_head_that_is_not_the_last_event_is_found(self, engine: Engine) -> None:
        """P4: too far and too short, with its place, of the store and of the one thread, until it is rebuilt."""
        commit(engine, writes.note("T", base=0, count=3), writes.note("U", base=0, count=3))
        head = 3
        for wrong in (5, 2):
            row = replace(writes.thread_row("T"), head=wrong)
            commit(engine, writes.rebuild("T", base=head, thread_row=row))
            head = wrong
            for found in (list(engine.check()), list(engine.check("T"))):
                assert [(damage.what, damage.thread, damage.seq) for damage in found] == [("head", "T", 3)]
            assert list(engine.check("U")) == []
        commit(engine, writes.rebuild("T", base=head, thread_row=replace(writes.thread_row("T"), head=3)))
        assert list(engine.check()) == []

    def test_making_indexes_again_changes_nothing_that_is_read(self, harness: EngineHarness, engine: Engine) -> None:
        """P4: of a sound store every row, event, chunk and snapshot is found as before, and appending goes on."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"x", after=2), writes.note("T", base=2, count=3))
        commit(engine, *[writes.submission(f"U{n}", "t1", key="k") for n in range(30)])
        other = harness.open()
        before = [_all(each) for each in (engine, other)]
        engine.reindex()
        assert [_all(each) for each in (engine, other)] == before
        assert commit(other, writes.note("T", base=5)) != []
        assert list(engine.check()) == []


def _all(engine: Engine) -> list[object]:
    return [
        engine.threads(limit=99),
        engine.turns(thread="T", turn="t1", limit=9),
        engine.turns(thread="U7", key="k", limit=9),
        engine.tail("T", after=0, rev=0, limit=99),
        engine.dead_owners(limit=9),
    ]
