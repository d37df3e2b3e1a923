"""Promise 6: leases, locks and who counts as dead."""

from __future__ import annotations

import pytest

from turnlog.engines.protocol import Engine
from turnlog.errors import StoreError
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit, stored_turn


class OwnersConformance(Conformance):
    """See the module."""

    def test_an_owner_with_lease_and_lock_is_alive(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: nobody, the engine itself included, lists it as dead."""
        writes.started_turn(engine, "T", "t1")
        assert engine.dead_owners(limit=9) == harness.open().dead_owners(limit=9) == []

    def test_a_killed_owner_is_dead_at_once(self, harness: EngineHarness, engine: Engine) -> None:
        """P8: its lock is free, though its lease runs."""
        other = harness.open()
        harness.kill(engine)
        assert other.dead_owners(limit=9) == ["owner1"]

    def test_a_silent_owner_is_dead_after_its_lease(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: its lock is held, but its lease is out."""
        other = harness.open()
        harness.clock.advance(30.0)
        assert other.dead_owners(limit=9) == ["owner1"]

    def test_renewing_keeps_an_owner_alive(self, harness: EngineHarness, engine: Engine) -> None:
        """P7, C07: a lease counts from its last renewal."""
        other = harness.open()
        for _ in range(5):
            harness.clock.advance(20.0)
            engine.lease("owner1", 30.0)
            assert other.dead_owners(limit=9) == []

    def test_wall_time_ends_no_lease(self, harness: EngineHarness, engine: Engine) -> None:
        """C25: a wall clock that jumps changes nothing about who is alive."""
        harness.clock.set(now_us=harness.clock.now_us() + 10**15)
        assert harness.open().dead_owners(limit=9) == []

    def test_an_owner_of_an_open_turn_without_a_lease_is_dead(self, engine: Engine) -> None:
        """P8: a turn whose owner never had, or has ended, its lease is found."""
        commit(engine, writes.submission("T", "t1", owner="owner9"))
        assert engine.dead_owners(limit=9) == ["owner9"]
        commit(engine, writes.settle(stored_turn(engine, "T", "t1"), base=1))
        assert engine.dead_owners(limit=9) == []

    def test_dead_owners_are_as_many_as_asked_for(self, engine: Engine) -> None:
        """P11: the list is bounded by its limit, living owners not counted."""
        commit(engine, *[writes.submission(f"T{n}", "t1", owner=f"dead{n}") for n in range(5)])
        assert len(engine.dead_owners(limit=3)) == 3
        assert sorted(engine.dead_owners(limit=9)) == [f"dead{n}" for n in range(5)]

    def test_ending_a_lease_frees_lock_and_row(self, harness: EngineHarness, engine: Engine) -> None:
        """An owner that ends leaves nothing: it is not dead, it is gone, and its lock can be taken."""
        engine.lease("owner1", 0.0)
        other = harness.open()
        assert other.dead_owners(limit=9) == []
        assert other.lease_end() is None
        other.lease("owner1", 30.0)
        assert engine.dead_owners(limit=9) == []

    def test_ending_a_lease_twice_is_harmless(self, engine: Engine) -> None:
        """Ending what has no lease does nothing."""
        engine.lease("owner1", 0.0)
        engine.lease("owner1", 0.0)
        engine.lease("nobody", 0.0)
        assert engine.dead_owners(limit=9) == []

    def test_a_living_owners_lease_is_not_ended_by_others(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: ending another owner's lease is refused silently while it is alive."""
        writes.started_turn(engine, "T", "t1")
        other = harness.open()
        other.lease("owner1", 0.0)
        assert other.dead_owners(limit=9) == []
        assert other.lease_end() == 30.0

    def test_a_dead_owners_lease_is_ended_by_others(self, harness: EngineHarness, engine: Engine) -> None:
        """P8: whoever recovers removes the row of the dead."""
        other = harness.open()
        harness.kill(engine)
        other.lease("owner1", 0.0)
        assert other.dead_owners(limit=9) == []

    def test_a_silent_owner_comes_back(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: an owner whose lease others ended while it was stopped is alive again once it renews."""
        other = harness.open()
        harness.clock.advance(31.0)
        other.lease("owner1", 0.0)
        engine.lease("owner1", 30.0)
        assert other.dead_owners(limit=9) == []

    def test_a_lock_has_one_holder(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: a lease on an owner whose lock is another engine's raises, and takes nothing away."""
        other = harness.open()
        with pytest.raises(StoreError):
            other.lease("owner1", 99.0)
        assert other.lease_end() == 30.0
        engine.lease("owner1", 30.0)

    def test_looking_does_not_disturb_the_holder(self, harness: EngineHarness, engine: Engine) -> None:
        """P7: however often others look, the lock stays held."""
        others = [harness.open(), harness.open()]
        for _ in range(20):
            for other in others:
                assert other.dead_owners(limit=9) == []
        harness.kill(others[0])
        assert others[1].dead_owners(limit=9) == []

    def test_lease_end_is_that_of_the_first_other_owner(self, harness: EngineHarness, engine: Engine) -> None:
        """P8: seconds until the next lease of somebody else may be out; none without one."""
        other = harness.open()
        other.lease("owner2", 10.0)
        third = harness.open()
        assert engine.lease_end() == 10.0
        assert other.lease_end() == 30.0
        assert third.lease_end() == 10.0
        harness.clock.advance(10.0)
        assert third.lease_end() == 20.0
        harness.clock.advance(20.0)
        assert third.lease_end() is None

    def test_closing_leaves_the_lease_row(self, harness: EngineHarness, engine: Engine) -> None:
        """`close` frees locks and ends no lease: an owner that has open turns is found dead."""
        other = harness.open()
        engine.close()
        assert other.dead_owners(limit=9) == ["owner1"]
