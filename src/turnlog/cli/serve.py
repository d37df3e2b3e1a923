"""`turnlog serve`: the web chat and the API."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnlog.cli.agents import AGENTS, agent_factory
from turnlog.cli.options import with_store
from turnlog.cli.output import Output, OutputLost, silence
from turnlog.cli.recover import TOLD_MOST, recovered_lines
from turnlog.cli.store import Store
from turnlog.cli.words import one_line

if TYPE_CHECKING:
    from turnlog.journal.recovery import Recovered

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
        from turnlog.web.server import guard_of, leave_stuck_threads, listening, run_server, url_of
    except ModuleNotFoundError as error:
        raise click.UsageError(f"The server needs {error.name} and more: pip install 'turnlog[server]'") from None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    folder = workspace.absolute()
    agents = {name: agent_factory(name) for name in dict.fromkeys(("demo", agent))}
    try:
        with listening(host, port) as sock:
            guard = guard_of(sock, host, token)
            with store.opened(create=True) as log:
                told = _Told(store, log.recovered, url_of(sock, host), agent, folder)
                run_server(
                    log,
                    agents,
                    agent=agent,
                    sock=sock,
                    guard=guard,
                    workspace=folder,
                    ready=told.as_json if as_json else told.as_text,
                )
    finally:
        leave_stuck_threads(sys.exception())


@dataclass(frozen=True)
class _Told:
    """Where it is served, from what, and what was settled at the start. The server needs nobody who reads it."""

    store: Store
    recovered: Sequence[Recovered]
    url: str
    agent: str
    workspace: Path

    def as_json(self) -> None:
        """One object on one line."""
        from turnlog.events.codec import json_line
        from turnlog.journal.documents import recovered_document

        served = {"url": self.url, "store": self.store.url, "agent": self.agent, "workspace": str(self.workspace)}
        out = Output()
        with _read_or_not():
            out.json(json_line({**served, **recovered_document(self.recovered)}))
            out.flush()

    def as_text(self) -> None:
        """The interrupted turns, then one line."""
        lines = recovered_lines(self.store, self.recovered[:TOLD_MOST])
        if (more := len(self.recovered) - TOLD_MOST) > 0:
            lines.append(f"And {more} more. See {self.store.command('threads')}")
        lines.append(
            f"Serving {self.url} · store {one_line(self.store.url)} · agent {self.agent} · "
            f"workspace {one_line(str(self.workspace))} · Ctrl-C stops"
        )
        out = Output()
        with _read_or_not():
            for line in lines:
                out.line(line)
            out.flush()


@contextmanager
def _read_or_not() -> Iterator[None]:
    try:
        yield
    except OutputLost:
        silence()
