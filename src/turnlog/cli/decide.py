"""`turnlog decide`: what an agent asks a person, and answering it from any terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import with_store
from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.words import one_line, shell_word

if TYPE_CHECKING:
    from turnlog.folds.entries import Entry
    from turnlog.journal.log import Log


@click.command()
@click.argument("thread")
@click.argument("approval", required=False)
@click.argument("decision", required=False)
@click.option("--turn", metavar="TURN", help="Which turn. Default: the one of THREAD that is being answered.")
@with_store
def decide(
    store: Store, *, thread: str, approval: str | None, decision: str | None, turn: str | None, as_json: bool
) -> None:
    """List what the agent of THREAD asks a person, or answer an APPROVAL with a DECISION.

    A DECISION is a word that the request offers, such as accept or decline, or a JSON object. The first one stands.
    """
    if approval is not None and decision is None:
        raise click.UsageError("Give a DECISION too: a word that the request offers, or a JSON object.")
    from turnlog.events.codec import json_line

    out = Output()
    with store.opened() as log:
        asked = turn or _running(log, thread)
        if approval is not None:
            value = _value(decision or "")
            seq = log.request(
                thread, asked or "", "decide", approval=approval, value=value, by="turnlog decide"
            ).result()
            document = {"thread": thread, "turn": asked, "approval": approval, "value": value, "seq": seq}
            if as_json:
                out.json(json_line(document))
            else:
                out.line(f"Decided: {shell_word(approval)} is {one_line(decision or '')}.")
            return
        waiting = [] if asked is None else _waiting(log, thread, asked)
        if as_json:
            out.json(json_line({"approvals": [_document(thread, asked or "", entry) for entry in waiting]}))
            return
        for entry in waiting:
            _print(out, store, thread, entry)
        if not waiting:
            out.line("Nobody is asked anything in this thread.", "dim")


def _running(log: Log, thread: str) -> str | None:
    """The turn that is being answered: only one of a thread is at a time."""
    started = (view for view in log.turns(thread).rows if view.state in ("worker_started", "assistant_started"))
    return next((view.turn for view in started), None)


def _waiting(log: Log, thread: str, turn: str) -> list[Entry]:
    entries = log.timeline(thread, turn).entries
    return [entry for entry in entries if entry.kind == "approval" and entry.status == "waiting"]


def _value(decision: str) -> Any:
    """A JSON object, or a word."""
    try:
        value = json.loads(decision)
    except ValueError:
        return decision
    return value if isinstance(value, dict | bool) else decision


def _document(thread: str, turn: str, entry: Entry) -> dict[str, Any]:
    return {"thread": thread, "turn": turn, "approval": entry.id, "title": entry.title, "asks": entry.args}


def _print(out: Output, store: Store, thread: str, entry: Entry) -> None:
    out.line(f"{shell_word(entry.id)} · {one_line(entry.title or '')}", "bold")
    if entry.args:
        out.line(f"  {one_line(entry.args)}")
    out.line(f"  Answer: {store.command('decide', thread, entry.id, 'accept')}", "dim")
