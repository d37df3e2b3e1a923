"""`turnlog repair`: show a plan, apply one, undo a step of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.audit import print_finding
from turnlog.cli.failing import FINDINGS
from turnlog.cli.options import with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import one_line, plural, shell_word

if TYPE_CHECKING:
    from turnlog.folds.repair import RepairPlan, RepairReport, Step, StepDone
    from turnlog.journal.log import Log


@click.command()
@click.argument("thread", required=False)
@click.argument("seq", required=False, type=int)
@click.option("--plan", is_flag=True, help="Say what would be done; change nothing. This is the default.")
@click.option("--apply", is_flag=True, help="Do it.")
@click.option("--undo", is_flag=True, help="Let the repair at SEQ of THREAD hold no longer.")
@with_store
def repair(
    store: Store, *, thread: str | None, seq: int | None, plan: bool, apply: bool, undo: bool, as_json: bool
) -> None:
    """Put right what an audit finds, in the whole store or in THREAD.

    What is wrong in the log is set aside by an event that says so, what is derived of it is made again, and what a dead
    process left open is settled. Nothing is taken away. Exit code 1 when something is left that is no info, or could
    not be done.
    """
    if plan + apply + undo > 1:
        raise click.UsageError("--plan, --apply and --undo go one at a time.")
    if undo:
        _undo(store, thread, seq, as_json=as_json)
        return
    if seq is not None:
        raise click.UsageError("SEQ goes with --undo.")
    planned = _plan(store, thread)
    report = _carry_out(store, planned) if apply else None
    _tell(Output(), store, planned, report, thread, as_json=as_json)
    left = any(found.severity != "info" for found in planned.left)
    waiting = bool(planned.steps) if report is None else any(step.outcome == "failed" for step in report.steps)
    if left or waiting or planned.more:
        click.get_current_context().exit(FINDINGS)


def _plan(store: Store, thread: str | None) -> RepairPlan:
    from turnlog.folds.repair import plan_repair
    from turnlog.journal.auditing import audit_store, audit_thread

    with store.unsettled() as engine:
        return plan_repair(audit_store(engine) if thread is None else audit_thread(engine, thread))


def _carry_out(store: Store, plan: RepairPlan) -> RepairReport:
    """Do it. What is to be settled was when the log opened, so its step finds nothing to do any more."""
    from msgspec.structs import replace

    from turnlog.folds.repair import RepairReport

    if not plan.steps:
        return RepairReport(plan=plan.id, steps=())
    with store.opened() as log:
        report = log.repair(plan)
        settled = bool(log.recovered)
    steps = [
        replace(step, outcome="done", detail=None) if settled and step.action == "recover" else step
        for step in report.steps
    ]
    return replace(report, steps=tuple(steps))


def _undo(store: Store, thread: str | None, seq: int | None, *, as_json: bool) -> None:
    from turnlog.events.codec import json_line

    if thread is None or seq is None:
        raise click.UsageError("--undo needs THREAD and SEQ.")
    log: Log
    with store.opened() as log:
        undone = log.undo_repair(thread, seq).result()
    out = Output()
    if as_json:
        out.json(json_line({"thread": thread, "repair": seq, "seq": undone}))
    else:
        out.line(f"The repair at {seq} of {shell_word(thread)} holds no longer (event {undone}).")


def _tell(
    out: Output, store: Store, plan: RepairPlan, report: RepairReport | None, thread: str | None, *, as_json: bool
) -> None:
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import repair_document

    if as_json:
        out.json(json_line(repair_document(plan, report)))
        return
    done = [None] * len(plan.steps) if report is None else report.steps
    for step, became in zip(plan.steps, done, strict=True):
        _print_step(out, step, became)
    left = [found for found in plan.left if found.severity != "info"]
    for found in left:
        print_finding(out, found)
    if not plan.steps:
        out.line("Nothing that can be repaired." if left else "Nothing to repair.", "yellow" if left else "green")
    elif report is None:
        of = () if thread is None else (thread,)
        out.line(f"{plural(len(plan.steps), 'step')}. Do it: {store.command('repair', *of, options=('--apply',))}")
    if plan.more:
        out.line("There is more than one plan takes: repair, and audit again.", "yellow")


def _print_step(out: Output, step: Step, became: StepDone | None) -> None:
    where = "the store" if step.thread is None else shell_word(step.thread)
    if step.turn is not None:
        where = f"turn {shell_word(step.turn)} of {where}"
    said = "" if became is None else f" · {became.outcome}"
    if became is not None and became.seq is not None:
        said += f" (event {became.seq})"
    out.line(f"{where} · {one_line(step.says)}{said}")
    if became is not None and became.detail:
        out.line(f"         {one_line(became.detail)}", "dim")
