"""Carrying out a plan of repair, step by step: each is looked at again first, and skipped when it is not needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from turnlog.engines.protocol import Engine
from turnlog.errors import ForkedLog, StoreClosed, TurnlogError
from turnlog.events.thread_kinds import ThreadRepaired
from turnlog.folds.findings import Finding
from turnlog.folds.repair import RepairPlan, RepairReport, Step, StepDone, identity
from turnlog.folds.thread import decode_thread_fold
from turnlog.journal.auditing import PLACES, dead_leases, findings_of
from turnlog.journal.fork_job import ForkJob
from turnlog.journal.jobs import Job
from turnlog.journal.reading import ThreadView
from turnlog.journal.receipt import Receipt
from turnlog.journal.records import turn_view
from turnlog.journal.recovery import Recovered
from turnlog.journal.repair_jobs import (
    MoveDraftJob,
    RebuildThreadJob,
    RebuildTurnJob,
    SetAsideJob,
    SnapshotJob,
    rebuilt_view,
    snapshot_pages,
    whole_fold,
)

_STALE = "what it was about is not there any more"


class Repairing:
    """One repair. `put` queues a job, `recover` and `thread` are the log's."""

    def __init__(
        self,
        engine: Engine,
        put: Callable[[Job], Receipt[Any]],
        recover: Callable[[], list[Recovered]],
        thread: Callable[[str], ThreadView],
        by: str | None,
    ) -> None:
        self._engine = engine
        self._put = put
        self._recover = recover
        self._view = thread
        self._by = by
        self._known: dict[str, set[tuple[object, ...]]] = {}

    def carry_out(self, plan: RepairPlan) -> RepairReport:
        """Do what is still to be done. A step that fails keeps no other from being done."""
        return RepairReport(plan=plan.id, steps=tuple(self._carry_out(step) for step in plan.steps))

    def _carry_out(self, step: Step) -> StepDone:
        told = StepDone(action=step.action, thread=step.thread, turn=step.turn, outcome="done")
        try:
            done = self._step(step)
        except (StoreClosed, ForkedLog):
            raise
        except TurnlogError as error:
            return replace(told, outcome="failed", detail=str(error))
        if done is None:
            return replace(told, outcome="stale", detail=_STALE)
        return replace(told, seq=None if isinstance(done, bool) else done)

    def _step(self, step: Step) -> int | bool | None:
        if step.action == "reindex":
            return self._reindex()
        if step.thread is None:
            return self._settle(step)
        found = tuple(each for each in step.findings if identity(each) in self._findings(step.thread))
        if not found:
            return None
        match step.action:
            case "set_aside":
                return self._done(self._set_aside(step.thread, found))
            case "move_draft":
                return self._move(step.thread, found[0])
            case "rebuild_thread":
                fold, head = whole_fold(self._engine, step.thread)
                return self._done(RebuildThreadJob(thread=step.thread, fold=fold, head=head))
            case "finish_fork":
                return self._finish_fork(step.thread)
            case _:
                return self._turn(step, found)

    def _done(self, job: Job) -> int | bool | None:
        """Have a job done, and wait for it. None when there was nothing to do any more."""
        done: int | bool | None = self._put(job).result()
        return done

    def _findings(self, thread: str) -> set[tuple[object, ...]]:
        """What is found in a thread when its first step comes; the jobs look once more at what they change."""
        if thread not in self._known:
            self._known[thread] = {identity(found) for found in findings_of(self._engine, thread)}
        return self._known[thread]

    def _set_aside(self, thread: str, findings: tuple[Finding, ...]) -> SetAsideJob:
        one = findings[0]
        seqs = [found.seq for found in findings if found.seq is not None]
        if one.kind == "seq_gap" and one.until is not None and one.until != one.seq:
            seqs.append(one.until)
        body = ThreadRepaired(finding=one.kind, turn=one.turn, seqs=seqs, detail=one.detail, by=self._by)
        return SetAsideJob(thread=thread, body=body)

    def _move(self, thread: str, found: Finding) -> int | bool | None:
        draft = found.place.removeprefix("draft ")
        return self._done(MoveDraftJob(thread=thread, turn=found.turn or "", draft=draft, by=self._by))

    def _finish_fork(self, thread: str) -> bool | None:
        rows = self._engine.threads(thread=thread, limit=1).rows
        source = decode_thread_fold(rows[0].fold).source if rows else None
        if source is None:
            return None
        self._done(ForkJob(thread=thread, source=source, finish=self._view))
        return True

    def _turn(self, step: Step, findings: Sequence[Finding]) -> int | bool | None:
        assert step.thread is not None
        rows = self._engine.turns(thread=step.thread, turn=findings[0].turn, limit=1).rows
        if not rows:
            return None
        row = rows[0]
        if step.action == "snapshot":
            seq, pages = snapshot_pages(self._engine, row, turn_view(self._engine, row))
            return self._done(SnapshotJob(thread=row.thread, turn=row.turn, seq=seq, pages=pages))
        reopen = step.action == "reopen"
        places = any(found.place == PLACES for found in findings)
        view = rebuilt_view(self._engine, row, reopen=reopen)
        if view is None:
            return None
        done = self._done(RebuildTurnJob(thread=row.thread, row=row, view=view, reopen=reopen, places=places))
        if reopen and done:
            self._recover()
        return done

    def _reindex(self) -> bool | None:
        if not any(damage.what == "index" for damage in self._engine.check()):
            return None
        self._engine.reindex()
        return True

    def _settle(self, step: Step) -> bool | None:
        leases = {identity(found) for found in dead_leases(self._engine)}
        pending = any(self._is_open(found) for found in step.findings if found.kind == "pending")
        if not pending and not any(identity(found) in leases for found in step.findings):
            return None
        self._recover()
        return None if pending and all(self._is_open(each) for each in step.findings) else True

    def _is_open(self, found: Finding) -> bool:
        rows = self._engine.turns(thread=found.thread, turn=found.turn, open_only=True, limit=1).rows
        return bool(rows)
