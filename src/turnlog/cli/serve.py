"""`turnlog serve`: the web chat and the API."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from turnlog.cli.ask import AGENTS
from turnlog.cli.options import with_store
from turnlog.cli.output import Output, OutputLost, silence
from turnlog.cli.recover import TOLD_MOST, recovered_lines
from turnlog.cli.store import Store

_TOKEN_VARIABLE = "TURNLOG_TOKEN"  # noqa: S105  # a name, no token


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen. Others than this machine need a token."
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="0: any free one.")
@click.option("--agent", type=click.Choice(AGENTS), default="demo", show_default=True, help="Who answers.")
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    metavar="DIR",
    help="The folder the agent looks into. Default: this one.",
)
@click.option(
    "--token", metavar="T", envvar=_TOKEN_VARIABLE, help=f"Let in only who knows it. Default: ${_TOKEN_VARIABLE}."
)
@with_store
def serve(store: Store, *, host: str, port: int, agent: str, workspace: Path, token: str | None, as_json: bool) -> None:
    """Serve the chat page and the API until Ctrl-C.

    Running turns then end as interrupted and can be asked again. A second Ctrl-C waits for nobody.
    """
    try:
        from turnlog.web.server import guard_of, listening, run_server, url_of
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"The server needs more packages ({error.name}): pip install 'turnlog[server]'"
        ) from None
    from turnlog.agents.demo import DemoAgent
    from turnlog.journal.log import Log

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    folder = workspace.absolute()
    with listening(host, port) as sock:
        guard = guard_of(sock, host, token)

        def tell(log: Log) -> None:
            _tell(store, log, url_of(sock, host), agent, folder, as_json=as_json)

        with store.opened(create=True) as log:
            run_server(
                log, {"demo": DemoAgent}, agent=agent, sock=sock, workspace=folder, guard=guard, ready=lambda: tell(log)
            )


def _tell(store: Store, log: object, url: str, agent: str, workspace: Path, *, as_json: bool) -> None:
    """Say where it is served, from what, and what was settled at the start. The server needs no reader of it."""
    from turnlog.events.codec import json_line
    from turnlog.journal.documents import recovered_document
    from turnlog.journal.log import Log

    assert isinstance(log, Log)
    out = Output()
    try:
        if as_json:
            served = {"url": url, "store": store.url, "agent": agent, "workspace": str(workspace)}
            out.json(json_line({**served, **recovered_document(log.recovered)}))
        else:
            for line in recovered_lines(store, log.recovered[:TOLD_MOST]):
                out.line(line)
            if (more := len(log.recovered) - TOLD_MOST) > 0:
                out.line(f"And {more} more. See {store.command('threads')}")
            out.line(f"Serving {url} · store {store.url} · agent {agent} · workspace {workspace} · Ctrl-C stops")
        out.flush()
    except OutputLost:
        silence()
