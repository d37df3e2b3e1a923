"""Starting servers that are meant to be killed, and what they report."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.testing.killing import Child, ChildFailed

from ...proof.facts import AnyFact, Fact
from ...web.recording import Client
from .plan import Kill

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("server.py")


def start(folder: Path, kill: Kill | None = None, *more: str) -> Child:
    """Start a server on the store in `folder`."""
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    arguments = [str(folder), msgspec.json.encode(kill).decode(), *more]
    return Child(SCRIPT, arguments, folder=folder, environment=paths)


async def port_of(child: Child) -> int | None:
    """The port a server listens at, None when it was killed before."""
    try:
        lines = await asyncio.to_thread(child.wait_for, lambda lines: any(isinstance(line, dict) for line in lines))
    except ChildFailed:
        if not await asyncio.to_thread(child.killed):
            raise
        return None
    return next(int(line["port"]) for line in lines if isinstance(line, dict))


class Served(NamedTuple):
    """A server and a client of it."""

    child: Child
    client: Client

    def signal(self, number: int) -> None:
        """Send the server a signal."""
        os.kill(self.child.pid, number)

    async def reap(self) -> int:
        """Wait for the server's end; its exit code."""
        return await asyncio.to_thread(self.child.reap)


@asynccontextmanager
async def served(folder: Path, *more: str) -> AsyncIterator[Served]:
    """A server on the store in `folder` that nothing kills before the end of the `async with`."""
    with start(folder, None, *more) as child:
        port = await port_of(child)
        assert port is not None
        async with Client(port, []) as client:
            yield Served(child, client)


def facts_of(child: Child) -> list[Fact]:
    """What the agents of a server were told."""
    return [msgspec.convert(json.loads(line), AnyFact) for line in child.lines if isinstance(line, str)]
