"""Runs Codex processes, real and fake, in folders of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from turnlog.agents.codex.binary import find_binary
from turnlog.agents.codex.process import Program
from turnlog.agents.protocol import Signal, Task
from turnlog.errors import StartFailed
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Requested
from turnlog.testing.fake_app_server import Fake, write_fake

T = TypeVar("T")

WAIT_S = 60.0
PROCESSES = Path("/proc")


RESTING = {"codex resting", "codex reader", "codex stderr", "codex closing"}
"""Tasks of processes that rest or are being closed: the end of the event loop ends them."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` within a bound, and see that it leaves no task behind."""

    async def outer() -> T:
        result = await asyncio.wait_for(main, WAIT_S)
        left = {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}
        assert left <= RESTING, f"left running: {left}"
        return result

    return asyncio.run(outer())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other processes bring about; the bound is that of `run`."""
    while not condition():
        await asyncio.sleep(0.002)


def program(home: Path, **more: str) -> Program:
    """A Codex that knows no folder but `home`, and of the environment what it needs: `CODEX_BIN` may name another one.

    Without any Codex the test is skipped.
    """
    home.mkdir(exist_ok=True)
    given = {name: os.environ[name] for name in ("PATH", "CODEX_BIN") if name in os.environ}
    environment = {**given, "HOME": str(home), "CODEX_HOME": str(home), **more}
    if "CODEX_BIN" not in more:
        try:
            find_binary(environment)
        except StartFailed as error:
            pytest.skip(str(error.detail))
    return Program(environment=environment, clock=SystemClock())


def fake_program(folder: Path, script: Fake) -> Program:
    return program(folder, CODEX_BIN=str(write_fake(folder, script)))


def servers() -> list[int]:
    """The Codex processes of this test that are alive."""
    if not PROCESSES.exists():
        pytest.skip("only on systems that show their processes")
    found = []
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            ours = int(parent) == os.getpid() and b"app-server" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if ours and state != "Z":
            found.append(int(folder.name))
    return found


def processes_of(home: Path | str) -> dict[int, str]:
    """The processes that have this folder as their Codex home, servers and what they run: ids, and command lines."""
    found = {}
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            ours = f"CODEX_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if ours:
            found[int(folder.name)] = command
    return found


async def nobody_asks() -> AsyncIterator[Requested]:
    nobody: list[Requested] = []
    for request in nobody:
        yield request


async def unheard(signal: Signal) -> None:
    """Takes a signal that the test does not look at."""


def task(workspace: Path | None, thread: str = "t") -> Task:
    return Task(
        thread=thread, turn="u", content="", history=[], workspace=workspace, model=None, requests=nobody_asks()
    )
