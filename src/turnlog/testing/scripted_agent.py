"""An agent that plays a script: for tests of what surrounds an agent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from turnlog.agents.protocol import Emit, Finish, Signal, Task

Act: TypeAlias = Signal | Finish | BaseException | asyncio.Event | Callable[[Task], Awaitable[None] | None]
"""One act of a script: a signal is emitted, a `Finish` returned, an exception raised, an event waited for, and anything
else is called with the task (and awaited)."""


class ScriptedAgent:
    """Plays `script` once, in order. As its own factory it gives itself: `run_turn(turn, lambda: agent, ...)`.

    `begun` and `ended` are set when `run` begins and ends, however it ends; `played` counts the acts that are over, and
    `cancelled` tells whether `run` was cancelled.
    """

    def __init__(self, *script: Act, name: str = "scripted", version: str = "1") -> None:
        self.name = name
        self.version = version
        self.script = script
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.played = 0
        self.cancelled = False
        self.task: Task | None = None

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        self.task = task
        self.begun.set()
        try:
            for act in self.script:
                if isinstance(act, Finish):
                    return act
                await self._play(act, task, emit)
                self.played += 1
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return Finish()

    @staticmethod
    async def _play(act: Act, task: Task, emit: Emit) -> None:
        if isinstance(act, BaseException):
            raise act
        if isinstance(act, asyncio.Event):
            await act.wait()
        elif callable(act):
            done = act(task)
            if inspect.isawaitable(done):
                await done
        else:
            assert not isinstance(act, Finish)
            await emit(act)
