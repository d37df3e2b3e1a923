"""The runner: an agent or a factory that raises, whatever and wherever, ends its own turn and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.runner.running import WAIT_S, call, hang, kinds, play, run, text, until
from turnlog.agents.protocol import Emit, Finish, Task
from turnlog.errors import AgentFailed, AlreadySettled, Busy, Fenced, IllegalTransition, Overloaded, StoreUnavailable
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import NAME_BYTES_MAX
from turnlog.runner import Ran, run_turn
from turnlog.testing.scripted_agent import Act, ScriptedAgent


class Wild(BaseException):
    """No `Exception` at all."""


ANYTHING: Final[list[BaseException]] = [
    SystemExit(4),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    Wild(),
    StopIteration(),
    TimeoutError(),
    MemoryError(),
    BaseExceptionGroup("both", [SystemExit(1), ValueError()]),
    AgentFailed(reason="failed"),
    Fenced(thread="other", turn="other"),
    AlreadySettled(thread="other", turn="other", state="completed"),
    IllegalTransition(thread="other", turn="other", state="completed", kind="item"),
    Busy(thread="other", turn="other", running="another"),
    Overloaded(thread="other", limit="SOME_MAX", limit_value=1),
    StoreUnavailable(detail="of another store"),
]
"""What an agent may raise: ends of processes and tasks, and refusals that speak of other turns and stores."""


def ended(log: Log, factory: Callable[[], Any]) -> Ran:
    """Run a turn, and see that it has one end, and that the next one of its thread is answered."""

    async def main() -> Ran:
        turn = await log.submit("t", "question")
        ran = await run_turn(turn, factory, log=log)
        assert (log.turn_view("t", turn.id).state, kinds(log, turn.id)[-1]) == ("interrupted", "interrupted")
        assert kinds(log, turn.id).count("interrupted") == 1
        after, _, _ = await play(log)
        assert after.state == "completed"
        return ran

    return run(main())


def names(errors: list[BaseException]) -> list[str]:
    return [type(error).__name__ for error in errors]


@pytest.mark.parametrize("error", ANYTHING, ids=names(ANYTHING))
@pytest.mark.parametrize("where", ["factory", "name", "version"])
def test_whatever_a_factory_raises_its_turn_ends(log: Log, error: BaseException, where: str) -> None:
    """P5: whatever the making of an agent raises, its turn ends before it began, and the thread is free again."""

    class Made(ScriptedAgent):
        def __getattribute__(self, name: str) -> Any:
            if name == where:
                raise error
            return super().__getattribute__(name)

    def factory() -> ScriptedAgent:
        if where == "factory":
            raise error
        return Made()

    ran = ended(log, factory)
    assert (ran.state, ran.reason) == (
        "interrupted",
        error.reason if isinstance(error, AgentFailed) else "start_failed",
    )


@pytest.mark.parametrize("error", ANYTHING, ids=names(ANYTHING))
@pytest.mark.parametrize("where", ["call", "beginning", "text", "cleanup"])
def test_whatever_an_agent_raises_its_turn_ends(log: Log, error: BaseException, where: str) -> None:
    """P5: whatever an agent raises, at its call, at its beginning, after some words or when it cleans up, its turn has
    one end, which is no wish of a person's, and the thread is free again."""

    class Raising(ScriptedAgent):
        async def run(self, task: Task, emit: Emit) -> Finish:
            try:
                return await super().run(task, emit)
            finally:
                if where == "cleanup":
                    raise error

    class Uncallable(ScriptedAgent):
        def run(self, task: Task, emit: Emit) -> Any:
            raise error

    def factory() -> ScriptedAgent:
        if where == "call":
            return Uncallable()
        scripts: dict[str, list[Act]] = {"beginning": [error], "text": [text("half"), call("c1"), error]}
        return Raising(*scripts.get(where, []))

    assert ended(log, factory).reason != "cancelled"


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_an_agent_left_behind_ends_no_process(log: Log, error: BaseException) -> None:
    """P5: an agent that ignored its end and raises later what ends processes ends neither loop nor process."""
    go_on = asyncio.Event()
    over = asyncio.Event()

    class Stubborn(ScriptedAgent):
        async def run(self, task: Task, emit: Emit) -> Finish:
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue
            over.set()
            raise error

    async def main() -> Ran:
        ran = await run_turn(await log.submit("t", "question"), Stubborn, log=log, idle_s=0.01, stop_s=0.01)
        go_on.set()
        await over.wait()
        await until(lambda: len(asyncio.all_tasks()) == 2)
        return ran

    assert run(main()).reason == "timed_out"


@pytest.mark.parametrize("name", [5, b"name", "", "n" * (NAME_BYTES_MAX + 1)], ids=["number", "bytes", "empty", "long"])
@pytest.mark.parametrize("field", ["name", "version"])
def test_an_agent_whose_name_is_refused_has_not_started(log: Log, field: str, name: Any) -> None:
    """P5, P8: an agent whose name or version the log does not take is never run, and its turn ends as start_failed."""
    agent = ScriptedAgent()
    setattr(agent, field, name)
    ran = ended(log, lambda: agent)
    assert (ran.state, ran.reason) == ("interrupted", "start_failed")
    assert not agent.begun.is_set()


def test_a_turn_that_is_not_let_in_line_has_not_started(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    """P5, P11: when too much waits for the turn to wait or to begin with it, the turn ends as start_failed."""

    def full(_turn: Turn, *_given: Any, **_more: Any) -> Any:
        raise Overloaded(thread="t", limit="QUEUE_JOBS_MAX", limit_value=1)

    async def main(step: str) -> Ran:
        with monkeypatch.context() as patch:
            patch.setattr(Turn, step, full)
            ran, agent, _ = await play(log)
        assert not agent.begun.is_set()
        return ran

    for step in ("ready", "start"):
        assert run(main(step)).reason == "start_failed"


NO_FINISH: Final[list[Any]] = [Finish(usage={"n": object()}), Finish(finish_reason=5), Finish(usage=[1])]  # type: ignore[arg-type]


@pytest.mark.parametrize("finish", NO_FINISH, ids=["unknown type", "no text", "no mapping"])
def test_a_finish_that_cannot_be_written_is_a_failure(log: Log, finish: Any) -> None:
    """P5: an agent that ends with what no event can hold has failed, and its turn says so."""
    assert ended(log, lambda: ScriptedAgent(finish)).reason == "failed"


def test_agents_that_hold_all_threads_keep_no_turn_from_its_end(log: Log) -> None:
    """P5: when agents that do not come back hold every thread of the loop, other turns are run and ended all the
    same."""
    let_go = threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        stuck = loop.run_in_executor(None, let_go.wait)
        try:
            async with asyncio.timeout(WAIT_S / 2):
                ran, _, _ = await play(log, text("half"), hang(), idle_s=0.01)
                after, _, _ = await play(log, thread="other")
        finally:
            let_go.set()
        await stuck
        assert ran.reason == "timed_out"
        return after.state

    assert run(main()) == "completed"


def test_a_message_of_a_cancellation_is_told(log: Log) -> None:
    """Who cancels a runner with a message finds it in the turn's end."""

    async def main() -> str:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(hang())
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await agent.begun.wait()
        running.cancel("the house is closed")
        await asyncio.wait({running})
        return turn.id

    turn = run(main())
    assert list(log.events("t", turn=turn))[-1].body.detail == "the house is closed"  # type: ignore[union-attr]
