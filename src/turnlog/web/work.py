"""The work on turns: each accepted turn is run by a task of its own, whoever listens or goes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from turnlog.events.kinds import Attachment
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.runner.runner import AgentFactory

WhenBusy: TypeAlias = Literal["refuse", "queue", "replace"]


class Work:
    """Takes submissions and runs their turns. `agents` are makers of agents by name, `agent` is the default one."""

    def __init__(
        self, log: Log, agents: Mapping[str, AgentFactory], *, agent: str, workspace: Path | None = None
    ) -> None:
        self._log = log
        self._agents = agents
        self._agent = agent
        self._workspace = workspace

    async def submit(
        self,
        thread: str,
        content: str | list[Any],
        *,
        key: str | None = None,
        turn: str | None = None,
        agent: str | None = None,
        attachments: Sequence[Attachment | Mapping[str, Any]] = (),
        when_busy: WhenBusy = "refuse",
    ) -> Turn:
        """Accept a submission and begin to run it; returns when it is durable. A duplicate is not run again.

        Raises what `Log.submit` raises, and `InvalidInput` for an agent that is not there.
        """
        raise NotImplementedError

    async def retry(self, thread: str, turn: str, *, agent: str | None = None) -> Turn:
        """Ask an interrupted turn again, see `Log.retry`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Interrupt what runs (`cancelled`) and what waits (`not_started`), and return when all of it is settled."""
        raise NotImplementedError
