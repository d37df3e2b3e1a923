"""What the memory engine finds when its own structures do not agree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.testing import writes
from turnlog.testing.clock import ManualClock
from turnlog.testing.writes import commit


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def engine(store: MemoryStore) -> MemoryEngine:
    engine = MemoryEngine(store, ManualClock())
    row = writes.started_turn(engine, "T", "t1")
    commit(engine, writes.draft(row, "d", b"x", after=2), writes.note("U", base=0, count=2))
    return engine


def test_events_and_drafts_of_a_lost_turn_are_orphans(store: MemoryStore, engine: MemoryEngine) -> None:
    """P4: each event is named by its seq and turn, drafts by their turn; another thread is sound."""
    del store.threads["T"].turns["t1"]
    found = [(damage.what, damage.thread, damage.turn, damage.seq) for damage in engine.check()]
    assert found == [("orphan", "T", "t1", 1), ("orphan", "T", "t1", 2), ("orphan", "T", "t1", None)]
    assert list(engine.check("U")) == []


def test_a_seq_that_is_taken_twice_is_found(store: MemoryStore, engine: MemoryEngine) -> None:
    """P4: it is named, and so is the head that is not reached any more."""
    events = store.threads["U"].events
    events[1] = replace(events[1], seq=1)
    found = [(damage.what, damage.thread, damage.seq) for damage in engine.check()]
    assert found == [("head", "U", 1), ("duplicate", "U", 1)]
