"""The runner: one agent through one turn, to an end that is written down whatever happens.

    ran = await run_turn(turn, DemoAgent, log=log, workspace=Path("."))

It owns time and failure, so that no agent has to: the start is durable before the agent begins, a silent agent and a
long one are interrupted and the turn says which, and a store that cannot be written ends the agent before it does
anything that nobody could prove.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from turnlog.agents.protocol import Agent, AgentFactory, Finish, Task
from turnlog.errors import (
    AgentFailed,
    AlreadySettled,
    Fenced,
    IllegalTransition,
    StartFailed,
    StoreClosed,
    StoreError,
    TurnlogError,
)
from turnlog.events.kinds import Reason, Requested, Submitted
from turnlog.folds.states import TERMINAL, State
from turnlog.journal.ends import detail_of, reason_of, told_by
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn
from turnlog.limits import AGENT_HARD_S, AGENT_IDLE_S, AGENT_STOP_S, REQUESTS_PER_TURN_MAX
from turnlog.runner.pen import Pen

__all__ = ["AgentFactory", "Ran", "run_turn"]

T = TypeVar("T")


@dataclass(frozen=True)
class _Limits:
    idle_s: float
    hard_s: float
    stop_s: float


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a turn ended: `completed`, or `interrupted` for a reason."""

    state: State
    reason: Reason | None = None
    detail: str | None = None


@dataclass(frozen=True)
class _Cut:
    """An end that is no `Finish`."""

    reason: Reason
    detail: str | None = None


_NOT_OURS: Final = (Fenced, AlreadySettled, IllegalTransition, StoreError)
"""What the journal says of a turn that is not ours to end (any more), or that it cannot end now."""


async def run_turn(
    turn: Turn,
    agent_factory: AgentFactory,
    *,
    log: Log,
    workspace: Path | None = None,
    idle_s: float = AGENT_IDLE_S,
    hard_s: float = AGENT_HARD_S,
    stop_s: float = AGENT_STOP_S,
) -> Ran:
    """Take `turn`, which this log submitted, to its end with the agent that `agent_factory` makes.

    It waits until no turn that was submitted before it is open; only then the agent is made, and its limits begin.
    `workspace` None means the one named by the submission, if any. The agent may be silent for `idle_s` seconds (not
    counted while a person is asked), may take `hard_s` in all, and `stop_s` to clean up once it is cancelled. Returns
    how the turn ended, also when it was settled by somebody else meanwhile. Whatever the factory or the agent raises
    ends the turn, and no more than it: `SystemExit` and `KeyboardInterrupt` too. Raises `Fenced` when another writer
    took the turn over (then nothing more is written), `StoreError` when the store could not be written (the agent is
    stopped first), and `Refused` when the turn is not there to be started. Cancelling it stops the agent, settles the
    turn as `cancelled`, with the message of the cancellation if it has one, and goes on.
    """
    turn.refuse_duplicate()
    if turn.state in TERMINAL:
        raise AlreadySettled(thread=turn.thread, turn=turn.id, state=turn.state)
    run = _Run(turn, agent_factory, log, workspace, _Limits(idle_s, hard_s, stop_s))
    inner = asyncio.create_task(run.run())
    cancelled: asyncio.CancelledError | None = None
    while not inner.done():
        try:
            await asyncio.wait({inner})
        except asyncio.CancelledError as error:
            cancelled = error
            run.end(_cancelled_by(error))
    if inner.cancelled():  # A loop that shuts down cancels every task, those of the runner too.
        await asyncio.shield(run.settle(_cancelled_by(cancelled)))
    elif cancelled is not None:
        raise cancelled from inner.exception()
    return inner.result()


