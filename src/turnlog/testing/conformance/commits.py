"""Promises 1, 2, 3 and 5: what a batch stores, and what it refuses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from turnlog.engines.protocol import Done, Duplicate, Engine, Fenced, KeyConflict, Moved, Phase
from turnlog.errors import StoreClosed, StoreError
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit, stored_turn


class CommitsConformance(Conformance):
    """See the module."""

    def test_an_accepted_write_is_there_after_reopening(self, harness: EngineHarness, engine: Engine) -> None:
        """Promise 1: events, rows, keys and drafts of an accepted write outlive the engine, if it is durable."""
        if not engine.caps.durable:
            assert harness.reopen().epoch == engine.epoch
            return
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"text", after=2))
        before = engine.tail("T", after=0, rev=0, limit=9)
        again = harness.reopen()
        assert again.tail("T", after=0, rev=0, limit=9) == before
        assert stored_turn(again, "T", "t1") == row

    def test_the_epoch_is_the_stores(self, harness: EngineHarness, engine: Engine) -> None:
        """Every engine on a store gives the same epoch, in `epoch` and in each tail."""
        other = harness.open()
        assert other.epoch == engine.epoch
        assert other.tail("T", after=0, rev=0, limit=1).epoch == engine.epoch

    def test_an_empty_batch_changes_nothing(self, engine: Engine) -> None:
        """Committing no writes gives no outcomes."""
        assert engine.commit([]) == []

    def test_a_batch_is_decided_in_order(self, engine: Engine) -> None:
        """Promise 2: a later write of a batch sees the effect of an earlier one."""
        outcomes = commit(
            engine,
            writes.submission("T", "t1", base=0),
            writes.submission("T", "t2", base=1),
            writes.note("T", base=2, count=2),
        )
        assert outcomes == [
            Done(head=1, rev=0, fence=1),
            Done(head=2, rev=0, fence=1),
            Done(head=4, rev=0, fence=0),
        ]

    def test_a_refused_write_leaves_its_neighbours_alone(self, engine: Engine) -> None:
        """Promise 2: of a batch, each write is stored whole or refused alone."""
        outcomes = commit(
            engine,
            writes.submission("A", "t1"),
            writes.submission("B", "t1", base=7),
            writes.submission("C", "t1"),
        )
        assert [type(outcome) for outcome in outcomes] == [Done, Moved, Done]
        assert {row.thread for row in engine.threads(limit=9).rows} == {"A", "C"}
        assert engine.tail("B", after=0, rev=0, limit=9).events == ()

    def test_a_stale_base_is_refused_with_the_head(self, engine: Engine) -> None:
        """An append to a thread that has gone on is `Moved`, and says how far."""
        commit(engine, writes.note("T", base=0, count=3))
        assert commit(engine, writes.note("T", base=2)) == [Moved(head=3)]
        assert commit(engine, writes.note("T", base=4)) == [Moved(head=3)]

    def test_two_engines_append_to_one_thread(self, harness: EngineHarness, engine: Engine) -> None:
        """Promise 5: of two engines that saw the same head, one appends and the other one is `Moved`."""
        other = harness.open()
        assert commit(engine, writes.note("T", base=0)) == [Done(head=1, rev=0, fence=0)]
        assert commit(other, writes.note("T", base=0)) == [Moved(head=1)]
        assert commit(other, writes.note("T", base=1)) == [Done(head=2, rev=0, fence=0)]

    def test_the_same_key_and_content_is_a_duplicate(self, harness: EngineHarness, engine: Engine) -> None:
        """P6, C03: a key names one turn, for every engine, whatever turn id comes with it."""
        commit(engine, writes.submission("T", "t1", key="k"))
        first = stored_turn(engine, "T", "t1")
        again = writes.submission("T", "t2", base=1, key="k")
        assert commit(engine, again) == commit(harness.open(), again) == [Duplicate(row=first)]
        assert engine.tail("T", after=0, rev=0, limit=9).head == 1

    def test_the_same_key_with_other_content_conflicts(self, engine: Engine) -> None:
        """P6, C04: the refusal has the stored row and the refused digest; the stored turn is untouched."""
        commit(engine, writes.submission("T", "t1", key="k", digest="pay 10"))
        first = stored_turn(engine, "T", "t1")
        outcome = commit(engine, writes.submission("T", "t2", base=1, key="k", digest="pay 1000"))
        assert outcome == [KeyConflict(row=first, digest="pay 1000")]
        assert stored_turn(engine, "T", "t1") == first

    def test_a_key_is_one_threads(self, engine: Engine) -> None:
        """P6: the same key and turn id in another thread is another turn."""
        outcomes = commit(engine, writes.submission("A", "t1", key="k"), writes.submission("B", "t1", key="k"))
        assert [type(outcome) for outcome in outcomes] == [Done, Done]

    def test_a_known_turn_id_is_that_turn(self, engine: Engine) -> None:
        """P6: a turn id given again is a duplicate with the same content, a conflict with other content."""
        commit(engine, writes.submission("T", "t1", digest="one"))
        row = stored_turn(engine, "T", "t1")
        assert commit(engine, writes.submission("T", "t1", digest="one")) == [Duplicate(row=row)]
        assert commit(engine, writes.submission("T", "t1", digest="two")) == [KeyConflict(row=row, digest="two")]

    def test_duplicates_within_a_batch(self, engine: Engine) -> None:
        """P6, C03: a key given twice in one batch names one turn."""
        one = writes.submission("T", "t1", key="k")
        two = writes.submission("T", "t2", key="k")
        done, duplicate = commit(engine, one, two)
        assert done == Done(head=1, rev=0, fence=1)
        assert duplicate == Duplicate(row=stored_turn(engine, "T", "t1"))

    def test_a_settled_turn_still_holds_its_key(self, engine: Engine) -> None:
        """P6: a key names its turn as long as the thread exists."""
        commit(engine, writes.submission("T", "t1", key="k"))
        commit(engine, writes.settle(stored_turn(engine, "T", "t1"), base=1))
        outcome = commit(engine, writes.submission("T", "t2", base=2, key="k"))
        assert outcome == [Duplicate(row=stored_turn(engine, "T", "t1"))]

    def test_a_turn_has_one_retry_child(self, engine: Engine) -> None:
        """Promise 5: retrying a turn again gives the child it has."""
        commit(engine, writes.submission("T", "t1"))
        commit(engine, writes.settle(stored_turn(engine, "T", "t1"), base=1))
        commit(engine, writes.submission("T", "t2", base=2, retry_of="t1"))
        child = stored_turn(engine, "T", "t2")
        assert commit(engine, writes.submission("T", "t3", base=3, retry_of="t1")) == [Duplicate(row=child)]

    def test_a_wrong_fence_is_refused(self, engine: Engine) -> None:
        """P7: a fence that is not the turn's is refused with the one it has."""
        row = writes.started_turn(engine, "T", "t1")
        assert commit(engine, writes.append(row, base=2, fence=row.fence + 1)) == [Fenced(fence=row.fence)]
        assert commit(engine, writes.append(row, base=2, fence=0)) == [Fenced(fence=row.fence)]

    def test_an_unknown_turn_is_fenced_at_0(self, engine: Engine) -> None:
        """A fenced write to a turn that does not exist is refused and makes none."""
        row = writes.submitted_turn(engine, "T", "t1")
        assert commit(engine, writes.append(replace(row, turn="t2"), base=1)) == [Fenced(fence=0)]
        assert engine.turns(thread="T", limit=9).rows == (row,)

    def test_settling_ends_the_fence(self, engine: Engine) -> None:
        """P5, C10: after its terminal event a turn's own writer is refused, for events and for a second ending."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.settle(row, base=2))
        assert commit(engine, writes.append(row, base=3)) == [Fenced(fence=row.fence)]
        assert commit(engine, writes.settle(row, base=3)) == [Fenced(fence=row.fence)]

    def test_a_request_needs_no_fence(self, harness: EngineHarness, engine: Engine) -> None:
        """Any process may write a request to an open turn."""
        row = writes.started_turn(engine, "T", "t1")
        request = replace(writes.append(row, base=2, kinds=("requested",)), fence=None)
        assert commit(harness.open(), request) == [Done(head=3, rev=0, fence=row.fence)]

    def test_owner_and_fence_are_the_engines(self, engine: Engine) -> None:
        """Owner and fence of a row come from claims, whatever a write says."""
        row = writes.submitted_turn(engine, "T", "t1")
        lying = replace(writes.start(row, base=1), turn_row=replace(row, owner="owner9", fence=9))
        assert commit(engine, lying) == [Done(head=2, rev=0, fence=1)]
        assert (stored_turn(engine, "T", "t1").owner, stored_turn(engine, "T", "t1").fence) == ("owner1", 1)

    def test_a_turn_may_begin_without_events(self, engine: Engine) -> None:
        """A submission without events is stored as any other, and what follows is not mixed up with it."""
        for n in range(3):
            bare = replace(writes.submission("T", f"bare{n}", key=f"k{n}"), base=None, events=())
            assert commit(engine, bare) == [Done(head=n, rev=0, fence=1)]
            assert commit(engine, writes.submission("T", f"t{n}", base=n)) == [Done(head=n + 1, rev=0, fence=1)]
        names = [row.turn for row in engine.turns(thread="T", limit=9).rows]
        assert names == ["t2", "bare2", "t1", "bare1", "t0", "bare0"]
        assert engine.read("T", turn="bare0", limit=9, bytes_max=9).rows == ()

    def test_a_thread_has_at_most_one_started_turn(self, engine: Engine) -> None:
        """Promise 5: a second started turn is a defect above: it raises, nothing of its batch is stored, and the
        engine goes on."""
        writes.started_turn(engine, "T", "t1")
        second = writes.submitted_turn(engine, "T", "t2", base=2)
        with pytest.raises(StoreError):
            commit(engine, writes.note("U", base=0), writes.start(second, base=3))
        assert stored_turn(engine, "T", "t2") == second
        assert engine.threads(thread="U", limit=1).rows == ()
        assert commit(engine, writes.note("T", base=3)) == [Done(head=4, rev=0, fence=0)]

    def test_a_turn_starts_when_the_one_before_settles(self, engine: Engine) -> None:
        """Promise 5: one batch may settle a thread's started turn and start the next, whatever came first into it."""
        first = writes.started_turn(engine, "T", "t1")
        second = writes.submitted_turn(engine, "T", "t2", base=2)
        touched = writes.draft(second, "d", b"x", after=3)
        outcomes = commit(engine, touched, writes.settle(first, base=3), writes.start(second, base=4))
        assert [type(outcome) for outcome in outcomes] == [Done, Done, Done]
        assert stored_turn(engine, "T", "t2").phase is Phase.STARTED

    def test_a_closed_engine_refuses_everything(self, harness: EngineHarness) -> None:
        """Closing twice is harmless; every call after it raises `StoreClosed`."""
        engine = harness.open()
        engine.close()
        engine.close()
        for call in (
            lambda: commit(engine, writes.note("T", base=0)),
            lambda: engine.lease("owner1", 1.0),
            lambda: engine.dead_owners(limit=1),
            engine.lease_end,
            lambda: engine.tail("T", after=0, rev=0, limit=1),
            lambda: engine.read("T", limit=1, bytes_max=1),
            lambda: engine.turns(thread="T", limit=1),
            lambda: engine.threads(limit=1),
            lambda: engine.changes(b"", 0.0),
            engine.reindex,
        ):
            with pytest.raises(StoreClosed):
                call()

    def test_resting_changes_nothing_that_is_stored(self, engine: Engine) -> None:
        """Housekeeping keeps every event and row, and appending goes on."""
        commit(engine, *[writes.note(f"T{n}", base=0, body=b"x" * 60_000) for n in range(100)])
        before = engine.threads(limit=200)
        engine.rest()
        commit(engine, writes.note("T0", base=1))
        engine.rest()
        assert len(before.rows) == 100
        assert engine.tail("T0", after=0, rev=0, limit=9).head == 2
        assert engine.tail("T99", after=0, rev=0, limit=9).events[0].body == b"x" * 60_000
