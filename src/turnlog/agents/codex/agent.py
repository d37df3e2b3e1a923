"""The real Codex as an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnlog.agents.codex.binary import Installed
from turnlog.agents.codex.content import input_of
from turnlog.agents.codex.pool import CodexPool
from turnlog.agents.codex.process import Program
from turnlog.agents.codex.turn import CodexTurn
from turnlog.agents.protocol import Emit, Finish, StepSignal, Task

_VERSION: Final = "codex-version"


class CodexAgent:
    """Works in the folder `task.workspace`, with the settings of the user's own `CODEX_HOME`.

    `run` raises `StartFailed` when Codex is not there, does not start or refuses the thread's history, and
    `AgentFailed` when it ends the turn otherwise than by itself. After such an end its thread is dropped, and the next
    turn gives a new one the whole history.

    `version` is that of the process that runs the turn: one that rests is not taken after Codex has been replaced.
    """

    name = "codex"

    def __init__(self, pool: CodexPool, installed: Installed) -> None:
        """Raises `StartFailed` when there is no Codex."""
        self._pool, self._installed = pool, installed
        self.version = installed.version()

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        content = input_of(task.content)
        link = await self._pool.take(task, emit, self.version)
        try:
            if link.process.version != self.version:
                await self._correct_version(link.process.version, emit)
            finish = await CodexTurn(link, task, emit).run(content)
        except BaseException:
            self._pool.drop(task.thread, link)
            raise
        self._pool.keep(task.thread, link)
        return finish

    async def _correct_version(self, version: str, emit: Emit) -> None:
        """The program was replaced in the moment between question and start, or does not know what it starts."""
        self._installed.learn(version)
        title = f"This was Codex {version}, not {self.version}"
        await emit(StepSignal(id=_VERSION, step="note", name="version", title=title, status="succeeded"))


def codex_agents(program: Program) -> Callable[[], CodexAgent]:
    """A maker of agents that share the processes of one event loop. Raises `StartFailed` when there is no Codex."""
    installed, pool = Installed(program.environment), CodexPool(program)
    installed.version()
    return lambda: CodexAgent(pool, installed)
