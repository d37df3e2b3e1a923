"""The methods of a `Log` that look after the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.ids import check_name, check_thread_id
from turnlog.folds.findings import Finding
from turnlog.folds.repair import RepairPlan, RepairReport, plan_repair
from turnlog.journal.auditing import audit_store, audit_thread
from turnlog.journal.parts import LogParts
from turnlog.journal.receipt import Receipt
from turnlog.journal.recovery import Recovered
from turnlog.journal.repair_jobs import UndoJob
from turnlog.journal.repairing import Repairing
from turnlog.journal.verifying import Verified, verify_store
from turnlog.limits import LEASE_S


class Care(LogParts):
    """See `Log`."""

    def recover(self) -> list[Recovered]:
        """Settle the turns of dead writers now. It happens by itself at opening and when a lease ends."""
        return self._writer.call(self._writer.recover).result()

    def audit(self, thread: str | None = None) -> Iterator[Finding]:
        """What of the store, or of one thread, is not as it should be, thread by thread as it is read.

        It changes nothing, holds up nobody, and tells of what is being written only what stands still. Threads that are
        changed meanwhile may be passed over. Raises `UnknownThread` at once.
        """
        self._writer.check()
        return audit_store(self._engine) if thread is None else audit_thread(self._engine, check_thread_id(thread))

    def plan_repair(self, findings: Iterable[Finding]) -> RepairPlan:
        """What `repair` would do about findings of `audit`, and which of them it would leave. It changes nothing."""
        return plan_repair(findings)

    def repair(self, plan: RepairPlan, *, by: str | None = None) -> RepairReport:
        """Carry out a plan, and wait for it. `by` says who did it, for people.

        Each step is looked at again first: one that is not needed any more is skipped and told, so that a plan can be
        applied again. No turn of a living writer is touched.
        """
        self._writer.check()
        by = None if by is None else check_name("by", by)
        return Repairing(self._engine, self._writer.put, self.recover, self._reading.thread, by).carry_out(plan)

    def undo_repair(self, thread: str, seq: int, *, by: str | None = None) -> Receipt[int]:
        """Let the repair that was written at `seq` hold no longer: what it set aside is a finding again.

        Gives the seq of the event that says so, or the head when it was undone before. Raises `UnknownThread`, or
        `InvalidInput` when there is no repair at `seq` that can be undone: moved drafts stay where they are.
        """
        by = None if by is None else check_name("by", by)
        return self._writer.put(UndoJob(thread=check_thread_id(thread), repair=seq, by=by))

    def verify(self) -> Iterator[Verified]:
        """Read and fold everything again: the findings of `audit`, and now and then how far it has come."""
        self._writer.check()
        return verify_store(self._engine)

    def check(self) -> None:
        """Return when the store takes writes, as far as this log's last one tells; else raise `StoreError`.

        After a write that failed this makes one of its own to find out, and waits for it.
        """
        self._writer.check()
        self._writer.health.check_hung()
        if self._writer.health.failing is not None:
            self._writer.call(self._probe).result()

    def _probe(self) -> None:
        """Write what changes nothing: our lease. In the writer's thread, as everything that is written."""
        with self._writer.health.writing():
            self._engine.lease(self.owner, LEASE_S)
