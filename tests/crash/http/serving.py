"""Starting servers that are meant to be killed, and what they report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec

from turnlog.testing.killing import Child, ChildFailed

from ...proof.facts import AnyFact, Fact
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


def facts_of(child: Child) -> list[Fact]:
    """What the agents of a server were told."""
    return [msgspec.convert(json.loads(line), AnyFact) for line in child.lines if isinstance(line, str)]
