"""What the writer looks after between commits: its lease, dead writers, other processes, and turns it owes an end."""

from __future__ import annotations

import logging
from collections.abc import Collection, MutableMapping

from turnlog.errors import StoreError
from turnlog.journal.follow import Hub
from turnlog.journal.jobs import Job, SubmitJob
from turnlog.journal.plan import Desk
from turnlog.journal.receipt import Receipt, settle
from turnlog.journal.recovery import Pair, Recovered, recover
from turnlog.journal.snapshots import Snapshots
from turnlog.journal.state import OpenTurn, ThreadState, catch_up
from turnlog.journal.turn_jobs import CompleteJob, InterruptJob
from turnlog.journal.turn_queue import Parked
from turnlog.limits import (
    LEASE_RENEW_S,
    LEASE_S,
    PAGE_ROWS,
    PAGE_ROWS_MAX,
    STORE_PROBE_S,
    THREADS_CACHED_MAX,
    WRITER_POLL_S,
)

_logger = logging.getLogger("turnlog")

NEVER = float("inf")


class Upkeep:
    """Runs in the writer's thread. Times are seconds of the boot-time clock."""

    def __init__(self, desk: Desk, hub: Hub, states: MutableMapping[str, ThreadState], parked: Parked) -> None:
        self._desk = desk
        self._hub = hub
        self._states = states
        self._parked = parked
        self._shared = desk.engine.caps.shared
        self.snapshots = Snapshots(desk.engine, desk.clock)
        self._mine: dict[str, list[OpenTurn]] = {}
        self._owed: dict[Pair, CompleteJob | InterruptJob] = {}
        self._owed_at = NEVER
        self._renew_at = 0.0
        self._recover_at = NEVER  # the log asks for the first recovery itself, to tell what it found
        self._poll_at = 0.0
        self._position = b""
        self._told: dict[str, tuple[int, int]] = {}
        """Threads with own writes since others were looked at: head and rev up to which everybody was told."""

    # --- own turns ---------------------------------------------------------------------------------------------

    def follow(self, state: ThreadState) -> None:
        """Note which turns of a thread are open and own, and somebody works on them."""
        own = [turn for turn in state.open.values() if turn.ours]
        if own:
            self._mine[state.thread] = own
        else:
            self._mine.pop(state.thread, None)

    def mine(self) -> list[OpenTurn]:
        """All own open turns."""
        return [turn for turns in self._mine.values() for turn in turns]

    def owns_in(self, thread: str) -> bool:
        """Whether a turn of the thread is open and own."""
        return thread in self._mine

    def ensure_lease(self) -> None:
        """Before a commit: whoever reads it must find its writer alive."""
        now = self._desk.clock.boot_s()
        if now >= self._renew_at:
            self._desk.engine.lease(self._desk.owner, LEASE_S)
            self._renew_at = now + LEASE_RENEW_S

    # --- turns that could not be settled -----------------------------------------------------------------------

    def doubt(self, job: Job) -> None:
        """The store failed while it took `job`. Nobody else makes good what that leaves open while we live.

        The end of a turn is tried again until it works. A submission that is stored all the same, without anybody who
        would work on it, is settled by recovery.
        """
        soon = self._desk.clock.boot_s() + STORE_PROBE_S
        if isinstance(job, CompleteJob | InterruptJob):
            self._owed[job.thread, job.turn] = job
            self._owed_at = soon
        elif isinstance(job, SubmitJob):
            job.disown()
            self._recover_at = min(self._recover_at, soon)

    def owed(self, now: float) -> list[CompleteJob | InterruptJob]:
        """Ends to try again now."""
        if now < self._owed_at:
            return []
        jobs: list[CompleteJob | InterruptJob] = []
        for job in self._owed.values():
            job.receipt = Receipt()
            jobs.append(job)
        self._owed.clear()
        self._owed_at = NEVER
        return jobs

    def last_ends(self) -> list[CompleteJob | InterruptJob]:
        """The ends of all own open turns, as the log is closed: nobody will write to them any more.

        An end that the store refused before is tried once more.
        """
        ends = self.owed(NEVER)
        ending = {(job.thread, job.turn) for job in ends}
        for turn in self.mine():
            if (turn.row.thread, turn.row.turn) not in ending:
                ends.append(
                    InterruptJob(
                        thread=turn.row.thread,
                        turn=turn.row.turn,
                        fence=turn.row.fence,
                        reason="not_started" if turn.view.state == "submitted" else "cancelled",
                        detail="the log was closed",
                    )
                )
        return ends

    # --- between commits ---------------------------------------------------------------------------------------

    def due_s(self, now: float) -> float:
        """Seconds until `run` or `owed` has something to do."""
        due = min(self._owed_at, self._recover_at)
        if self._mine:
            due = min(due, self._renew_at)
        if self._polls:
            due = min(due, self._poll_at)
        return due - now

    @property
    def _polls(self) -> bool:
        return self._shared and (bool(self._mine) or self._hub.watched)

    def run(self) -> None:
        """Do what is due. What fails now is tried again soon: the next commit meets a store's refusal too.

        Anything else is a defect in looking after others, which must not end the writing of everybody.
        """
        now = self._desk.clock.boot_s()
        try:
            if self._mine:
                self.ensure_lease()
            if self._polls and now >= self._poll_at:
                self._poll_at = now + WRITER_POLL_S
                self._look_at_others()
            elif not self._polls:
                self._position = b""
                self._told.clear()
            if now >= self._recover_at:
                self.recover()
        except Exception as error:
            if not isinstance(error, StoreError):
                _logger.exception("looking after other writers failed")
            self._renew_at = max(self._renew_at, now + STORE_PROBE_S)
            self._poll_at = max(self._poll_at, now + STORE_PROBE_S)
            self._recover_at = max(self._recover_at, now + STORE_PROBE_S)

    def rest(self) -> None:
        """Store snapshots, and let the engine do its housekeeping. When it cannot, all is still where it is safe."""
        self.snapshots.rest()
        try:
            self._desk.engine.rest()
        except StoreError:
            self._recover_at = min(self._recover_at, self._desk.clock.boot_s() + STORE_PROBE_S)

    def recover(self) -> list[Recovered]:
        """Settle the turns of dead writers, and note when to look again."""
        engine, clock = self._desk.engine, self._desk.clock
        mine = {(turn.row.thread, turn.row.turn) for turn in self.mine()}
        found = recover(engine, self._desk.owner, clock, mine)
        threads = {recovered.thread for recovered in found}
        self.snapshots.ask((recovered.thread, recovered.turn) for recovered in found)
        for thread in threads:
            if (state := self._states.get(thread)) is not None:
                catch_up(engine, state, self._desk.owner)
                self.follow(state)
        self._stir(threads)
        lease_end = engine.lease_end()
        self._recover_at = clock.boot_s() + min(LEASE_S, LEASE_S if lease_end is None else lease_end)
        return found

    def may_be_dead(self, job: Job) -> bool:
        """A job met an open turn of another writer: when that one was dead, it may be tried once more."""
        state = self._states.get(job.thread)
        if job.looked or state is None or all(turn.row.owner == self._desk.owner for turn in state.open.values()):
            return False
        job.looked = True
        try:
            return any(recovered.thread == job.thread for recovered in self.recover())
        except Exception:
            self._recover_at = self._desk.clock.boot_s()  # whatever it is, `run` meets it again and looks after it
            return False

    def _look_at_others(self) -> None:
        """Notice what other processes wrote: wake followers, and take requests to own turns in."""
        changed, position = self._desk.engine.changes(self._position, 0)
        if not self._position:  # what was written while nobody looked is in no list of changes
            changed = [*{*self._mine, *self._hub.threads()}]
            settle([], self._hub.wakes_of_watchers())
        else:
            changed = self._not_told(changed)
        mine = [turn for thread in changed for turn in self._mine.get(thread, ())]
        ends = self._stored_ends() if mine else {}
        for turn in mine:
            state = self._states[turn.row.thread]
            if state.stale or ends.get((turn.row.thread, turn.row.turn)) != turn.view.seq_last:
                catch_up(self._desk.engine, state, self._desk.owner)
                self.follow(state)
        self._position = position
        self._stir(changed)

    def told(self, threads: Collection[str]) -> None:
        """Own writes changed these threads, and who waits for them was told so: of all that was stored by then."""
        if not self._position or len(self._told) > THREADS_CACHED_MAX:
            self._told.clear()
            return
        for thread in threads:
            self._told.pop(thread, None)
            if (state := self._states.get(thread)) is not None and not state.stale:
                self._told[thread] = (state.head, state.rev)

    def _not_told(self, changed: list[str]) -> list[str]:
        """Changed threads without those to which nobody else wrote; one that is not among the newest is told again."""
        told, self._told = self._told, {}
        if told.keys().isdisjoint(changed):
            return changed
        rows = self._desk.engine.threads(limit=min(PAGE_ROWS + 2 * len(changed), PAGE_ROWS_MAX)).rows
        stored = {row.thread: (row.head, row.rev) for row in rows}
        return [thread for thread in changed if thread not in told or stored.get(thread) != told[thread]]

    def _stir(self, threads: Collection[str]) -> None:
        """Tell those who wait for something in these threads that it may have come."""
        self._parked.stir(threads)
        settle([], self._hub.wakes(threads))

    def _stored_ends(self) -> dict[Pair, int]:
        """The last seq of each own open turn, as stored: most changes are own writes, so all are asked for at once."""
        ends: dict[Pair, int] = {}
        before = None
        while True:
            page = self._desk.engine.turns(owner=self._desk.owner, open_only=True, before=before, limit=PAGE_ROWS_MAX)
            ends.update({(row.thread, row.turn): row.seq_last for row in page.rows})
            if page.next is None:
                return ends
            before = page.next
