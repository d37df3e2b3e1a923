"""`turnlog doctor`: the command; `examining` looks."""

from __future__ import annotations

from importlib import metadata

import click

from turnlog.cli.failing import FINDINGS, STORE
from turnlog.cli.options import with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import one_line


@click.command()
@with_store
def doctor(store: Store, *, as_json: bool) -> None:
    """Say what store this is, what it runs on, which turns are open, and what is not as it should be.

    Settles nothing. Exit code 1 when something was found, 3 when the store is not there or cannot be opened.
    """
    from turnlog.cli.examining import examine
    from turnlog.events.codec import json_line

    report = examine(store, installed_version())
    out = Output()
    if as_json:
        out.json(json_line(report))
    else:
        for name, value in report.items():
            if not isinstance(value, list):
                out.line(f"{name.replace('_', ' '):<20}{one_line(str('-' if value is None else value))}")
        for turn in report["open_turns"]:
            owner = f"owner {turn['owner']}, {'alive' if turn['owner_alive'] else 'dead'}"
            out.line(f"open turn           {turn['name']} · {turn['state']} · {owner}")
        for finding in report["findings"]:
            out.line(f"finding             {one_line(finding)}", "yellow")
        if not report["findings"]:
            out.line("Nothing to worry about.", "green")
        if report["usable"]:
            out.line(f"What lies in the log is looked through by: {store.command('audit')}", "dim")
    if report["findings"]:
        click.get_current_context().exit(STORE if not report["usable"] else FINDINGS)


def installed_version() -> str:
    """The version of the installed package; run from a checkout that is not installed there is none."""
    try:
        return metadata.version("turnlog")
    except metadata.PackageNotFoundError:
        return "not installed"
