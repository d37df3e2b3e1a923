"""The real Codex as an agent."""

from __future__ import annotations

from collections.abc import Callable

from turnlog.agents.codex.binary import find_binary, installed_version
from turnlog.agents.codex.content import input_of
from turnlog.agents.codex.pool import CodexPool
from turnlog.agents.codex.process import Program
from turnlog.agents.codex.turn import CodexTurn
from turnlog.agents.protocol import Emit, Finish, Task


class CodexAgent:
    """Works in the folder `task.workspace`, with the settings of the user's own `CODEX_HOME`.

    `run` raises `StartFailed` when Codex is not there, does not start or refuses the thread's history, and
    `AgentFailed` when it ends the turn otherwise than by itself. After such an end its thread is dropped, and the next
    turn gives a new one the whole history.
    """

    name = "codex"

    def __init__(self, pool: CodexPool, version: str) -> None:
        self._pool = pool
        self.version = version

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        content = input_of(task.content)
        link = await self._pool.take(task, emit)
        try:
            finish = await CodexTurn(link, task, emit).run(content)
        except BaseException:
            self._pool.drop(task.thread, link)
            raise
        self._pool.keep(task.thread, link)
        return finish


def codex_agents(program: Program) -> Callable[[], CodexAgent]:
    """A maker of agents that share the processes of one event loop. Raises `StartFailed` when there is no Codex."""
    version = installed_version(find_binary(program.environment), program.environment)
    pool = CodexPool(program)
    return lambda: CodexAgent(pool, version)
