"""`turnlog tail`: the command and its arguments; `tailing` does it."""

from __future__ import annotations

import click

from turnlog.cli.options import with_store
from turnlog.cli.output import Output, complain
from turnlog.cli.store import Store
from turnlog.cli.words import shell_word


@click.command()
@click.argument("thread")
@click.option("--after", metavar="CURSOR", default="0", help="Only what comes after this cursor (or seq).")
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@with_store
def tail(store: Store, *, thread: str, after: str, follow: bool, as_json: bool) -> None:
    """Print the events of THREAD in order, then its open drafts.

    With --json each is a line: {"event":"event","id":CURSOR,"data":...} or {"event":"draft","data":...}. A cursor that
    is not of this log is answered by {"event":"reset",...} and exit code 1.
    """
    import asyncio

    from turnlog.cli.tailing import Tailing
    from turnlog.errors import CursorUnprovable, UnknownThread
    from turnlog.journal.follow import is_seq

    out = Output()
    with store.opened() as log:
        printing = Tailing(out, log.epoch, as_json=as_json)
        try:
            news = log.follow(thread, after=int(after) if is_seq(after) else after)
        except CursorUnprovable as error:
            if as_json:
                printing.reset(error)
            raise
        if not follow:
            printing.all_of(log, thread, int(after.rpartition(".")[2]))
            return
        try:
            log.thread(thread)
        except UnknownThread:
            complain(f"There is no thread {shell_word(thread)} yet; waiting for it.")
        asyncio.run(printing.follow(news))
