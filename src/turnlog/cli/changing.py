"""Commands that change a thread as a whole, and the one that stops what is being answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import one_line, shell_word

if TYPE_CHECKING:
    from turnlog.journal.log import Log

_OPEN: Final = frozenset({"submitted", "worker_started", "assistant_started"})


def _by(command: str) -> str:
    return f"turnlog {command}"


def _tell(said: str, document: dict[str, Any], *, as_json: bool) -> None:
    from turnlog.events.codec import json_line

    out = Output()
    if as_json:
        out.json(json_line(document))
    else:
        out.line(said)


@click.command()
@click.argument("thread")
@click.argument("turn", required=False)
@with_store
def stop(store: Store, *, thread: str, turn: str | None, as_json: bool) -> None:
    """Ask the turn of THREAD that is being answered to end, or the TURN given, in whatever process it runs."""
    with store.opened() as log:
        asked = turn or _open_turn(log, thread)
        seq = log.request(thread, asked, by=_by("stop")).result()
    said = f"Turn {shell_word(asked)} was asked to end."
    _tell(said, {"thread": thread, "turn": asked, "seq": seq}, as_json=as_json)


def _open_turn(log: Log, thread: str) -> str:
    """The open turn that was submitted first: it is the one that is being answered. Without one, the newest turn."""
    rows = log.turns(thread).rows
    waiting = [view.turn for view in rows if view.state in _OPEN]
    if not rows:
        raise click.UsageError("There is no turn in this thread.")
    return waiting[-1] if waiting else rows[0].turn


@click.command()
@click.argument("thread")
@click.argument("title")
@with_store
def rename(store: Store, *, thread: str, title: str, as_json: bool) -> None:
    """Give THREAD a TITLE; an empty one gives it back to the first message."""
    with store.opened() as log:
        seq = log.rename(thread, title, by=_by("rename")).result()
        shown = log.thread(thread).title
    _tell(f"It is called: {one_line(shown)}", {"thread": thread, "title": shown, "seq": seq}, as_json=as_json)


@click.command()
@click.argument("thread")
@click.option("--off", is_flag=True, help="Let it go again.")
@with_store
def pin(store: Store, *, thread: str, off: bool, as_json: bool) -> None:
    """Let THREAD stand before those that are not pinned."""
    with store.opened() as log:
        seq = log.pin(thread, not off, by=_by("pin")).result()
    said = "It is no longer pinned." if off else "It is pinned."
    _tell(said, {"thread": thread, "pinned": not off, "seq": seq}, as_json=as_json)


@click.command()
@click.argument("thread")
@click.argument("turn", required=False)
@with_store
def undo(store: Store, *, thread: str, turn: str | None, as_json: bool) -> None:
    """Take TURN and everything begun after it out of the conversation; by default the newest turn that is shown.

    It all stays, and `turnlog show THREAD TURN` reads it.
    """
    with store.opened() as log:
        first = turn or log.thread(thread).latest
        if first is None:
            raise click.UsageError("There is no turn to take back in this thread.")
        done = log.truncate(thread, first, by=_by("undo")).result()
    turns = "1 turn was" if len(done.hidden) == 1 else f"{len(done.hidden)}{' or more' * done.more} turns were"
    document = {"thread": thread, "seq": done.seq, "hidden": list(done.hidden), "more": done.more}
    _tell(f"{turns} taken back. Read one: {store.command('show', thread, first)}", document, as_json=as_json)


@click.command()
@click.argument("thread")
@click.argument("to", required=False)
@click.option("--turn", metavar="TURN", help="The last turn that stays. Default: all that have ended.")
@with_store
def fork(store: Store, *, thread: str, to: str | None, turn: str | None, as_json: bool) -> None:
    """Copy THREAD into the new thread TO, which gets an id if none is given."""
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import thread_row

    with store.opened() as log:
        copied = log.fork(thread, to, turn=turn).result()
    out = Output()
    if as_json:
        out.json(json_line(thread_row(copied)))
    else:
        out.line(f"It is the thread {shell_word(copied.thread)}. Read it: {store.command('show', copied.thread)}")


@click.command()
@click.argument("thread")
@click.argument("summary")
@click.option("--until", metavar="TURN", help="The last turn that it tells of. Default: the newest that has ended.")
@with_store
def compact(store: Store, *, thread: str, summary: str, until: str | None, as_json: bool) -> None:
    """Let SUMMARY stand for the beginning of THREAD in what an agent is given. All of it stays."""
    with store.opened() as log:
        seq = log.compact(thread, summary, until=until, by=_by("compact")).result()
    _tell("The summary stands.", {"thread": thread, "seq": seq}, as_json=as_json)
