"""A turn that waits behind others: no agent before its time, and an end that is written down all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runner.running import act, events, hang, kinds, run, until
from turnlog.errors import StoreClosed, TurnlogError
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.runner import Ran, run_turn
from turnlog.testing.scripted_agent import ScriptedAgent


async def running(log: Log) -> tuple[asyncio.Task[Ran], asyncio.Event]:
    """A first turn whose agent is at work until the event is set."""
    go_on = asyncio.Event()
    agent = ScriptedAgent(go_on)
    task = asyncio.create_task(run_turn(await log.submit("t", "first"), lambda: agent, log=log))
    await agent.begun.wait()
    return task, go_on


async def behind(log: Log, agent: ScriptedAgent, **limits: Any) -> tuple[asyncio.Task[Ran], Turn]:
    """A turn behind all others, with its runner; the runner waits already."""
    turn = await log.submit("t", "next", when_busy="queue")
    task = asyncio.create_task(run_turn(turn, lambda: agent, log=log, **limits))
    await asyncio.sleep(0)
    return task, turn


def test_a_waiting_turn_gets_its_agent_when_its_time_has_come(log: Log) -> None:
    """C02, P1: agents of three submissions run one after the other, each given what the turns before it said."""

    async def main() -> None:
        first, go_on = await running(log)
        order: list[str] = []
        agents = [ScriptedAgent(act(lambda name=name: order.append(name))) for name in ("two", "three")]  # type: ignore[misc]
        (two, _), (three, last) = [await behind(log, agent) for agent in agents]
        assert not agents[0].begun.is_set()
        go_on.set()
        assert [ran.state for ran in await asyncio.gather(first, two, three)] == ["completed"] * 3
        assert order == ["two", "three"]
        assert agents[1].task is not None
        assert len(list(agents[1].task.history)) == 2
        assert kinds(log, last.id) == ["submitted", "worker_started", "completed"]

    run(main())


def test_limits_begin_with_the_start(log: Log) -> None:
    """A turn whose time has not come is not timed out by any limit; once it has started it is."""

    async def main() -> None:
        first, go_on = await running(log)
        two, turn = await behind(log, ScriptedAgent(hang()), hard_s=0)
        await log.append_message("t", {})
        go_on.set()
        await first
        assert (await two).reason == "timed_out"
        assert kinds(log, turn.id) == ["submitted", "worker_started", "interrupted"]

    run(main())


def test_a_waiting_turn_that_is_asked_to_end_has_no_agent(log: Log) -> None:
    """An interrupt of a waiting turn settles it as cancelled at once; no agent is made for it, the first goes on."""

    async def main() -> None:
        first, go_on = await running(log)
        two, turn = await behind(log, ScriptedAgent(AssertionError("it began")))
        await log.request("t", turn.id, by="somebody")
        assert (await two).reason == "cancelled"
        assert kinds(log, turn.id) == ["submitted", "requested", "interrupted"]
        assert not first.done()
        go_on.set()
        assert (await first).state == "completed"

    run(main())


def test_a_runner_cancelled_while_it_waits_settles_its_turn(log: Log) -> None:
    """P5: cancelling the runner of a waiting turn settles that turn as cancelled, and goes on."""

    async def main() -> None:
        first, go_on = await running(log)
        two, turn = await behind(log, ScriptedAgent())
        two.cancel()
        with pytest.raises(asyncio.CancelledError):
            await two
        assert log.turn_view("t", turn.id).reason == "cancelled"
        go_on.set()
        await first

    run(main())


def test_a_log_closed_while_turns_wait_ends_their_runners(log: Log) -> None:
    """P8: closing the log ends the runners of waiting turns, and no agent is made any more."""

    async def main() -> None:
        first, _ = await running(log)
        agent = ScriptedAgent()
        two, _ = await behind(log, agent)
        await asyncio.to_thread(log.close)
        for task in (first, two):
            with pytest.raises(TurnlogError) as caught:
                await task
            assert isinstance(caught.value, StoreClosed)
        assert not agent.begun.is_set()

    run(main())


def test_replacing_stops_the_agent_at_work(log: Log) -> None:
    """The agent of a replaced turn is cancelled, its turn says by which one, and then the new one runs."""

    async def main() -> None:
        agent = ScriptedAgent(hang())
        turn = await log.submit("t", "first")
        first = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await agent.begun.wait()
        new = await log.submit("t", "new", when_busy="replace")
        assert (await run_turn(new, ScriptedAgent, log=log)).state == "completed"
        assert (agent.cancelled, (await first).detail) == (True, f"replaced by {new.id}")
        assert [event.kind for event in events(log, turn.id)][-2:] == ["requested", "interrupted"]

    run(main())


def test_a_turn_whose_wait_ends_while_its_runner_is_cancelled(log: Log) -> None:
    """P5: whatever comes first, a runner that is cancelled as its turn's time comes leaves one end."""

    async def main() -> None:
        for _ in range(5):
            first, go_on = await running(log)
            two, turn = await behind(log, ScriptedAgent(hang()))
            go_on.set()
            await first
            two.cancel()
            with pytest.raises(asyncio.CancelledError):
                await two
            await until(lambda turn=turn: log.turn_view("t", turn.id).state == "interrupted")  # type: ignore[misc]
            assert [event.kind for event in events(log, turn.id)].count("interrupted") == 1

    run(main())
