"""Jobs that put right what is derived, and that append what a repair says. See `folds.repair`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from turnlog.engines.protocol import (
    Claim,
    Done,
    Engine,
    Outcome,
    OwnerAlive,
    Phase,
    SnapshotPart,
    ThreadRow,
    TurnRow,
    Write,
)
from turnlog.errors import Busy, InvalidInput, RecordDamaged, UnknownThread
from turnlog.events.body import DroppedText
from turnlog.events.kinds import Draft, KnownBody
from turnlog.events.thread_kinds import ThreadRepaired, ThreadRepairUndone
from turnlog.folds.audit import set_aside
from turnlog.folds.audit_turn import is_unread
from turnlog.folds.pages import stored_pages
from turnlog.folds.thread import ThreadFold, fold_thread
from turnlog.folds.turn import TurnView, decode_view
from turnlog.journal.auditing import REPAIRS, is_of_row
from turnlog.journal.comparing import whole_view
from turnlog.journal.follow import joined
from turnlog.journal.jobs import Job
from turnlog.journal.plan import Desk, Plan
from turnlog.journal.records import read_events
from turnlog.journal.state import ThreadState, catch_up, phase_of, thread_row, turn_row
from turnlog.journal.thread_jobs import ThreadJob
from turnlog.journal.traces import covered, fold_settled
from turnlog.limits import DEAD_OWNERS_MAX, SNAPSHOTS_KEPT

NOTHING_TO_DO = None
"""What a job gives that found that there is nothing to do any more."""


@dataclass(kw_only=True, eq=False, slots=True)
class SetAsideJob(ThreadJob):
    """Append the event that sets findings aside, unless they are already."""

    body: ThreadRepaired

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`."""
        known = set_aside(read_events(desk.engine, self.thread, 0, kinds=REPAIRS))
        return None if all((self.body.finding, seq) in known for seq in self.body.seqs[:1]) else self.body

    def value(self, plan: Plan, dones: Sequence[Done]) -> int | None:
        """See `Job`: the event's seq."""
        return plan.head if plan.events else NOTHING_TO_DO


@dataclass(kw_only=True, eq=False, slots=True)
class UndoJob(ThreadJob):
    """Let a repair hold no longer."""

    repair: int
    by: str | None

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`. Raises `InvalidInput` for what is no repair, or one that nothing can bring back."""
        repaired = False
        for event in read_events(desk.engine, self.thread, 0, kinds=REPAIRS):
            body = event.body
            if isinstance(body, ThreadRepaired) and event.seq == self.repair:
                repaired = bool(body.seqs)
            elif isinstance(body, ThreadRepairUndone) and body.repair == self.repair:
                return None
        if not repaired:
            raise InvalidInput(field="seq", problem="is no repair that can be undone")
        return ThreadRepairUndone(repair=self.repair, by=self.by)


@dataclass(kw_only=True, eq=False, slots=True)
class MoveDraftJob(ThreadJob):
    """Move the text of a draft that was left behind by a settled turn into an event."""

    turn: str
    draft: str
    by: str | None

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`: the event and the end of the draft are one write."""
        plan = super(MoveDraftJob, self).seal(state, desk)
        plan.writes = [replace(write, turn=self.turn, drop=(self.draft,)) for write in plan.writes]
        return plan

    def body_for(self, state: ThreadState, desk: Desk) -> KnownBody | None:
        """See `ThreadJob`."""
        row = desk.row(self.thread, turn=self.turn)
        found = self._draft(state, desk.engine)
        if row is None or row.phase is not Phase.SETTLED or found is None:
            return None
        dropped = [DroppedText(draft=found.draft, text=found.text)]
        return ThreadRepaired(finding="draft_left_behind", turn=self.turn, dropped=dropped, by=self.by)

    def _draft(self, state: ThreadState, engine: Engine) -> Draft | None:
        tail = engine.tail(self.thread, after=state.head, rev=0, limit=1)
        return next((each for each in joined(tail) if (each.turn, each.draft) == (self.turn, self.draft)), None)

    def value(self, plan: Plan, dones: Sequence[Done]) -> int | None:
        """See `Job`: the event's seq."""
        return plan.head if plan.events else NOTHING_TO_DO


