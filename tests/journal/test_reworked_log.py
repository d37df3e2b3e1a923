"""Turns queued, interrupted, asked again, edited, taken back and forked at random: a model tells what is shown."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.errors import Busy, NotRetryable, Refused, TurnHidden
from turnlog.events.clock import SystemClock
from turnlog.journal import fork_job
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn


@dataclass
class Played:
    """A log, and by a plain model which turns of its thread are shown, in order."""

    log: Log
    turns: dict[str, Turn] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> list[str]:
        return [id_ for id_, turn in self.turns.items() if turn.state not in ("completed", "interrupted")]

    def accept(self, turn: Turn) -> str:
        self.turns[turn.id] = turn
        self.shown.append(turn.id)
        return turn.id

    def submit(self) -> None:
        self.accept(self.log.submit("t", f"message {len(self.turns)}", when_busy="queue").result())

    def end(self, *, well: bool) -> None:
        turn = self.turns[self.open[0]]
        turn.start().result()
        if well:
            turn.complete().result()
        else:
            turn.interrupt("failed").result()

    def cancel(self) -> None:
        self.turns[self.open[-1]].interrupt("cancelled").result()

    def retry(self, turn: str) -> None:
        try:
            child = self.log.retry("t", turn, when_busy="queue").result()
        except NotRetryable:
            children = {child for child, parent in self.parents.items() if parent == turn}
            shown = {turn, *children} <= set(self.shown)
            assert not shown or self.turns[turn].state != "interrupted"
            return
        if child.id not in self.turns:
            assert turn in self.shown
            self.parents[self.accept(child)] = turn

    def cut(self, turn: str) -> list[str] | None:
        """What would go with a turn; None while something of it is open."""
        at = self.shown.index(turn)
        while at and self.parents.get(self.shown[at]) == self.shown[at - 1]:
            at -= 1
        gone = self.shown[at:]
        return None if set(gone) & set(self.open) else gone

    def truncate(self, turn: str) -> None:
        if turn not in self.shown:
            with pytest.raises(TurnHidden):
                self.log.truncate("t", turn).result()
            return
        gone = self.cut(turn)
        if gone is None:
            with pytest.raises(Busy):
                self.log.truncate("t", turn).result()
            return
        assert list(self.log.truncate("t", turn).result().hidden) == gone
        self.shown = [it for it in self.shown if it not in gone]

    def edit(self, turn: str) -> None:
        gone = self.cut(turn) if turn in self.shown else None
        try:
            edit = self.log.submit("t", "edited", edit_of=turn, when_busy="queue").result()
        except Refused:
            assert gone is None
            return
        assert gone is not None
        self.shown = [it for it in self.shown if it not in gone]
        self.accept(edit)


@st.composite
def played(draw: st.DrawFn) -> Played:
    log = Played(Log(MemoryEngine(MemoryStore(), SystemClock())))
    for _ in range(draw(st.integers(1, 30))):
        act = draw(st.sampled_from(["submit", "well", "badly", "cancel", "retry", "truncate", "edit"]))
        if act == "submit" and len(log.open) < 4:
            log.submit()
        elif act in ("well", "badly", "cancel") and log.open:
            log.cancel() if act == "cancel" else log.end(well=act == "well")
        elif act in ("retry", "truncate", "edit") and log.turns:
            getattr(log, act)(draw(st.sampled_from(list(log.turns))))
    return log


def shown_rows(log: Log, thread: str) -> list[str]:
    """The turns that no truncation hides, in order."""
    return [row.turn for row in reversed(log.turns(thread, limit=1_000).rows) if row.hidden_by is None]


@settings(max_examples=60, deadline=None)
@given(played())
def test_what_is_shown_is_what_was_not_taken_back(played: Played) -> None:
    """C12: rows, the thread's newest turn and receipts tell what a plain model of what people did tells."""
    with played.log as log:
        if played.turns:
            assert shown_rows(log, "t") == played.shown
            assert log.thread("t").latest == (played.shown[-1] if played.shown else None)


@settings(max_examples=60, deadline=None)
@given(played(), st.data())
def test_a_fork_at_any_turn_is_the_thread_up_to_it(played: Played, data: st.DataObject) -> None:
    """C12, P10: a fork at a turn is a prefix byte for byte, that turn is its newest, nothing that followed shows."""
    with pytest.MonkeyPatch.context() as patched, played.log as log:
        patched.setattr(fork_job, "FORK_PAGE_EVENTS", data.draw(st.integers(1, 9)))
        if not played.turns:
            return
        turn = data.draw(st.sampled_from(list(played.turns)))
        try:
            fork = log.fork("t", "f", turn=turn).result()
        except Busy as busy:
            assert busy.running in played.open
            return
        copied = [(it.seq, it.turn, it.data) for it in log.events("f")]
        end = [it.kind for it in log.events("f")].index("thread_forked")
        assert copied[:end] == [(it.seq, it.turn, it.data) for it in log.events("t")][:end]
        assert (fork.latest, shown_rows(log, "f")[-1]) == (turn, turn)
        assert not log.turn_view("f", turn).hidden_by
