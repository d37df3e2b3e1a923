"""`turnlog show`."""

from __future__ import annotations

import click

from turnlog.cli.options import with_page, with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store


@click.command()
@click.argument("thread")
@click.argument("turn", required=False)
@with_page
@with_store
def show(store: Store, *, thread: str, turn: str | None, as_json: bool, limit: int, before: str | None) -> None:
    """Show the transcript of THREAD, or everything that happened in one TURN of it."""
    if turn is not None and before is not None:
        raise click.UsageError("--before pages through a thread; a TURN is shown whole.")
    from turnlog.cli.reading import print_transcript, print_turn
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import cursor_of, entry_shape, timeline_document, transcript_document

    out = Output()
    with store.opened() as log:
        if turn is not None and as_json:
            view = log.timeline(thread, turn)
            row = log.turn_view(thread, turn).beside(view.turn)
            out.json(json_line(timeline_document(row, [entry_shape(entry) for entry in view.entries], log.epoch)))
        elif turn is not None:
            print_turn(out, store, log, thread, turn)
        else:
            page = log.transcript(thread, limit=limit, before=None if before is None else cursor_of(before))
            if as_json:
                out.json(json_line(transcript_document(page)))
            else:
                print_transcript(out, store, log, thread, page)
