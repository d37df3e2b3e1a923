"""Jobs that write what happens to a thread as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from turnlog.engines.protocol import Done, Phase, TurnRow, Write
from turnlog.errors import Busy, InvalidInput, ThreadImporting, UnknownThread
from turnlog.events.kinds import KnownBody
from turnlog.events.thread_kinds import ThreadCompacted, ThreadRenamed, ThreadSettings, TruncateWhy
from turnlog.journal.jobs import Job
from turnlog.journal.plan import Desk, Plan, record
from turnlog.journal.state import ThreadState, catch_up
from turnlog.journal.truncating import Cut, cut, hidden_of, newest_first, shown_turn


class Truncated(msgspec.Struct, frozen=True, kw_only=True):
    """A truncation: its seq, and the turns it has hidden, in order of submission.

    `more` tells that it has hidden older ones too, which are not named here.
    """

    seq: int
    hidden: tuple[str, ...]
    more: bool = False


@dataclass(kw_only=True, eq=False, slots=True)
class ThreadJob(Job):
    """Append one event of the thread itself."""

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. Raises `UnknownThread`."""
        catch_up(desk.engine, state, desk.owner)
        if state.fold is None:
            raise UnknownThread(thread=self.thread)
        if state.fold.importing:
            raise ThreadImporting(thread=self.thread)
        plan = Plan(state, desk.clock.now_us())
        body = self.body_for(state, desk)
        if body is not None:
            plan.event(body, None)
            plan.writes.append(
                Write(
                    thread=self.thread,
                    base=state.head,
                    events=tuple(record(event) for event in plan.events),
                    thread_row=plan.thread_row_after(),
                )
            )
        return plan

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """What to append to the thread as it stands, None when that changes nothing, or raise why it is refused."""
        raise NotImplementedError

    def value(self, plan: Plan, dones: Sequence[Done]) -> Any:
        """See `Job`: the head after it."""
        return plan.head


@dataclass(kw_only=True, eq=False, slots=True)
class RenameJob(ThreadJob):
    """Give the thread another title."""

    body: ThreadRenamed

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`."""
        assert state.fold is not None
        return None if state.fold.title == (self.body.title or state.fold.first) else self.body


@dataclass(kw_only=True, eq=False, slots=True)
class PinJob(ThreadJob):
    """Pin the thread, or let it go."""

    body: ThreadSettings

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`."""
        assert state.fold is not None
        return None if state.fold.pinned == self.body.pinned else self.body


@dataclass(kw_only=True, eq=False, slots=True)
class TruncateJob(ThreadJob):
    """Take a turn and everything begun after it out of the conversation."""

    turn: str
    why: TruncateWhy
    by: str | None
    cut: Cut | None = None

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob` and `cut`."""
        self.cut = cut(state, desk, self.turn, why=self.why, by=self.by)
        return self.cut.body

    def value(self, plan: Plan, dones: Sequence[Done]) -> Truncated:
        """See `Job`."""
        assert self.cut is not None
        return Truncated(seq=plan.head, hidden=self.cut.hidden, more=self.cut.more)


@dataclass(kw_only=True, eq=False, slots=True)
class CompactJob(ThreadJob):
    """Note a summary that stands for the beginning of the thread in what an agent is given."""

    summary: str
    until: str | None
    by: str | None

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`. Raises `Busy` when a turn that the summary would tell of is open."""
        row = self._last_told(state, desk)
        for running in state.open_before(row.seq_first + 1):
            raise Busy(thread=self.thread, turn=row.turn, running=running.row.turn)
        return ThreadCompacted(summary=self.summary, until=row.seq_first, by=self.by)

    def _last_told(self, state: ThreadState, desk: Desk) -> TurnRow:
        hidden = hidden_of(state, desk)
        if self.until is not None:
            return shown_turn(state, desk, self.until, hidden)
        running = state.open_before(state.head + 1)
        end = running[0].row.seq_first if running else state.head + 1
        for row in newest_first(desk.engine, self.thread):
            if row.phase is Phase.SETTLED and row.seq_first < end and hidden.by(row.seq_first) is None:
                return row
        if running:
            raise Busy(thread=self.thread, running=running[0].row.turn)
        raise InvalidInput(field="until", problem="no turn of the thread has ended")
