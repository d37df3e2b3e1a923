"""The one writer: a thread that drains a bounded queue and commits together what waits together.

A lone job waits for nobody; under load one sync serves every lane that has something to write.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from turnlog.engines.protocol import Done, Engine, Moved, Outcome, OwnerId, Write
from turnlog.errors import (
    Busy,
    ForkedLog,
    Overloaded,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from turnlog.events.clock import Clock
from turnlog.journal.follow import Hub
from turnlog.journal.health import Health
from turnlog.journal.jobs import Job, SubmitJob
from turnlog.journal.lanes import Lanes
from turnlog.journal.plan import Desk, Plan
from turnlog.journal.receipt import Receipt, Settlement, outcome_of, settle
from turnlog.journal.recovery import Recovered
from turnlog.journal.state import OpenTurn, ThreadState, catch_up, load, lose
from turnlog.journal.turn_jobs import DraftPart, EventJob, FlushJob, TurnJob
from turnlog.journal.turn_queue import Parked, ReadyJob
from turnlog.journal.upkeep import Upkeep
from turnlog.limits import (
    BATCH_JOBS_MAX,
    BATCH_JOBS_QUICK_MAX,
    CLOSE_WAIT_S,
    COMMIT_SLOW_S,
    STORE_PROBE_S,
    THREADS_CACHED_MAX,
    WRITER_QUIET_S,
)

T = TypeVar("T")

_FORGET_TRIES = 2 * BATCH_JOBS_MAX
"""States looked at after a batch: it brings less than half as many new ones, so their number goes down again."""


class Writer:
    """See the module. Public methods may be called from any thread; those with an underscore run in the writer's."""

    def __init__(self, engine: Engine, owner: OwnerId, clock: Clock, hub: Hub) -> None:
        self.engine = engine
        self.owner = owner
        self.hub = hub
        self._desk = Desk(engine, owner, clock)
        self._clock = clock
        self.health = Health(clock)
        self._pid = os.getpid()
        # A bare lock is entered in one step: an interrupt from the keyboard cannot leave it taken, as it can a
        # condition.
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._lanes = Lanes()
        self._tasks: deque[tuple[Callable[[], Any], Receipt[Any]]] = deque()
        self._closing = False
        self._died: BaseException | None = None
        self._in_hand: list[Receipt[Any]] = []
        self._rested = False
        self._jobs_max = BATCH_JOBS_QUICK_MAX
        self._states: OrderedDict[str, ThreadState] = OrderedDict()
        self._parked = Parked()
        self._upkeep = Upkeep(self._desk, hub, self._states, self._parked)
        self._upkeep.snapshots.come_by = self._come_by
        hub.on_watch = self._nudge
        self._thread = threading.Thread(target=self._run, name="turnlog-writer", daemon=True)
        self._thread.start()

    # --- from any thread ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `ForkedLog` or `StoreClosed` when nothing can be written or read any more."""
        if os.getpid() != self._pid:
            raise ForkedLog
        if self._died is not None:
            raise StoreError(detail=f"the writer has ended by a defect: {self._died!r}") from self._died
        if self._closing:
            raise StoreClosed

    def put(self, job: Job) -> Receipt[Any]:
        """Queue a job. Raises `Overloaded` when too much waits already; a job that settles a turn is always taken."""
        self.check()  # first: in a forked child the condition may be held by a thread that is not there
        with self._mutex:
            self.check()
            self._lanes.add(job)
            self._wake.notify()
        return job.receipt

    def put_draft(self, thread: str, turn: str, fence: int, part: DraftPart) -> None:
        """Take draft text, to be written within `DRAFT_DELAY_S` or with the turn's next job. May raise `Overloaded`."""
        self.check()
        with self._mutex:
            self.check()
            if self._lanes.pending.add(thread, turn, fence, part, self._clock.boot_s()):
                self._wake.notify()

    def call(self, task: Callable[[], T]) -> Receipt[T]:
        """Run `task` in the writer's thread, between two batches."""
        receipt: Receipt[T] = Receipt()
        self.check()
        with self._mutex:
            self.check()
            self._tasks.append((task, receipt))
            self._wake.notify()
        return receipt

    def _nudge(self) -> None:
        with self._mutex:
            self._wake.notify()

    def _come_by(self) -> None:
        with self._mutex:
            self._rested = False
            self._wake.notify()

    def refolded(self, thread: str, turn: str) -> None:
        """A reader had to fold a settled turn: the next one should find its snapshot."""
        self._upkeep.snapshots.ask([(thread, turn)])

    def recover(self) -> list[Recovered]:
        """Settle the turns of dead writers now. Runs in the writer's thread: use `call`."""
        return self._upkeep.recover()

    def close(self) -> None:
        """Write what waits, settle the turns this log still owns, and stop. Idempotent.

        Raises `StoreBusy` when the disk lets the writer wait for longer than `CLOSE_WAIT_S`; it goes on by itself.
        """
        if os.getpid() != self._pid:
            return
        with self._mutex:
            self._closing = True
            self._wake.notify()
        self._upkeep.snapshots.close()
        self._thread.join(CLOSE_WAIT_S)
        settle([], self.hub.close())
        if self._thread.is_alive():
            raise StoreBusy(detail=f"closing has waited {CLOSE_WAIT_S:g} s for the disk; close again to wait on")

    # --- in the writer's thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        """Nothing is written any more: whoever waits is told, and whoever comes. It takes a defect to get here."""
        with self._mutex:
            self._died = error
            waiting = [receipt for job in self._lanes.waiting() for receipt in _all_receipts(job)]
            waiting += [*self._in_hand, *self._lanes.pending.receipts(), *(receipt for _, receipt in self._tasks)]
            waiting += self._parked.receipts()
        refusal = StoreError(detail=f"the writer has ended by a defect: {error!r}")
        settle([(receipt, None, refusal) for receipt in waiting if not receipt.done()], self.hub.close())

    def _work(self) -> None:
        settled_own = False
        while True:
            with self._mutex:
                jobs, tasks = self._take()
                if not jobs and not tasks and self._closing:
                    if settled_own:
                        settle([(receipt, None, StoreClosed()) for receipt in self._parked.receipts()])
                        return
                    self._settle_own()
                    settled_own = True
                    continue
            self._in_hand = [receipt for _, receipt in tasks] + [
                receipt for job in jobs for receipt in _all_receipts(job)
            ]
            for task, receipt in tasks:
                settle([outcome_of(task, receipt)])
            if jobs:
                self._rested = False
                self._batch(jobs)
            elif not self._rested:
                self._rested = True
                self._upkeep.rest()
            self._upkeep.run()

    def _take(self) -> tuple[list[Job], list[tuple[Callable[[], Any], Receipt[Any]]]]:
        """Wait for work or for the next thing to look after. The caller holds the condition."""
        if not (self._rested or self._lanes.ready or self._tasks or self._closing):
            # Who was just answered goes on before anything else is done here.
            self._wake.wait(WRITER_QUIET_S)
        while True:
            now = self._clock.boot_s()
            due = self._lanes.pending.due(now, all_of_them=self._closing)
            for job in (*due, *self._upkeep.owed(now), *self._parked.take()):
                self._lanes.put(job)
            if self._lanes.ready or self._tasks or self._closing:
                break
            if not self._rested:
                return [], []
            wait = min(self._upkeep.due_s(now), self._lanes.pending.due_s(now))
            if wait <= 0:
                return [], []
            self._wake.wait(None if wait == float("inf") else wait)
        tasks = list(self._tasks)
        self._tasks.clear()
        return self._lanes.take(self._may_join, self._jobs_max), tasks

    def _may_join(self, job: EventJob) -> bool:
        """Whether more events may follow `job` in its write: only where none of them replaces or seals a draft."""
        turn = self.open_turn(job.thread, job.turn)
        return turn is not None and turn.row.fence == job.fence and not (turn.book.drafts or job.parts)

    def _batch(self, jobs: Sequence[Job]) -> None:
        settlements: list[Settlement] = []
        again: list[Job] = []
        sealed: list[tuple[Job, Plan]] = []
        for job in jobs:
            try:
                state = self._state(job.thread, maybe_new=isinstance(job, SubmitJob))
                sealed.append((job, job.work_out(state, self._desk)))
            except Busy as busy:
                settlements += self._busy(job, busy, again)
            except Exception as error:  # whatever it is, it is this job's answer, and the writer goes on
                settlements += self._failed(job, error)
        changed = self._commit(sealed, settlements, again)
        settle(settlements, self.hub.wakes(changed))
        self._upkeep.told(changed)
        self._forget_some()
        self._release(jobs, again)

    def _busy(self, job: Job, busy: Busy, again: list[Job]) -> list[Settlement]:
        """Open turns are in the way of a job: it is refused, or waits for them if that is what it is for."""
        if self._upkeep.may_be_dead(job):
            again.append(job)
            return []
        if not isinstance(job, ReadyJob):
            return _refused(job, busy)
        try:
            self._parked.add(job)
        except Overloaded as error:
            return _refused(job, error)
        return []

    def _commit(self, sealed: list[tuple[Job, Plan]], settlements: list[Settlement], again: list[Job]) -> list[str]:
        """Commit the plans and answer them. Returns the threads that changed."""
        changed: list[str] = []
        try:
            writes = [write for _, plan in sealed for write in plan.writes]
            outcomes = iter(self._written(writes) if writes else ())
        except Exception as error:
            for job, plan in sealed:
                settlements += self._failed(job, error, plan)
            return changed
        for job, plan in sealed:
            answers = [next(outcomes) for _ in plan.writes]
            dones = [answer for answer in answers if isinstance(answer, Done)]
            if len(dones) == len(answers):
                settlements += plan.apply(dones)
                if plan.unfinished:
                    again.append(job)
                else:
                    settlements += job.answers(plan, dones)
                if plan.shows:
                    changed.append(job.thread)
                self._upkeep.follow(plan.state)
                self._upkeep.snapshots.saw(plan)
                if plan.moves_queue:
                    self._parked.stir([job.thread])
            elif self._refused(job, plan, answers, settlements):
                changed.append(job.thread)
            else:
                again.append(job)
        return changed

    def _written(self, writes: list[Write]) -> list[Outcome]:
        """Commit, and note whether the disk is quick: what a batch may hold depends on it."""
        with self.health.writing():
            self._upkeep.ensure_lease()
            began = self._clock.boot_s()
            outcomes = self.engine.commit(writes)
        slow = self._clock.boot_s() - began >= COMMIT_SLOW_S
        self._jobs_max = BATCH_JOBS_MAX if slow else BATCH_JOBS_QUICK_MAX
        return outcomes

    def _refused(self, job: Job, plan: Plan, answers: list[Outcome], settlements: list[Settlement]) -> bool:
        """Answer a refused job; False when it is to be worked out again because somebody else appended first."""
        plan.state.stale = True
        refusal = next(answer for answer in answers if not isinstance(answer, Done))
        if isinstance(refusal, Moved) and job.may_try_again(self._clock.boot_s()):
            return False
        if isinstance(refusal, Moved):
            busy = StoreBusy(detail=f"others appended first {job.tries} times")
            settlements += self._failed(job, busy, plan)
            return True
        try:
            settlements.append((job.receipt, job.refusal(refusal), None))
        except Exception as error:  # it is the answer of who asked
            settlements += [*_refused(job, error), *plan.fail(error)]
            if isinstance(job, TurnJob):
                lose(plan.state.open.get(job.turn))
        return True

    def _failed(self, job: Job, error: Exception, plan: Plan | None = None) -> list[Settlement]:
        """Answer a job that could not be worked out, or whose `plan` may be stored or not: the store tells later."""
        if isinstance(error, StoreUnavailable):
            error = StoreUnavailable(detail=error.detail, **job.facts())
        if isinstance(error, StoreError) or (isinstance(job, SubmitJob) and job.stored):
            self._upkeep.doubt(job)
        if isinstance(job, TurnJob):
            self._keep_text(job, error)
        state = self._states.get(job.thread)
        if state is not None:
            state.stale = state.stale or plan is not None
            self._upkeep.follow(state)
        return [*_refused(job, error), *(plan.fail(error) if plan is not None else ())]

    def _keep_text(self, job: TurnJob, error: Exception) -> None:
        """Draft text that went along with a failed job is told of it, and written all the same, soon, in its order."""
        wait_s = STORE_PROBE_S if isinstance(error, StoreError) else 0.0
        if not wait_s and isinstance(job, FlushJob):
            return
        job.tell_parts(error)
        with self._mutex:
            # Closing does not wait for a store that fails.
            self._lanes.keep_text(job, None if self._closing else self._clock.boot_s() + wait_s)

    def _release(self, jobs: Sequence[Job], again: Sequence[Job]) -> None:
        with self._mutex:
            self._lanes.release(jobs, again)

    def _state(self, thread: str, *, maybe_new: bool) -> ThreadState:
        """The thread's state, fresh enough to work a job out; a wrong guess is found by the base.

        A thread that is submitted to and not remembered is guessed to be new, so that a new one costs no reading.
        """
        state = self._states.get(thread)
        if state is None:
            state = ThreadState(thread) if maybe_new else load(self.engine, thread, self.owner)
            self._states[thread] = state
        elif state.stale:
            catch_up(self.engine, state, self.owner)
            self._upkeep.follow(state)
        self._states.move_to_end(thread)
        return state

    def _forget_some(self) -> None:
        """After a batch: the least recently used states go, unless a turn of them is open and own.

        Not within a batch: what it has worked out stands on its states, and its own turns are not noted yet.
        """
        for _ in range(min(len(self._states) - THREADS_CACHED_MAX, _FORGET_TRIES)):
            thread, state = self._states.popitem(last=False)
            if self._upkeep.owns_in(thread):
                self._states[thread] = state

    def open_turn(self, thread: str, turn: str) -> OpenTurn | None:
        """This writer's own open turn."""
        state = self._states.get(thread)
        found = None if state is None else state.open.get(turn)
        return found if found is not None and found.row.owner == self.owner else None

    def _settle_own(self) -> None:
        """Queue the end of every turn this log still owns. The caller holds the condition."""
        for job in self._upkeep.last_ends():
            self._lanes.put(job)


def _all_receipts(job: Job) -> list[Receipt[Any]]:
    return [*job.receipts(), *job.text_receipts()]


def _refused(job: Job, error: BaseException) -> list[Settlement]:
    return [(receipt, None, error) for receipt in job.receipts()]
