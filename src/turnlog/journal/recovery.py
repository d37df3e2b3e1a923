"""Settling the turns of dead writers: once, honestly, without running anything again.

Two writes a turn. The first claims it, so that its old writer is fenced off whatever it still does; then everything is
read again; the second closes the drafts and interrupts the turn. Who dies between them is a dead owner too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from turnlog.engines.protocol import Claim, Done, Engine, OwnerId, TurnRow, Write
from turnlog.errors import StoreError
from turnlog.events.clock import Clock
from turnlog.events.kinds import Reason
from turnlog.journal.ends import detail_of
from turnlog.journal.plan import Plan
from turnlog.journal.settle import plan_interrupted
from turnlog.journal.state import NOBODY, load
from turnlog.limits import DEAD_OWNERS_MAX, RECOVER_TURNS_MAX, RESEAL_TRIES_MAX

Pair = tuple[str, str]
"""(thread, turn)."""


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
        settled = _settle(engine, owner, clock, _claim(engine, owner, rows)) if rows else []
        found += settled
        if not settled and not forgotten:  # nothing is left, or others were quicker, or the owners are alive after all
            return found


def _dead_turns(engine: Engine, owner: OwnerId, mine: Collection[Pair]) -> tuple[list[TurnRow], int]:
    """Open turns of dead owners, a bounded number; owners that have none left are forgotten and counted."""
    rows: list[TurnRow] = []
    forgotten = 0
    for dead in engine.dead_owners(limit=DEAD_OWNERS_MAX):
        if dead == owner or len(rows) >= RECOVER_TURNS_MAX:
            continue
        found = engine.turns(owner=dead, open_only=True, limit=RECOVER_TURNS_MAX).rows
        if not found:
            engine.lease(dead, 0)
            forgotten += 1
        rows += found
    rows += _claimed_before(engine, owner, mine)
    return sorted(rows[:RECOVER_TURNS_MAX], key=lambda row: row.seq_first), forgotten


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


def _claim(engine: Engine, owner: OwnerId, rows: Sequence[TurnRow]) -> list[Pair]:
    """Fence the old writers off. Whoever turns out to be alive, or was settled meanwhile, is left alone."""
    claims = [Write(thread=row.thread, turn=row.turn, claim=Claim(owner=owner, expected=row.owner)) for row in rows]
    outcomes = engine.commit(claims)
    return [(row.thread, row.turn) for row, outcome in zip(rows, outcomes, strict=True) if isinstance(outcome, Done)]


def _settle(engine: Engine, owner: OwnerId, clock: Clock, claimed: Iterable[Pair]) -> list[Recovered]:
    """Read each claimed turn and end it; of one thread one after the other, in the order of their submissions.

    Where somebody appended meanwhile (a request), it is read again.
    """
    queues: dict[str, deque[Pair]] = {}
    for pair in claimed:
        queues.setdefault(pair[0], deque()).append(pair)
    settled = list[Recovered]()
    tries = RESEAL_TRIES_MAX + max(map(len, queues.values()), default=0)
    while queues and tries:
        tries -= 1
        planned = [(queue, _plan(engine, owner, clock, queue[0])) for queue in queues.values()]
        outcomes = iter(engine.commit([write for _, plan in planned if plan is not None for write in plan[0].writes]))
        for queue, plan in planned:
            if plan is None:  # settled already
                queue.popleft()
            elif isinstance(next(outcomes), Done):
                settled.append(plan[1])
                queue.popleft()
        queues = {thread: queue for thread, queue in queues.items() if queue}
    return settled


def _plan(engine: Engine, owner: OwnerId, clock: Clock, pair: Pair) -> tuple[Plan, Recovered] | None:
    """The settling write of a claimed turn, from what the store has now; None when it is settled already.

    A turn that cannot be read, for whatever reason, must not keep the store from opening: it is ended by what its row
    tells, with that reason, and its drafts stay where they are.
    """
    thread, turn_id = pair
    unreadable: Exception | None = None
    try:
        state = load(engine, thread, owner)
    except StoreError:
        raise
    except Exception as error:
        unreadable, state = error, load(engine, thread, NOBODY)
    turn = state.open.get(turn_id)
    if turn is None or turn.row.owner != owner:
        return None
    reason: Reason = "not_started" if turn.view.state == "submitted" else "process_died"
    if unreadable is not None:
        reason = "recovery_exhausted"
    plan = Plan(state, clock.now_us())
    plan_interrupted(plan, turn, reason=reason, detail=None if unreadable is None else detail_of(unreadable))
    return plan, Recovered(thread, turn_id, reason, tuple(turn.calls))
