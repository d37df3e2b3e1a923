"""A turn's trace is the same from its snapshot as from its events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.simulate import Simulator, threads
from tests.journal.test_reading import Keeper
from turnlog.engines.protocol import Engine, Phase, SnapshotPart, TurnRow, Write
from turnlog.folds import pages
from turnlog.folds.entries import TimelineView
from turnlog.folds.pages import stored_pages
from turnlog.folds.turn import decode_view
from turnlog.journal.traces import FoldedTrace, StoredTrace, Trace, covered, fold_settled
from turnlog.limits import SNAPSHOTS_KEPT


def keep(engine: Engine, row: TurnRow, view: TimelineView) -> None:
    bodies = tuple(stored_pages(view.turn, view.entries))
    part = SnapshotPart(seq=covered(row, view.turn), first=0, pages=bodies, last=True, keep=SNAPSHOTS_KEPT)
    engine.commit([Write(thread="t", turn=row.turn, snapshot=part)])


def all_of(trace: Trace, limit: int) -> list[object]:
    """Everything that can be asked of a trace."""
    asked: list[object] = [trace.whole(), list(trace.briefs())]
    after: bytes | None = None
    while True:
        part = trace.part(after, limit)
        asked.append(part)
        after = part.next
        if after is None:
            break
    numbers = list(range(len(trace.briefs()) - 1, -1, -2))
    return [*asked, list(trace.numbered(numbers))]


@given(threads(), st.integers(1, 4), st.integers(1, 5))
def test_a_snapshot_shows_what_the_events_show(simulator: Simulator, count: int, limit: int) -> None:
    """Whole, in brief, in parts of any size and by number, a settled turn's snapshot gives what its refold gives, with
    late events, dropped attempts and three levels of sub-agents (P9)."""
    keeper = Keeper()
    keeper.keep(simulator.frames)
    for row in keeper.engine.turns(thread="t", limit=1_000).rows:
        if row.phase is not Phase.SETTLED:
            continue
        view = fold_settled(keeper.engine, row, decode_view(row.fold))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pages, "SNAPSHOT_PAGE_ENTRIES_MAX", count)
            keep(keeper.engine, row, view)
        stored = StoredTrace(keeper.engine, row, covered(row, view.turn))
        assert all_of(stored, limit) == all_of(FoldedTrace(view), limit)
