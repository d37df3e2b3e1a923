"""`turnlog threads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import with_page, with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import cut_to, one_line, shell_word

if TYPE_CHECKING:
    from turnlog.folds.turn import TurnView
    from turnlog.journal.reading import ThreadView


@click.command()
@with_page
@with_store
def threads(store: Store, *, as_json: bool, limit: int, before: str | None) -> None:
    """List the threads: those that are pinned, then the last changed first."""
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import cursor_of, cursor_text, threads_document

    out = Output()
    with store.opened() as log:
        page = log.threads(limit=limit, before=None if before is None else cursor_of(before))
        if as_json:
            out.json(json_line(threads_document(page)))
            return
        for row in page.rows:
            _print_row(out, row, None if row.latest is None else log.turn_view(row.thread, row.latest))
    if not page.rows:
        out.line(f"No threads yet. Begin one: {store.command('ask', 'first')} 'What is this folder about?'", "dim")
    if page.next is not None:
        out.line(f"More: {store.command('threads', options=(f'--before={cursor_text(page.next)}',))}", "dim")


def _print_row(out: Output, row: ThreadView, latest: TurnView | None) -> None:
    from turnlog.cli.trace import STATE_STYLES, STATE_WORDS, local_time

    out.write(f"{local_time(row.updated_at)}  ", "dim")
    state = None if latest is None else latest.state
    word = "" if state is None else STATE_WORDS[state]
    out.write(f"{word:<12}", "plain" if state is None else STATE_STYLES[state])
    name = shell_word(row.thread)
    out.write(name, "bold")
    pinned = "  pinned" if row.pinned else ""
    left = out.columns - len(name) - len(pinned) - 33
    out.write(f"  {cut_to(one_line(row.title), max(left, 20))}" if row.title else "")
    out.line(pinned, "dim")
    if row.damaged:
        out.line("  Its row could not be read; this is made of its events.", "yellow")