class _Run:
    """One turn on its way. `_cut` is resolved once, by whatever ends the agent before it finishes by itself."""

    def __init__(self, turn: Turn, factory: AgentFactory, log: Log, workspace: Path | None, limits: _Limits) -> None:
        self._turn, self._factory, self._log = turn, factory, log
        self._workspace, self._limits = workspace, limits
        self._cut: asyncio.Future[_Cut | TurnlogError] = asyncio.get_running_loop().create_future()
        self._pen = Pen(turn, lambda error: self.end(_verdict(error)))
        self._requests: asyncio.Queue[Requested | None] = asyncio.Queue(REQUESTS_PER_TURN_MAX + 1)

    def end(self, cut: _Cut | TurnlogError) -> None:
        """End the agent for this reason, unless there is one already."""
        if not self._cut.done():
            self._cut.set_result(cut)

    async def run(self) -> Ran:
        """Prepare, start, run and settle."""
        try:
            end = await self._wait_start_and_play()
        except _NOT_OURS as error:
            end = error
        except Exception as error:  # whatever it is, the turn must end with it
            end = _cut_of(error, "failed")
        if isinstance(end, AlreadySettled):
            return await self._as_it_is()
        if isinstance(end, StoreError):
            await self._settle_if_possible(end)
        if isinstance(end, TurnlogError):
            raise end
        return await self.settle(end)

    # --- before -------------------------------------------------------------------------------------------------

    async def _wait_start_and_play(self) -> Finish | _Cut | TurnlogError:
        try:
            begun = await self._begin()
        except _NOT_OURS:
            raise
        except AgentFailed as error:
            return _cut_of(error, "start_failed")
        except Exception as error:  # whatever it is, the turn must end with it
            return _Cut("start_failed", detail_of(error))
        if not isinstance(begun, tuple):
            return begun
        return await self._play(asyncio.create_task(self._speak(*begun)))

    async def _begin(self) -> tuple[Agent, Task] | _Cut | TurnlogError:
        """Wait, make the agent, and write that it begins. Gives the agent and its task, or what cut this short."""
        if (cut := await self._wait()) is not None:
            return cut
        agent, name, version = self._make()
        task = await _beside(self._task)
        if self._cut.done():
            return self._cut.result()
        await self._turn.start(agent=name, agent_version=version)
        return agent, task

    def _make(self) -> tuple[Agent, str, str]:
        """The agent, its name and its version. Raises `AgentFailed`, whatever the factory raises."""
        try:
            agent = self._factory()
            name, version = agent.name, agent.version
        except AgentFailed:
            raise
        except BaseException as error:  # nothing waits here, so that a cancellation is the factory's too
            raise StartFailed(reason="start_failed", detail=detail_of(error)) from error
        return agent, name, version

    async def _wait(self) -> _Cut | TurnlogError | None:
        """Wait for the turn's time. Gives what cut the wait short; a request to end it is met by the journal."""
        ready = asyncio.ensure_future(_outcome(self._turn.ready()))
        ends: set[asyncio.Future[Any]] = {ready, self._cut}
        await asyncio.wait(ends, return_when="FIRST_COMPLETED")
        if not self._cut.done():
            return await ready
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)
        return self._cut.result()

    async def _speak(self, agent: Agent, task: Task) -> Finish:
        try:
            finish = await agent.run(task, self._pen.emit)
        except (KeyboardInterrupt, SystemExit) as error:  # out of a task they would end the event loop
            raise AgentFailed(reason="failed", detail=detail_of(error)) from error
        if not isinstance(finish, Finish):
            raise AgentFailed(reason="failed", detail=f"the agent returned {type(finish).__name__} instead of a Finish")
        return finish

    def _task(self) -> Task:
        """What the agent is given. Blocks: it reads the log and looks at the workspace."""
        thread, turn = self._turn.thread, self._turn.id
        submitted = next(iter(self._log.events(thread, turn=turn))).body
        assert isinstance(submitted, Submitted), "a turn begins with its submission"
        workspace = self._workspace
        if workspace is None and submitted.workspace is not None:
            workspace = Path(submitted.workspace)
        if workspace is not None and not workspace.is_dir():
            raise StartFailed(reason="workspace_failed", detail=f"there is no folder {workspace}")
        return Task(
            thread=thread,
            turn=turn,
            content=submitted.content,
            history=self._log.history(thread, until=turn).items,
            workspace=workspace,
            model=submitted.model,
            requests=self._requests_of_agent(),
        )

    # --- during -------------------------------------------------------------------------------------------------

    async def _play(self, agent: asyncio.Task[Finish]) -> Finish | _Cut | TurnlogError:
        """Wait for the agent, a request, a limit or the turn's end elsewhere, whichever comes first."""
        watcher = asyncio.create_task(self._watch())
        try:
            cut = await self._first_end(agent)
            if cut is None:
                return _end_of(agent)
            await self._stop(agent)
            return cut
        finally:
            watcher.cancel()
            await asyncio.wait({watcher})

    async def _first_end(self, agent: asyncio.Task[Finish]) -> _Cut | TurnlogError | None:
        """What ends the agent; None when it ended by itself."""
        loop = asyncio.get_running_loop()
        self._pen.listen()
        hard_end = loop.time() + self._limits.hard_s
        while True:
            idle_left = self._limits.idle_s - self._pen.silent_s()
            hard_left = hard_end - loop.time()
            if hard_left <= 0:
                return _Cut("timed_out", f"the turn took longer than the hard limit of {self._limits.hard_s:g} s")
            if idle_left <= 0:
                return _Cut("timed_out", f"the agent was silent for the idle limit of {self._limits.idle_s:g} s")
            ends: set[asyncio.Future[Any]] = {agent, self._cut}
            await asyncio.wait(ends, timeout=min(idle_left, hard_left), return_when="FIRST_COMPLETED")
            if self._cut.done():
                return self._cut.result()
            if agent.done():
                return None

    async def _stop(self, agent: asyncio.Task[Finish]) -> None:
        """Cancel the agent and let it clean up. One that does not end in time is left behind."""
        agent.cancel()
        await asyncio.wait({agent}, timeout=self._limits.stop_s)
        agent.add_done_callback(_look_at)

    async def _watch(self) -> None:
        """Pass requests on to the agent; end it on an interrupt, and when the turn has ended without it."""
        try:
            async for request in self._turn.requests():
                self._requests.put_nowait(request)
                if request.what == "interrupt":
                    self.end(_Cut("cancelled", told_by(request)))
        except TurnlogError as error:
            self.end(_verdict(error))
        else:
            self.end(self._over())
        finally:
            self._requests.put_nowait(None)

    def _over(self) -> TurnlogError:
        """Why there are no more requests."""
        if self._turn.state in TERMINAL:
            return AlreadySettled(thread=self._turn.thread, turn=self._turn.id, state=self._turn.state)
        return Fenced(thread=self._turn.thread, turn=self._turn.id) if self._turn.settled else StoreClosed()

    async def _requests_of_agent(self) -> AsyncIterator[Requested]:
        while (request := await self._requests.get()) is not None:
            yield request

    # --- after --------------------------------------------------------------------------------------------------

    async def settle(self, end: Finish | _Cut) -> Ran:
        """Write the end, unless the turn has one."""
        try:
            if isinstance(end, _Cut):
                await self._turn.interrupt(end.reason, end.detail)
                return Ran(state="interrupted", reason=end.reason, detail=end.detail)
            await self._turn.complete(end.usage, end.finish_reason)
            return Ran(state="completed")
        except AlreadySettled:
            return await self._as_it_is()
        except _NOT_OURS:
            raise
        except Exception as error:  # a Finish that cannot be written is no end
            if isinstance(end, _Cut):
                raise
            return await self.settle(_cut_of(error, "failed"))

    async def _settle_if_possible(self, error: StoreError) -> None:
        """The store failed once; if it fails again, recovery settles the turn when the store works."""
        try:
            await self._turn.interrupt("failed", detail_of(error))
        except TurnlogError as again:
            error.add_note(f"the turn is not settled yet: {again}")

    async def _as_it_is(self) -> Ran:
        """How somebody else settled the turn."""
        view = await _beside(lambda: self._log.turn_view(self._turn.thread, self._turn.id))
        return Ran(state=view.state, reason=view.reason)


