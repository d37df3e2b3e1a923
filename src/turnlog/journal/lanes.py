"""The queue of the writer: a lane of jobs for each thread, so that a batch takes what can be worked out together.

A batch takes the first job of every lane that is not in work: a job is always worked out against what is durable. Those
events that follow it in its lane, of the same turn and with no text in between, join it, so that they need one write
and one sync together. The caller holds the writer's condition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from turnlog.errors import Overloaded
from turnlog.journal.jobs import Job
from turnlog.journal.pending import PendingDrafts
from turnlog.journal.turn_jobs import CompleteJob, EventJob, FlushJob, InterruptJob, TurnJob
from turnlog.limits import JOINED_BYTES_MAX, JOINED_EVENTS_MAX, QUEUE_BYTES_MAX, QUEUE_JOBS_MAX


class Lanes:
    """What waits to be written. `pending` is draft text, which goes along with the next job of its turn."""

    def __init__(self) -> None:
        self.pending = PendingDrafts()
        self._lanes: dict[str, deque[Job]] = {}
        self._ready: deque[str] = deque()
        self._jobs = 0
        self._bytes = 0

    @property
    def ready(self) -> bool:
        """Whether a batch would find something to do."""
        return bool(self._ready)

    def add(self, job: Job) -> None:
        """Queue a job. Raises `Overloaded` when too much waits already; one that settles a turn is always taken."""
        if not isinstance(job, CompleteJob | InterruptJob):
            if self._jobs >= QUEUE_JOBS_MAX:
                raise Overloaded(thread=job.thread, limit="QUEUE_JOBS_MAX", limit_value=QUEUE_JOBS_MAX)
            if self._bytes + job.size_bytes > QUEUE_BYTES_MAX:
                raise Overloaded(thread=job.thread, limit="QUEUE_BYTES_MAX", limit_value=QUEUE_BYTES_MAX)
        self.put(job)

    def put(self, job: Job) -> None:
        """Queue a job, with the draft text given before it, whatever waits already."""
        if isinstance(job, TurnJob):
            job.parts += self.pending.take(job.thread, job.turn, job.fence)
        self._place(job, first=False)

    def _place(self, job: Job, *, first: bool) -> None:
        lane = self._lanes.get(job.thread)
        if lane is None:
            # In this order, so that an interrupt in between leaves a name without a lane, and no lane without a name.
            self._ready.append(job.thread)
            lane = self._lanes[job.thread] = deque()
        (lane.appendleft if first else lane.append)(job)
        self._jobs += 1
        self._bytes += job.size_bytes

    def take(self, may_join: Callable[[EventJob], bool], jobs_max: int) -> list[Job]:
        """The next batch. `may_join` tells whether other events may join a job."""
        jobs = []
        for _ in range(min(len(self._ready), jobs_max)):
            lane = self._lanes.get(thread := self._ready.popleft())
            if not lane:
                self._lanes.pop(thread, None)
                continue
            job = self._pop(lane)
            if lane and isinstance(job, EventJob) and not job.joined and may_join(job):
                self._join(job, lane)
            jobs.append(job)
        return jobs

    def _pop(self, lane: deque[Job]) -> Job:
        job = lane.popleft()
        self._jobs -= 1
        self._bytes -= job.size_bytes
        return job

    def _join(self, job: EventJob, lane: deque[Job]) -> None:
        size = job.size_bytes
        while lane and len(job.joined) < JOINED_EVENTS_MAX and isinstance(lane[0], EventJob) and job.takes(lane[0]):
            size += lane[0].size_bytes
            if size > JOINED_BYTES_MAX:
                return
            joined = self._pop(lane)
            assert isinstance(joined, EventJob)
            job.joined.append(joined)

    def release(self, jobs: Sequence[Job], again: Sequence[Job]) -> None:
        """Let the lanes of a batch go on, with the jobs to be done again in front."""
        for job in jobs:
            if isinstance(job, FlushJob) and job not in again:
                self.pending.flushed(job)
            if self._lanes[job.thread]:
                self._ready.append(job.thread)
            else:
                del self._lanes[job.thread]
        for job in again:
            self._place(job, first=True)

    def keep_text(self, job: TurnJob, at_s: float | None) -> None:
        """Text of a failed job goes with the turn's next job, or is flushed from `at_s` on; None: it may be dropped."""
        for later in self._lanes[job.thread]:
            if isinstance(later, TurnJob) and (later.turn, later.fence) == (job.turn, job.fence):
                later.parts = job.parts + later.parts
                break
        else:
            if at_s is not None:
                self.pending.put_back(job, at_s)
        job.parts = []

    def waiting(self) -> list[Job]:
        """Every job that is in no batch."""
        return [job for lane in self._lanes.values() for job in lane]
