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
@click.option("--plan", "mode", flag_value="plan", default=True, help="Say what would be done; change nothing.")
@click.option("--apply", "mode", flag_value="apply", help="Do it.")
@click.option("--undo", "mode", flag_value="undo", help="Let the repair at SEQ of THREAD hold no longer.")
@with_store
def repair(store: Store, *, thread: str | None, seq: int | None, mode: str, as_json: bool) -> None:
    """Put right what an audit finds, in the whole store or in THREAD.

    What is wrong in the log is set aside by an event that says so, what is derived of it is made again, and what a dead
    process left open is settled. Nothing is taken away. Opening the store already settles the turns of dead processes.
    Exit code 1 when something is left that is no info, or could not be done.
    """
    if mode == "undo":
        _undo(store, thread, seq, as_json=as_json)
        return
    if seq is not None:
        raise click.UsageError("SEQ goes with --undo.")
    with store.opened() as log:
        plan = log.plan_repair(log.audit(thread))
        report = log.repair(plan) if mode == "apply" else None
    _tell(Output(), store, plan, report, as_json=as_json)
    left = any(found.severity != "info" for found in plan.left)
    waiting = bool(plan.steps) if report is None else any(step.outcome == "failed" for step in report.steps)
    if left or waiting or plan.more:
        click.get_current_context().exit(FINDINGS)


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


def _tell(out: Output, store: Store, plan: RepairPlan, report: RepairReport | None, *, as_json: bool) -> None:
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import repair_document

    if as_json:
        out.json(json_line(repair_document(plan, report)))
        return
    done = [None] * len(plan.steps) if report is None else report.steps
    for step, became in zip(plan.steps, done, strict=True):
        _print_step(out, step, became)
    for found in plan.left:
        if found.severity != "info":
            print_finding(out, found)
    if not plan.steps:
        out.line("Nothing to repair.", "green")
    elif report is None:
        out.line(f"{plural(len(plan.steps), 'step')}. Do it: {store.command('repair', options=('--apply',))}")
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
