"""Settling the turns of dead writers: once, honestly, without running anything again.

Two writes a turn. The first claims it, so that its old writer is fenced off whatever it still does; then everything is
read again; the second closes the drafts and interrupts the turn. Who dies between them is a dead owner too.

Each claim raises the fence, so it tells how often a recovery was begun. What a recovery has died of before, its turn or
one that was claimed with it, is taken one by one, the least suspect first; and a turn that was begun too often is ended
unread. A turn that damage of the store keeps from being ended stays open, and keeps no other waiting.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from turnlog.engines.protocol import Claim, Done, Engine, Outcome, OwnerId, TurnRow, Write
from turnlog.errors import RecordDamaged, StoreDamaged, StoreError
from turnlog.events.clock import Clock
from turnlog.events.kinds import Reason
from turnlog.folds.states import TERMINAL
from turnlog.folds.turn import TurnView, decode_view
from turnlog.journal.ends import detail_of
from turnlog.journal.plan import Plan
from turnlog.journal.records import bare_view, thread_fold
from turnlog.journal.settle import plan_interrupted
from turnlog.journal.state import OpenTurn, ThreadState, load, turn_row
from turnlog.limits import DEAD_OWNERS_MAX, RECOVER_TURNS_MAX, RECOVERY_TRIES_MAX, RESEAL_TRIES_MAX, RESEAL_WAIT_S

Pair = tuple[str, str]
"""(thread, turn)."""

_SUBMITTED_FENCE = 1
"""The fence of a turn that nobody has claimed since it was submitted."""

_logger = logging.getLogger("turnlog")


class Recovered(NamedTuple):
    """A turn that recovery settled. Whether its `unknown_calls`, begun by the dead writer, had an effect is open."""

    thread: str
    turn: str
    reason: Reason
    unknown_calls: tuple[str, ...]


def recover(engine: Engine, owner: OwnerId, clock: Clock, mine: Collection[Pair]) -> list[Recovered]:
    """Settle every open turn whose owner is dead, and what an earlier recovery by `owner` claimed but did not settle.

    `mine` are the turns that `owner` is working on. Returns what this call settled; a second call finds nothing.
    """
    found: list[Recovered] = []
    while True:
        rows, forgotten = _dead_turns(engine, owner, mine)
        settled: list[Recovered] = []
        for group in _groups(rows):
            settled += _settle(engine, owner, clock, _claim(engine, owner, group))
        found += settled
        if not settled and not forgotten:  # nothing is left, or others were quicker, or the owners are alive after all
            return found


def _dead_turns(engine: Engine, owner: OwnerId, mine: Collection[Pair]) -> tuple[list[TurnRow], int]:
    """Open turns of dead owners, a bounded number; owners that have none left are forgotten and counted."""
    rows: list[TurnRow] = []
    forgotten = 0
    try:
        for dead in engine.dead_owners(limit=DEAD_OWNERS_MAX):
            if dead == owner or len(rows) >= RECOVER_TURNS_MAX:
                continue
            try:
                found = engine.turns(owner=dead, open_only=True, limit=RECOVER_TURNS_MAX).rows
            except StoreDamaged as error:
                _logger.warning("open turns of a dead writer stay open: %s", error)
                continue
            if not found:
                engine.lease(dead, 0)
                forgotten += 1
            rows += found
        rows += _claimed_before(engine, owner, mine)
    except StoreDamaged as error:
        _logger.warning("it cannot be told which turns of dead writers are open: %s", error)
    return _in_order(rows[:RECOVER_TURNS_MAX]), forgotten


def _in_order(rows: Iterable[TurnRow]) -> list[TurnRow]:
    return sorted(rows, key=lambda row: row.seq_first)


def _claimed_before(engine: Engine, owner: OwnerId, mine: Collection[Pair]) -> list[TurnRow]:
    """Open turns that are the owner's by an earlier claim, or by a submission nobody knows of: nobody works on them."""
    rows: list[TurnRow] = []
    before: bytes | None = None
    while len(rows) < RECOVER_TURNS_MAX:
        page = engine.turns(owner=owner, open_only=True, before=before, limit=RECOVER_TURNS_MAX)
        rows += [row for row in page.rows if (row.thread, row.turn) not in mine]
        if page.next is None:
            break
        before = page.next
    return rows


def _groups(rows: Sequence[TurnRow]) -> Iterator[Sequence[TurnRow]]:
    """What is claimed together: all threads that no recovery was begun in, then the turns of the others one by one."""
    begun: dict[str, int] = {}
    for row in rows:
        begun[row.thread] = max(begun.get(row.thread, 0), row.fence - _SUBMITTED_FENCE)
    if sound := [row for row in rows if not begun[row.thread]]:
        yield sound
    suspect = [row for row in rows if begun[row.thread]]
    for row in sorted(suspect, key=lambda row: (begun[row.thread], row.thread, row.seq_first)):
        yield [row]


