"""A server with agents that do what a test needs: `Serving(..., script=SCRIPTED)`.

SIGUSR1 makes the store refuse all writes, SIGUSR2 makes it take them again. The variable `PATIENCE_S` sets for how long
agents may clean up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.runner.running import answer, text
from tests.web.serving import serve_agents
from turnlog.agents.protocol import Agent, Task
from turnlog.engines.open import open_engine
from turnlog.errors import StoreUnavailable
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.runner.runner import run_turn
from turnlog.testing.faults import FaultEngine
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.web import work

SCRIPTED: Final = Path(__file__)

HALF: Final = "half an answer"

PATIENCE_S: Final = "PATIENCE_S"


async def _told(task: Task) -> None:
    """Wait for a person's decision."""
    async for request in task.requests:
        if request.what == "decide":
            return


async def _stubborn(_task: Task) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def _stuck(_task: Task) -> None:
    await asyncio.to_thread(threading.Event().wait)


def quick() -> Agent:
    return ScriptedAgent(text("an "), answer("an answer"), name="quick")


def told() -> Agent:
    """Shows half an answer, and the rest once somebody decides."""
    return ScriptedAgent(text(HALF), _told, answer(f"{HALF}, and the rest"), name="told")


def stubborn() -> Agent:
    """Shows half an answer, and does not end when it is told to."""
    return ScriptedAgent(text(HALF), _stubborn, name="stubborn")


def stuck() -> Agent:
    """Shows half an answer, and waits in a thread that never ends."""
    return ScriptedAgent(text(HALF), _stuck, name="stuck")


async def _exit(_task: Task) -> None:
    raise SystemExit(4)


async def _exit_aside(_task: Task) -> None:
    """A task of the agent's own that nobody waits for ends as a program does."""
    task = asyncio.create_task(_exit(_task))
    await asyncio.wait({task})


def exiting() -> Agent:
    return ScriptedAgent(text(HALF), _exit, name="exiting")


def exiting_aside() -> Agent:
    return ScriptedAgent(text(HALF), _exit_aside, answer(HALF), name="exiting_aside")


def unmakeable() -> Agent:
    raise SystemExit(4)


@contextmanager
def opened(url: str) -> Iterator[Log]:
    clock = SystemClock()
    engine = FaultEngine(open_engine(url, clock))

    def fail(_number: int, _frame: object) -> None:
        for verb in ("commit.before", "lease.before"):
            engine.fail(verb, lambda: StoreUnavailable(detail="the disk is full: /srv/secret"), forever=True)

    signal.signal(signal.SIGUSR1, fail)
    signal.signal(signal.SIGUSR2, lambda _number, _frame: engine.heal())
    with Log(engine, clock=clock) as log:
        yield log


def be_patient(seconds: float) -> None:
    defaults = run_turn.__kwdefaults__
    assert defaults is not None
    defaults["stop_s"] = work.__dict__["STOP_TURNS_S"] = seconds


if __name__ == "__main__":
    if PATIENCE_S in os.environ:
        be_patient(float(os.environ[PATIENCE_S]))
    agents = (quick, told, stubborn, stuck, exiting, exiting_aside, unmakeable)
    serve_agents({make.__name__: make for make in agents}, opened=opened)
