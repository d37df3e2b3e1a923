"""The work on turns: each accepted turn is run by a task of its own, whoever listens or goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from turnlog.errors import (
    AgentFailed,
    AlreadySettled,
    Fenced,
    InvalidInput,
    Overloaded,
    StoreClosed,
    StoreError,
    TurnlogError,
)
from turnlog.events.kinds import Attachment, Submitted
from turnlog.journal.ends import detail_of
from turnlog.journal.jobs import WhenBusy
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import PROMPT_READS_MAX, STOP_TURNS_S, TURNS_AT_ONCE_MAX
from turnlog.runner.runner import AgentFactory, run_turn
from turnlog.web.counts import Counts

_logger = logging.getLogger("turnlog")

STOPPED: Final = "the server was stopped"
"""The detail of turns that end because their server does."""


class Work:
    """Takes submissions and runs their turns. `agents` are makers of agents by name, `agent` is the default one.

    Use it in one event loop. `counts` tells what runs and how it ended; `looking` has the threads for what senders
    wait for.
    """

    def __init__(
        self, log: Log, agents: Mapping[str, AgentFactory], *, agent: str, workspace: Path | None = None
    ) -> None:
        self._log = log
        self._agents = agents
        self._agent = agent
        self._workspace = workspace
        self.counts = Counts()
        self.looking = CapacityLimiter(PROMPT_READS_MAX)
        self._accepting: set[asyncio.Task[Turn]] = set()
        self._runs: dict[asyncio.Task[None], _Run] = {}
        self._closed = False

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
        edit_of: str | None = None,
    ) -> Turn:
        """Accept a submission and begin to run it; returns when it is durable. A duplicate is not run again.

        Cancelling who waits cancels neither the submission nor the turn. Raises what `Log.submit` raises,
        `InvalidInput` for an agent that is not there, and `Overloaded` when `TURNS_AT_ONCE_MAX` turns are open here.
        """

        name = self._agent if agent is None else agent

        async def accept() -> Turn:
            return await self._log.submit(
                thread,
                content,
                key=key,
                turn=turn,
                agent=name,
                attachments=attachments,
                workspace=None if self._workspace is None else str(self._workspace),
                when_busy=when_busy,
                edit_of=edit_of,
            )

        return await self._accept(thread, accept, name)

    async def retry(self, thread: str, turn: str, *, agent: str | None = None, when_busy: WhenBusy = "refuse") -> Turn:
        """Ask an interrupted turn again, see `Log.retry`; by the agent that was asked, if it is here and none named."""
        name = await run_sync(self._asked, thread, turn, limiter=self.looking) if agent is None else agent

        async def accept() -> Turn:
            retry = partial(self._log.retry, thread, turn, agent=name, when_busy=when_busy)
            return await (await run_sync(retry, limiter=self.looking))

        return await self._accept(thread, accept, name)

    def _asked(self, thread: str, turn: str) -> str:
        """The name of the agent that a turn was for. Blocks."""
        first = next(self._log.events(thread, turn=turn), None)
        chosen = first.body.agent if first is not None and isinstance(first.body, Submitted) else None
        began = self._log.turn_view(thread, turn).agent
        return next((name for name in (chosen, began) if name is not None and name in self._agents), self._agent)

    async def close(self) -> None:
        """Interrupt what runs (`cancelled`) and what waits (`not_started`), and return when all of it is settled.

        What could not be settled by then is left to the log's own closing, or to recovery.
        """
        self._closed = True
        await _all_done(self._accepting)
        ends = [asyncio.create_task(run.stop()) for run in self._runs.values()]
        await _all_done(ends)
        for end in ends:
            if not end.done():
                end.cancel()
            elif (error := end.exception()) is not None and not isinstance(error, AlreadySettled | Fenced):
                _logger.error("a turn could not be settled at the end of the server: %s", error)
        await _all_done(self._runs)
        for task in self._runs:
            task.cancel(STOPPED)
        await _all_done(self._runs)

    # --- accepting ----------------------------------------------------------------------------------------------

    async def _accept(self, thread: str, accept: Callable[[], Awaitable[Turn]], name: str) -> Turn:
        """Make a turn durable and hand it to a task, both in a task of their own: who asked may go away."""
        if name not in self._agents:
            raise InvalidInput(field="agent", problem=f"must be one of {', '.join(self._agents)}")
        if self._closed:
            raise StoreClosed
        if len(self._runs) + len(self._accepting) >= TURNS_AT_ONCE_MAX:
            raise Overloaded(thread=thread, limit="TURNS_AT_ONCE_MAX", limit_value=TURNS_AT_ONCE_MAX)
        task = asyncio.create_task(self._accept_and_run(accept, self._agents[name]))
        self._accepting.add(task)
        task.add_done_callback(self._accepted)
        return await asyncio.shield(task)

    async def _accept_and_run(self, accept: Callable[[], Awaitable[Turn]], factory: AgentFactory) -> Turn:
        turn = await accept()
        if not turn.duplicate:
            run = _Run(self._log, turn, factory, self.counts, lambda: self._closed)
            task = asyncio.create_task(run.run())
            self._runs[task] = run
            task.add_done_callback(self._ran)
        return turn

    def _accepted(self, task: asyncio.Task[Turn]) -> None:
        self._accepting.discard(task)
        if not task.cancelled():
            task.exception()  # who asked was told, if still there

    def _ran(self, task: asyncio.Task[None]) -> None:
        del self._runs[task]


class _Run:
    """One turn that this server runs."""

    def __init__(
        self, log: Log, turn: Turn, factory: AgentFactory, counts: Counts, stopping: Callable[[], bool]
    ) -> None:
        self._log, self._turn, self._factory = log, turn, factory
        self._counts, self._stopping = counts, stopping
        self._begun = False

    async def run(self) -> None:
        """Take the turn to its end. What goes wrong is logged here: nobody else waits for it."""
        self._counts.waiting += 1
        try:
            ran = await run_turn(self._turn, self._make_agent, log=self._log)
            self._counts.turns[ran.state, ran.reason or ""] += 1
        except StoreError as error:
            self._counts.store_errors[type(error).__name__] += 1
            _logger.warning("turn %r is not written, it is settled when the store works: %s", self._turn.id, error)
        except AlreadySettled:  # before its time came
            view = await run_sync(self._log.turn_view, self._turn.thread, self._turn.id)
            self._counts.turns[view.state, view.reason or ""] += 1
        except Fenced as error:
            _logger.warning("turn %r was left: %s", self._turn.id, error)
        except Exception as error:
            _logger.exception("turn %r met a defect", self._turn.id)
            await self._give_up(error)
        finally:
            if self._begun:
                self._counts.running -= 1
            else:
                self._counts.waiting -= 1

    async def _give_up(self, error: Exception) -> None:
        """Nobody works on the turn any more: it must not stay open for as long as this process lives."""
        try:
            await self._turn.interrupt("failed", detail_of(error))
            self._counts.turns["interrupted", "failed"] += 1
        except TurnlogError as again:
            _logger.warning("turn %r could not be ended: %s", self._turn.id, again)

    def _make_agent(self) -> Any:
        """The runner asks for the agent when the turn's time has come, and then the turn is begun."""
        if self._stopping():
            raise AgentFailed(reason="not_started", detail=STOPPED)
        agent = self._factory()
        self._begun = True
        self._counts.waiting -= 1
        self._counts.running += 1
        return agent

    async def stop(self) -> None:
        """Settle the turn: the runner sees it, and ends the agent."""
        await self._turn.interrupt("cancelled" if self._begun else "not_started", STOPPED)


async def _all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    waited = list(tasks)
    if waited:
        await asyncio.wait(waited, timeout=STOP_TURNS_S)
