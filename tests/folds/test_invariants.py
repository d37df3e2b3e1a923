"""What every timeline holds, whatever happened in the turn."""

from __future__ import annotations

from hypothesis import given

from tests.folds.simulate import Simulator, threads, whole_drafts
from turnlog.events.kinds import Draft
from turnlog.folds.entries import Entry, TimelineView
from turnlog.folds.items import joined
from turnlog.folds.timeline import Timeline


def views(simulator: Simulator, turn: str) -> list[tuple[int, TimelineView]]:
    """The view after each frame from the submission of `turn` on, with the number of frames it has seen."""
    timeline, found = Timeline(turn), []
    for position, frame in enumerate(simulator.frames, 1):
        if isinstance(frame, Draft):
            timeline.draft(frame)
        else:
            timeline.event(frame)
        if position > 2:
            found.append((position, timeline.view()))
    return found


@given(threads())
def test_entries_are_ordered_and_nested(simulator: Simulator) -> None:
    """Entries stand in order, ids are unique, every parent is an entry, and there is no cycle (P9, C23)."""
    for _, view in views(simulator, "turn-1"):
        places = [(entry.seq, entry.rev) for entry in view.entries]
        assert places == sorted(places)
        parents = {entry.id: entry.parent for entry in view.entries}
        assert len(parents) == len(view.entries)
        for entry in view.entries:
            above, steps = entry.parent, 0
            while above is not None:
                assert steps <= len(parents)
                above, steps = parents[above], steps + 1


@given(threads())
def test_nothing_runs_after_the_end(simulator: Simulator) -> None:
    """When a turn has settled, no entry at any level is running or waiting any more (P3, C06, C42)."""
    simulator.interrupt()
    for number in range(simulator.turns):
        timeline = Timeline(f"turn-{number + 1}")
        for frame in simulator.frames:
            if not isinstance(frame, Draft):
                timeline.event(frame)
        view = timeline.view()
        if view.turn.state in ("completed", "interrupted"):
            assert {entry.status for entry in view.entries} <= {"succeeded", "failed", "interrupted", "unknown"}


@given(threads())
def test_open_drafts_are_shown(simulator: Simulator) -> None:
    """The text of every open draft stands in some entry at every position (P2)."""
    for position, view in views(simulator, "turn-1"):
        shown = [text for entry in view.entries for text in (entry.text, entry.args, entry.output) if text]
        for draft in whole_drafts(simulator.frames[:position]):
            if draft.turn == "turn-1":
                assert any(joined(draft.text) in text for text in shown)


@given(threads(reuse=False))
def test_an_entry_once_shown_stays(simulator: Simulator) -> None:
    """Where no name is used twice, an entry keeps its id and its place for ever (P2, C22)."""
    before: dict[str, Entry] = {}
    for _, view in views(simulator, "turn-1"):
        now = {entry.id: entry for entry in view.entries}
        assert before.keys() <= now.keys()
        assert all((now[id_].seq, now[id_].rev) == (entry.seq, entry.rev) for id_, entry in before.items())
        before = now
