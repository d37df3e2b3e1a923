"""`turnlog recover`, and telling what was recovered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.options import with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import plural, shell_word

if TYPE_CHECKING:
    from turnlog.journal.recovery import Recovered

TOLD_MOST: Final = 5
"""Recovered turns that are told one by one before a command does its own work."""


@click.command()
@with_store
def recover(store: Store, *, as_json: bool) -> None:
    """Settle the turns of processes that died, and list them. Opening the store does the same."""
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import recovered_document

    out = Output()
    with store.opened() as log:
        recovered = [*log.recovered, *log.recover()]
    if as_json:
        out.json(json_line(recovered_document(recovered)))
        return
    for line in recovered_lines(store, recovered):
        out.line(line)
    if not recovered:
        out.line("Nothing to recover: no turn of a dead process is open.")


def recovered_lines(store: Store, recovered: Sequence[Recovered]) -> list[str]:
    """For each turn what it is, why it ended and how to ask again."""
    lines = []
    for turn in recovered:
        calls = f", the outcome of {plural(len(turn.unknown_calls), 'call')} is unknown" if turn.unknown_calls else ""
        lines.append(
            f"Turn {shell_word(turn.turn)} of {shell_word(turn.thread)} was interrupted ({turn.reason}{calls})."
        )
        lines.append(f"  Ask again: {store.command('ask', turn.thread, options=(f'--retry={turn.turn}',))}")
    return lines