def _claim(engine: Engine, owner: OwnerId, rows: Sequence[TurnRow]) -> list[TurnRow]:
    """Fence the old writers off. Whoever turns out to be alive, or was settled meanwhile, is left alone.

    What is the owner's already is not claimed again: no recovery has died of it since.
    """
    others = [row for row in rows if row.owner != owner]
    claims = [Write(thread=row.thread, turn=row.turn, claim=Claim(owner=owner, expected=row.owner)) for row in others]
    outcomes = zip(others, _committed(engine, claims), strict=True)
    claimed = [replace(row, owner=owner, fence=outcome.fence) for row, outcome in outcomes if isinstance(outcome, Done)]
    return _in_order([*claimed, *(row for row in rows if row.owner == owner)])


def _committed(engine: Engine, writes: Sequence[Write]) -> list[Outcome | None]:
    """The outcomes of writes to different turns: of one commit, or, when it meets damage, of one commit each.

    None for what damage of the store keeps from being written.
    """
    try:
        return list(engine.commit(writes))
    except StoreDamaged as error:
        if len(writes) == 1:
            _left_open(writes[0].thread, writes[0].turn, error)
            return [None]
    return [outcome for write in writes for outcome in _committed(engine, [write])]


def _left_open(thread: str, turn: str | None, error: StoreDamaged) -> None:
    _logger.warning("turn %r of thread %r stays open: %s", turn, thread, error)


def _settle(engine: Engine, owner: OwnerId, clock: Clock, claimed: Iterable[TurnRow]) -> list[Recovered]:
    """Read each claimed turn and end it; of one thread one after the other, in the order of their submissions.

    Where somebody appended meanwhile (a request), it is read again.
    """
    queues: dict[str, deque[TurnRow]] = {}
    for row in claimed:
        queues.setdefault(row.thread, deque()).append(row)
    settled = list[Recovered]()
    end, tries = clock.boot_s() + RESEAL_WAIT_S, RESEAL_TRIES_MAX
    while queues and tries and clock.boot_s() < end:
        tries -= 1
        planned = [(queue, _plan(engine, owner, clock, queue[0])) for queue in queues.values()]
        outcomes = iter(
            _committed(engine, [write for _, plan in planned if plan is not None for write in plan[0].writes])
        )
        for queue, plan in planned:
            outcome = None if plan is None else next(outcomes)
            if plan is not None and plan[1] is not None and isinstance(outcome, Done):
                settled.append(plan[1])
            if outcome is None or isinstance(outcome, Done):
                queue.popleft()
                end = clock.boot_s() + RESEAL_WAIT_S
        queues = {thread: queue for thread, queue in queues.items() if queue}
    return settled


def _plan(engine: Engine, owner: OwnerId, clock: Clock, claimed: TurnRow) -> tuple[Plan, Recovered | None] | None:
    """The settling write of a claimed turn, from what the store has now, and what to tell of it.

    None when it is settled already, or when the store is damaged where even its row lies.
    """
    try:
        state, unread = _state(engine, owner, claimed)
    except StoreDamaged as error:
        _left_open(claimed.thread, claimed.turn, error)
        return None
    turn = state.open.get(claimed.turn)
    if turn is None or turn.row.owner != owner:
        return None
    plan = Plan(state, clock.now_us())
    if turn.view.state in TERMINAL:  # it ended, and its row does not say so: a second end would contradict the first
        row = turn_row(turn.row, turn.view)
        plan.writes.append(Write(thread=row.thread, base=state.head, turn=row.turn, turn_row=row, rebuild=True))
        return plan, None
    reason: Reason = "not_started" if turn.view.state == "submitted" else "process_died"
    if unread is not None:
        reason = "recovery_exhausted"
    plan_interrupted(plan, turn, reason=reason, detail=unread)
    return plan, Recovered(claimed.thread, claimed.turn, reason, tuple(turn.calls))


def _state(engine: Engine, owner: OwnerId, claimed: TurnRow) -> tuple[ThreadState, str | None]:
    """The state that a claimed turn is ended from, and, when that is its row alone, why it was not read.

    A turn that cannot be read, for whatever reason, must not keep the store from opening: it is ended by what its row
    tells, and its drafts stay where they are.
    """
    begun_before = claimed.fence - _SUBMITTED_FENCE - 1
    if begun_before >= RECOVERY_TRIES_MAX:
        return _by_row(engine, claimed), f"its recovery was begun {begun_before} times and never came to its end"
    try:
        return load(engine, claimed.thread, owner), None
    except Exception as error:
        if isinstance(error, StoreError) and not isinstance(error, StoreDamaged):
            raise
        return _by_row(engine, claimed), detail_of(error)


def _by_row(engine: Engine, claimed: TurnRow) -> ThreadState:
    """A state of one turn, without reading any event of it."""
    state = ThreadState(claimed.thread)
    for thread in engine.threads(thread=claimed.thread, limit=1).rows:
        state.head, state.rev, state.fold = thread.head, thread.rev, thread_fold(engine, thread)
    for row in engine.turns(thread=claimed.thread, turn=claimed.turn, open_only=True, limit=1).rows:
        state.open[row.turn] = OpenTurn(row, _view(row))
    return state


def _view(row: TurnRow) -> TurnView:
    try:
        return decode_view(row.fold)
    except RecordDamaged:
        return bare_view(row)
