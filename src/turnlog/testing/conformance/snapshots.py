"""Snapshots: pages beside a turn, given only when they are whole, of a bounded number of turns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from turnlog.engines.protocol import Done, Engine, Fenced, SnapshotPage
from turnlog.errors import InvalidInput
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness
from turnlog.testing.writes import commit


class SnapshotsConformance(Conformance):
    """See the module."""

    def test_a_whole_snapshot_is_read_by_its_pages(self, harness: EngineHarness, engine: Engine) -> None:
        """P9: each page comes back byte for byte with the seq it covers, in every process; beyond them is none."""
        writes.started_turn(engine, "T", "t1")
        bodies = (b"zero", b"", bytes(range(256)) * 8_000)
        commit(engine, writes.snapshot("T", "t1", *bodies, seq=2))
        for reader in (engine, harness.open()):
            found = [reader.snapshot("T", "t1", page=page) for page in range(4)]
            assert found == [*(SnapshotPage(seq=2, page=n, pages=3, body=body) for n, body in enumerate(bodies)), None]
            assert reader.snapshot("T", "t2") is None
            assert reader.snapshot("U", "t1") is None

    def test_half_of_a_snapshot_is_none(self, engine: Engine) -> None:
        """P9: until its last part is stored there is no snapshot, in one batch or in several; the first part of a new
        one takes the old one away."""
        writes.started_turn(engine, "T", "t1")
        first = writes.snapshot("T", "t1", b"a", b"b", seq=2, last=False)
        last = writes.snapshot("T", "t1", b"c", seq=2, first=2)
        commit(engine, first)
        assert engine.snapshot("T", "t1") is None
        commit(engine, last)
        assert [_body(engine, "t1", page) for page in range(4)] == [b"a", b"b", b"c", None]
        commit(engine, first)
        assert engine.snapshot("T", "t1") is None
        commit(engine, first, last)
        assert [_body(engine, "t1", page) for page in range(4)] == [b"a", b"b", b"c", None]

    def test_a_new_snapshot_leaves_nothing_of_the_old_one(self, engine: Engine) -> None:
        """P9: a shorter snapshot has only its own pages."""
        writes.started_turn(engine, "T", "t1")
        commit(engine, writes.snapshot("T", "t1", b"a", b"b", b"c", seq=2))
        commit(engine, writes.snapshot("T", "t1", b"d", seq=3))
        assert engine.snapshot("T", "t1") == SnapshotPage(seq=3, page=0, pages=1, body=b"d")
        assert engine.snapshot("T", "t1", page=1) is None

    def test_parts_of_two_snapshots_are_never_mixed(self, engine: Engine) -> None:
        """P9: of two that make a turn's snapshot, a part that does not go on with what is stored changes nothing."""
        writes.started_turn(engine, "T", "t1")
        commit(engine, writes.snapshot("T", "t1", b"a", b"b", seq=2, last=False))
        for late in (
            writes.snapshot("T", "t1", b"x", seq=3, first=2),
            writes.snapshot("T", "t1", b"x", seq=2, first=1),
            writes.snapshot("T", "t1", b"x", seq=2, first=3),
        ):
            assert commit(engine, late) == [Done(head=2, rev=0, fence=1)]
            assert engine.snapshot("T", "t1") is None
        whole = writes.snapshot("T", "t1", b"c", seq=2, first=2)
        commit(engine, whole, replace(whole))
        assert [_body(engine, "t1", page) for page in range(4)] == [b"a", b"b", b"c", None]

    def test_only_the_newest_turns_keep_their_snapshots(self, engine: Engine) -> None:
        """P11: storing one more takes the oldest turn's away, in the same write, whatever the order of storing; other
        threads keep theirs."""
        for n in range(5):
            commit(engine, writes.submission("T", f"t{n}", base=n))
        commit(engine, writes.submission("U", "t0"), writes.snapshot("U", "t0", b"u", seq=1, keep=2))
        for n in (3, 0, 1, 4):
            commit(engine, writes.snapshot("T", f"t{n}", b"%d" % n, b"", seq=n + 1, keep=2))
        assert [_body(engine, f"t{n}") for n in range(5)] == [None, None, None, b"3", b"4"]
        assert engine.snapshot("U", "t0") is not None
        commit(engine, writes.snapshot("T", "t2", b"2", seq=3, keep=3))
        assert [_body(engine, f"t{n}") for n in range(5)] == [None, None, b"2", b"3", b"4"]

    def test_a_ring_that_turns_within_a_batch_leaves_nothing_half(self, engine: Engine) -> None:
        """P9: a part whose beginning the same batch took away is left out."""
        for n in range(2):
            commit(engine, writes.submission("T", f"t{n}", base=n))
        commit(
            engine,
            writes.snapshot("T", "t0", b"a", seq=1, last=False, keep=1),
            writes.snapshot("T", "t1", b"b", seq=2, keep=1),
            writes.snapshot("T", "t0", b"c", seq=1, first=1, keep=1),
        )
        assert [_body(engine, turn, page) for turn in ("t0", "t1") for page in (0, 1)] == [None, None, b"b", None]

    def test_a_snapshot_of_no_turn_is_fenced(self, engine: Engine) -> None:
        """A turn that the engine does not know has none."""
        writes.started_turn(engine, "T", "t1")
        refused = [writes.snapshot("T", "t2", b"a", seq=2), writes.snapshot("U", "t1", b"a", seq=2)]
        assert commit(engine, *refused) == [Fenced(fence=0), Fenced(fence=0)]
        assert engine.snapshot("T", "t2") is None
        assert engine.threads(thread="U", limit=1).rows == ()

    def test_a_snapshot_is_no_news(self, engine: Engine) -> None:
        """P11: it changes neither rows of thread and turn nor the rev, and wakes nobody, settled turns' too."""
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.settle(row, base=2))
        _, position = engine.changes(b"", 0.0)
        before = (engine.threads(limit=9), engine.turns(thread="T", limit=9), engine.tail("T", after=0, rev=0, limit=9))
        assert commit(engine, writes.snapshot("T", "t1", b"a", seq=3)) == [Done(head=3, rev=0, fence=1)]
        after = (engine.threads(limit=9), engine.turns(thread="T", limit=9), engine.tail("T", after=0, rev=0, limit=9))
        assert after == before
        assert engine.changes(position, 0.0) == ([], position)
        assert engine.snapshot("T", "t1") is not None

    def test_snapshots_outlive_the_engine(self, harness: EngineHarness, engine: Engine) -> None:
        """Promise 1: an accepted snapshot is there after reopening, if the engine is durable."""
        writes.started_turn(engine, "T", "t1")
        commit(engine, writes.snapshot("T", "t1", b"a", seq=2))
        durable = engine.caps.durable
        assert (harness.reopen().snapshot("T", "t1") is not None) or not durable

    def test_a_page_that_is_no_number_is_refused(self, engine: Engine) -> None:
        """A page is a whole number from 0 on."""
        for bad in (-1, 1.0, "0", 2**31, True):
            with pytest.raises(InvalidInput) as refusal:
                engine.snapshot("T", "t1", page=bad)  # type: ignore[arg-type]
            assert refusal.value.field == "page"
        assert engine.snapshot("T", "t1", page=2**31 - 1) is None


def _body(engine: Engine, turn: str, page: int = 0) -> bytes | None:
    found = engine.snapshot("T", turn, page=page)
    return None if found is None else found.body
