"""Promise 6 as `commit` sees it: who may take a turn over, and what that does to its last writer."""

from __future__ import annotations

from turnlog.engines.protocol import Done, Engine, Fenced, OwnerAlive
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit, stored_turn


class ClaimsConformance(Conformance):
    """See the module."""

    def test_a_new_turn_belongs_to_its_submitter(self, engine: Engine) -> None:
        """The first claim of a turn gives it fence 1."""
        row = writes.submitted_turn(engine, "T", "t1")
        assert (row.owner, row.fence) == ("owner1", 1)

    def test_an_owner_may_claim_its_own_turn(self, engine: Engine) -> None:
        """P7: a claim by the turn's owner raises the fence."""
        row = writes.started_turn(engine, "T", "t1")
        assert commit(engine, writes.claim(row, "owner1", expected="owner1")) == [Done(head=2, rev=0, fence=2)]
        assert stored_turn(engine, "T", "t1").fence == 2

    def test_a_started_turn_of_a_living_owner_is_not_taken(self, harness: EngineHarness, engine: Engine) -> None:
        """P7, C07: while lease and lock hold, a claim is refused and the turn untouched."""
        row = writes.started_turn(engine, "T", "t1")
        other = harness.open()
        other.lease("owner2", 30.0)
        assert commit(other, writes.claim(row, "owner2", expected="owner1")) == [OwnerAlive(owner="owner1")]
        assert stored_turn(engine, "T", "t1") == row

    def test_a_submitted_turn_may_be_taken_from_a_living_owner(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: a turn that has not started may be run by somebody else."""
        row = writes.submitted_turn(engine, "T", "t1")
        other = harness.open()
        other.lease("owner2", 30.0)
        assert commit(other, writes.claim(row, "owner2", expected="owner1")) == [Done(head=1, rev=0, fence=2)]
        assert stored_turn(engine, "T", "t1").owner == "owner2"

    def test_a_turn_of_a_killed_owner_is_taken_at_once(self, harness: EngineHarness, engine: Engine) -> None:
        """P8: a lock that is free proves the death, though the lease still runs."""
        row = writes.started_turn(engine, "T", "t1")
        other = harness.open()
        harness.kill(engine)
        assert commit(other, writes.claim(row, "owner2", expected="owner1")) == [Done(head=2, rev=0, fence=2)]

    def test_a_turn_of_a_silent_owner_is_taken_after_its_lease(self, harness: EngineHarness, engine: Engine) -> None:
        """P7, C07: a lease that is out gives the turn away, though the lock is held."""
        row = writes.started_turn(engine, "T", "t1")
        other = harness.open()
        harness.clock.advance(29.0)
        assert commit(other, writes.claim(row, "owner2", expected="owner1")) == [OwnerAlive(owner="owner1")]
        harness.clock.advance(2.0)
        assert commit(other, writes.claim(row, "owner2", expected="owner1")) == [Done(head=2, rev=0, fence=2)]

    def test_a_claim_expecting_another_owner_is_refused(self, harness: EngineHarness, engine: Engine) -> None:
        """P8: of two that recover, the second one expects an owner who is not the turn's any more."""
        row = writes.started_turn(engine, "T", "t1")
        other, third = harness.open(), harness.open()
        other.lease("owner2", 30.0)
        harness.kill(engine)
        commit(other, writes.claim(row, "owner2", expected="owner1"))
        late = writes.claim(row, "owner3", expected="owner1")
        assert commit(third, late) == [OwnerAlive(owner="owner2")]
        harness.kill(other)
        assert commit(third, late) == [Fenced(fence=2)]

    def test_a_settled_turn_is_not_claimed(self, engine: Engine) -> None:
        """P5: nobody takes over what has ended."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.settle(row, base=2))
        assert commit(engine, writes.claim(row, "owner1", expected="owner1")) == [Fenced(fence=1)]

    def test_an_unknown_turn_is_not_claimed(self, engine: Engine) -> None:
        """A claim alone makes no turn."""
        row = writes.submission("T", "t1").turn_row
        assert row is not None
        assert commit(engine, writes.claim(row, "owner1", expected=None)) == [Fenced(fence=0)]
        assert engine.threads(limit=1).rows == ()

    def test_a_writer_that_was_taken_over_is_refused(self, harness: EngineHarness, engine: Engine) -> None:
        """P7, C08: after a takeover nothing of the old writer is stored: events, drafts or an ending."""
        row = writes.started_turn(engine, "T", "t1")
        other = harness.open()
        harness.clock.advance(31.0)
        commit(other, writes.claim(row, "owner2", expected="owner1"))
        stale = (
            writes.append(row, base=2),
            writes.draft(row, "d", b"late", after=2),
            writes.settle(row, base=2),
        )
        assert commit(engine, *stale) == [Fenced(fence=2)] * 3
        tail = engine.tail("T", after=0, rev=0, limit=9)
        assert (tail.head, tail.rev, tail.chunks) == (2, 0, ())
        assert commit(other, writes.settle(stored_turn(other, "T", "t1"), base=2)) == [Done(head=3, rev=0, fence=2)]

    def test_a_claim_adds_no_event(self, harness: EngineHarness, engine: Engine) -> None:
        """A claim alone moves neither head nor rev, and keeps row and thread as they are but for owner and fence."""
        row = writes.submitted_turn(engine, "T", "t1")
        before = engine.threads(thread="T", limit=1)
        commit(harness.open(), writes.claim(row, "owner2", expected="owner1"))
        assert engine.threads(thread="T", limit=1) == before
        after = stored_turn(engine, "T", "t1")
        assert (after.fold, after.phase, after.seq_last) == (row.fold, row.phase, row.seq_last)
