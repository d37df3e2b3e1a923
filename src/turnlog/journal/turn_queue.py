"""The queue of a thread's open turns: each one starts when none that was submitted before it is open.

A turn's place is that of its submission, the same for every process; nothing else is stored. Who is before it is read
from the open turns. So the order holds whoever runs which turn, and a turn that settles moves all others by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnlog.engines.protocol import Done
from turnlog.errors import AlreadySettled, Busy, Overloaded
from turnlog.events.kinds import WorkerStarted
from turnlog.journal.ends import told_by
from turnlog.journal.plan import Desk, Plan
from turnlog.journal.receipt import Receipt
from turnlog.journal.settle import plan_interrupted
from turnlog.journal.state import OpenTurn, ThreadState, catch_up
from turnlog.journal.turn_jobs import TurnJob
from turnlog.limits import QUEUE_JOBS_MAX


@dataclass(kw_only=True, eq=False, slots=True)
class _QueueJob(TurnJob):
    """A job that is refused with `Busy` while an earlier turn of the thread is open."""

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. Own turns are followed; what others did with theirs is looked up."""
        turn = state.open.get(self.turn)
        if turn is not None and any(it.row.owner != desk.owner for it in state.open_before(turn.row.seq_first)):
            catch_up(desk.engine, state, desk.owner)
        return TurnJob.seal(self, state, desk)

    def check_first(self, state: ThreadState, turn: OpenTurn) -> None:
        """Raise `Busy` with the first turn of the queue unless `turn` is that."""
        if earlier := state.open_before(turn.row.seq_first):
            raise Busy(thread=self.thread, turn=self.turn, running=earlier[0].row.turn)


@dataclass(kw_only=True, eq=False, slots=True)
class ReadyJob(_QueueJob):
    """Wait until the turn is the first of its queue. One that was asked to end while it waits is settled instead."""

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        if turn.view.state != "submitted":
            plan.flush(turn)  # text that came along
        elif turn.view.interrupt_requested:
            asked = next((request for request in turn.requested if request.what == "interrupt"), None)
            detail = None if asked is None else told_by(asked)
            plan_interrupted(plan, turn, reason="cancelled", detail=detail)
        else:
            self.check_first(plan.state, turn)

    def value(self, plan: Plan, dones: Sequence[Done]) -> None:
        """See `Job`."""
        if plan.view is not None and plan.view.state == "interrupted":
            raise AlreadySettled(thread=self.thread, turn=self.turn, state=plan.view.state)


@dataclass(kw_only=True, eq=False, slots=True)
class StartJob(_QueueJob):
    """The owner begins to work."""

    agent: str | None
    agent_version: str | None

    def plan(self, plan: Plan, turn: OpenTurn, desk: Desk) -> None:
        """See `TurnJob`."""
        self.check_kind(turn, WorkerStarted.kind)
        self.check_first(plan.state, turn)
        plan.event(
            WorkerStarted(owner=desk.owner, fence=self.fence, agent=self.agent, agent_version=self.agent_version),
            self.turn,
        )
        plan.write_events(turn)


class Parked:
    """Jobs that wait for their turn's time, by thread. They are worked out again when something happened there.

    Used in the writer's thread alone.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[ReadyJob]] = {}
        self._stirred: list[ReadyJob] = []
        self._count = 0

    def add(self, job: ReadyJob) -> None:
        """Let a job wait. Raises `Overloaded` when too many wait already."""
        if self._count >= QUEUE_JOBS_MAX:
            raise Overloaded(thread=job.thread, turn=job.turn, limit="QUEUE_JOBS_MAX", limit_value=QUEUE_JOBS_MAX)
        self._waiting.setdefault(job.thread, []).append(job)
        self._count += 1

    def stir(self, threads: Iterable[str]) -> None:
        """Something happened in these threads: what waits there is to be looked at again."""
        if self._waiting:
            for thread in threads:
                self._stirred += self._waiting.pop(thread, ())

    def take(self) -> list[ReadyJob]:
        """What is to be looked at again; it waits here no longer."""
        jobs, self._stirred = self._stirred, []
        self._count -= len(jobs)
        return jobs

    def receipts(self) -> list[Receipt[None]]:
        """Who waits here."""
        return [job.receipt for jobs in (*self._waiting.values(), self._stirred) for job in jobs]