@dataclass(kw_only=True, eq=False, slots=True)
class RebuildThreadJob(Job):
    """Put a thread's row, its head with it, as its events make it. `fold` is that of its events up to `head`."""

    fold: ThreadFold
    head: int

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`."""
        stored = _stored_thread(desk.engine, self.thread)
        for event in read_events(desk.engine, self.thread, self.head):
            self.fold = fold_thread(self.fold, event) if is_of_row(event) else self.fold
            self.head = event.seq
        row = replace(thread_row(self.thread, self.fold), head=max(self.head, stored.head))
        plan = Plan(state, desk.clock.now_us())
        plan.writes.append(Write(thread=self.thread, base=stored.head, thread_row=row, rebuild=True))
        return plan

    def value(self, plan: Plan, dones: Sequence[Done]) -> bool:
        """See `Job`: what the writer remembers of the thread came from the row that was wrong."""
        plan.state.fold, plan.state.head, plan.state.stale = self.fold, dones[-1].head, True
        return True


@dataclass(kw_only=True, eq=False, slots=True)
class RebuildTurnJob(Job):
    """Put a turn's row as its events make it, unless the row is another than `row` by now, or its owner alive.

    With `reopen`, it becomes an open turn of this log's, which nobody works on: recovery settles it.
    """

    row: TurnRow
    view: TurnView
    reopen: bool = False
    places: bool = False
    """The row may be as it should be: what the engine keeps beside it is not."""

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. Raises `Busy` while another turn of the thread runs, where this one would run beside it."""
        catch_up(desk.engine, state, desk.owner)
        plan = Plan(state, desk.clock.now_us())
        now = desk.row(self.thread, turn=self.row.turn)
        if now is None or now != self.row or not self._may_touch(state, desk):
            return plan
        stored = _stored_thread(desk.engine, self.thread)
        row = turn_row(now, self.view)
        if row == now and not self.reopen and not self.places:
            return plan
        for other in state.open.values():
            if row.phase is phase_of(other.view.state) is Phase.STARTED and other.row.turn != row.turn:
                raise Busy(thread=self.thread, turn=row.turn, running=other.row.turn)
        plan.writes.append(
            Write(thread=self.thread, base=stored.head, turn=row.turn, turn_row=row, rebuild=True),
        )
        if self.reopen:
            claim = Claim(owner=desk.owner, expected=now.owner)
            plan.writes.append(Write(thread=self.thread, turn=row.turn, claim=claim))
        return plan

    def _may_touch(self, state: ThreadState, desk: Desk) -> bool:
        """Whether no living writer works on the turn. Of one that is opened again, the claim tells."""
        row, known = self.row, state.open.get(self.row.turn)
        if row.phase is Phase.SETTLED:
            return True
        if row.owner in (None, desk.owner):
            return known is None or not known.ours
        return row.owner in desk.engine.dead_owners(limit=DEAD_OWNERS_MAX)

    def value(self, plan: Plan, dones: Sequence[Done]) -> bool | None:
        """See `Job`."""
        plan.state.stale = True
        return True if dones else NOTHING_TO_DO

    def refusal(self, outcome: Outcome) -> bool | None:
        """See `Job`: somebody else was quicker, or its owner lives, and settles it as soon as it looks."""
        return True if isinstance(outcome, OwnerAlive) else NOTHING_TO_DO


@dataclass(kw_only=True, eq=False, slots=True)
class SnapshotJob(Job):
    """Store the snapshot of a settled turn anew. `pages` are its bodies, covering `seq`."""

    turn: str
    seq: int
    pages: Sequence[bytes]

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`."""
        plan = Plan(state, desk.clock.now_us())
        for number, body in enumerate(self.pages):
            last = number == len(self.pages) - 1
            part = SnapshotPart(seq=self.seq, first=number, pages=(body,), last=last, keep=SNAPSHOTS_KEPT)
            plan.writes.append(Write(thread=self.thread, turn=self.turn, snapshot=part))
        return plan

    def value(self, plan: Plan, dones: Sequence[Done]) -> bool:
        """See `Job`."""
        return True


def snapshot_pages(engine: Engine, row: TurnRow, view: TurnView) -> tuple[int, list[bytes]]:
    """The seq and the pages of a settled turn's snapshot. Raises `RecordDamaged`."""
    shown = fold_settled(engine, row, view)
    return covered(row, view), list(stored_pages(shown.turn, shown.entries))


def rebuilt_view(engine: Engine, row: TurnRow, *, reopen: bool) -> TurnView | None:
    """A turn's view as its events make it. Where some cannot be trusted, the row knows better, but for its places.

    None when no event says what the turn is.
    """
    view = whole_view(engine, row.thread, row.turn)
    try:
        stored = decode_view(row.fold)
    except RecordDamaged:
        return view
    if view is None or reopen or not _has_unread(engine, row):
        return view
    return replace(stored, seq_first=view.seq_first, seq_last=view.seq_last, late=view.late)


def whole_fold(engine: Engine, thread: str) -> tuple[ThreadFold, int]:
    """A thread's fold from all of its events, and the last one's seq."""
    fold, head = ThreadFold(), 0
    for event in read_events(engine, thread, 0):
        if is_of_row(event):
            fold = fold_thread(fold, event)
        head = event.seq
    return fold, head


def _has_unread(engine: Engine, row: TurnRow) -> bool:
    return any(is_unread(event) for event in read_events(engine, row.thread, 0, turn=row.turn))


def _stored_thread(engine: Engine, thread: str) -> ThreadRow:
    rows = engine.threads(thread=thread, limit=1).rows
    if not rows:
        raise UnknownThread(thread=thread)
    return rows[0]
