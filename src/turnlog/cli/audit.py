"""`turnlog audit` and `turnlog verify`: what of the store is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.failing import FINDINGS
from turnlog.cli.options import with_store
from turnlog.cli.output import Output, Style
from turnlog.cli.store import Store
from turnlog.cli.words import one_line, plural, shell_word

if TYPE_CHECKING:
    from turnlog.folds.findings import Finding, Severity

_STYLES: Final[dict[Severity, Style]] = {"info": "dim", "warning": "yellow", "error": "red"}


@click.command()
@click.argument("thread", required=False)
@with_store
def audit(store: Store, *, thread: str | None, as_json: bool) -> None:
    """Find what is not as it should be, in the whole store or in THREAD. It changes nothing and settles nothing.

    Infos happen in a sound store too. Exit code 1 when there are warnings or errors.
    """
    from turnlog.journal.auditing import audit_store, audit_thread
    from turnlog.journal.documents import finding_json

    out = Output()
    counts = Counts()
    with store.unsettled() as engine:
        findings = audit_store(engine) if thread is None else audit_thread(engine, thread)
        if as_json:
            out.json_list("findings", (finding_json(found) for found in counts.counted(findings)))
        else:
            for found in counts.counted(findings):
                print_finding(out, found)
    if not as_json:
        _print_end(out, store, counts, thread)
    if counts.bad:
        click.get_current_context().exit(FINDINGS)


@click.command()
@with_store
def verify(store: Store, *, as_json: bool) -> None:
    """Read everything again and compare it: pages of the file, digests, timelines, snapshots, rows.

    It takes as long as reading the store, and memory that does not grow with it. It settles nothing. Exit code 1 when
    there are warnings or errors.
    """
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import finding_json, progress_fields
    from turnlog.journal.verifying import Progress, verify_store

    out = Output()
    counts = Counts()
    last = Progress(threads=0, events=0, findings=0)

    def findings() -> Iterator[Finding]:
        nonlocal last
        with store.unsettled() as engine:
            for told in verify_store(engine):
                if isinstance(told, Progress):
                    last = told
                    if not as_json:
                        out.status(f"{plural(told.threads, 'thread')}, {plural(told.events, 'event')} ...")
                else:
                    yield told

    if as_json:
        listed = (finding_json(found) for found in counts.counted(findings()))
        out.json_list("findings", listed, rest=lambda: json_line(progress_fields(last)))
    else:
        for found in counts.counted(findings()):
            print_finding(out, found)
        out.line(f"Read {plural(last.events, 'event')} of {plural(last.threads, 'thread')}.")
        _print_end(out, store, counts, None)
    if counts.bad:
        click.get_current_context().exit(FINDINGS)


class Counts:
    """How many findings passed by: `bad` are warnings and errors."""

    def __init__(self) -> None:
        self.all = self.bad = self.repairable = 0

    def counted(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """The same findings."""
        for found in findings:
            self.all += 1
            self.bad += found.severity != "info"
            self.repairable += found.repairable
            yield found


def print_finding(out: Output, found: Finding) -> None:
    """A finding in two lines: what and where, and what to know of it."""
    where = "the store" if found.thread is None else shell_word(found.thread)
    if found.turn is not None:
        where = f"turn {shell_word(found.turn)} of {where}"
    out.write(f"{found.severity:<8}", _STYLES[found.severity])
    out.line(f" {found.kind} · {where} · {one_line(found.place)}{' · can be repaired' if found.repairable else ''}")
    out.line(f"         {one_line(found.detail)}", "dim")


def _print_end(out: Output, store: Store, counts: Counts, thread: str | None) -> None:
    if not counts.all:
        out.line("Nothing found.", "green")
    elif counts.repairable:
        of = () if thread is None else (thread,)
        out.line(f"What a repair would do: {store.command('repair', *of, options=('--plan',))}")