async def _outcome(ready: Receipt[None]) -> AlreadySettled | None:
    """Wait for a turn's time; the turn may end before it comes."""
    try:
        await ready
    except AlreadySettled as settled:
        return settled
    return None


def _look_at(agent: asyncio.Task[Finish]) -> None:
    """Take note of how a stopped agent ended, so that asyncio does not complain that nobody did."""
    if not agent.cancelled():
        agent.exception()


def _end_of(agent: asyncio.Task[Finish]) -> Finish | _Cut:
    if agent.cancelled():
        return _Cut("failed", "the agent cancelled itself")
    error = agent.exception()
    # What broke the pen has cut the turn before: what an agent raises itself, of whatever kind, is its failure.
    return agent.result() if error is None else _cut_of(error, "failed")


def _verdict(error: TurnlogError) -> _Cut | TurnlogError:
    """What a refusal makes of the turn: nothing to write any more (the error itself), or an end to write."""
    return error if isinstance(error, Fenced | AlreadySettled | StoreError) else _cut_of(error, "failed")


def _cut_of(error: BaseException, reason: Reason) -> _Cut:
    """How a turn ends by what its agent raised: with the error's own reason if it has one, else with `reason`."""
    return _Cut(reason_of(error, reason) if isinstance(error, Exception) else reason, detail_of(error))


def _cancelled_by(error: asyncio.CancelledError | None) -> _Cut:
    message = error.args[0] if error is not None and error.args else None
    return _Cut("cancelled", message if isinstance(message, str) else "the runner was cancelled")


async def _beside(ask: Callable[[], T]) -> T:
    """Ask in a thread of its own: the loop's few threads may all be held by agents that do not come back."""
    thread = ThreadPoolExecutor(1, "turnlog-runner")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, ask)
    finally:
        thread.shutdown(wait=False)
