"""Turns run whoever goes away, once, and end with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.journal.stores import Store
from tests.runner.running import answer, hang, run, text, until
from turnlog.agents.protocol import AgentFactory
from turnlog.errors import (
    DuplicateTurn,
    InvalidInput,
    KeyConflict,
    NotRetryable,
    Overloaded,
    StoreClosed,
    StoreUnavailable,
)
from turnlog.journal.log import Log
from turnlog.testing.scripted_agent import Act, ScriptedAgent
from turnlog.web import work as work_module
from turnlog.web.work import STOPPED, Work


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def log(store: Store) -> Log:
    return store.open()


class Agents:
    """Makes agents of one script, and keeps them."""

    def __init__(self, *script: Act) -> None:
        self.script = script
        self.made: list[ScriptedAgent] = []

    def __call__(self) -> ScriptedAgent:
        self.made.append(ScriptedAgent(*self.script))
        return self.made[-1]


@asynccontextmanager
async def working(log: Log, agents: AgentFactory, **more: AgentFactory) -> AsyncIterator[Work]:
    work = Work(log, {"scripted": agents, **more}, agent="scripted")
    yield work
    await work.close()


async def settled(log: Log, thread: str, turn: str) -> tuple[str, str | None]:
    await until(lambda: log.turn_view(thread, turn).settled_at is not None)
    view = log.turn_view(thread, turn)
    return view.state, view.reason


def test_accepted_turn_is_run(log: Log) -> None:
    """A turn that is accepted is durable at once, and run to its end without anybody waiting (P1)."""

    async def main() -> None:
        async with working(log, Agents(answer("yes"))) as work:
            turn = await work.submit("t", "question")
            assert log.turn_view("t", turn.id).turn == turn.id
            assert await settled(log, "t", turn.id) == ("completed", None)
            await until(lambda: work.counts.turns == {("completed", ""): 1})
            assert (work.counts.running, work.counts.waiting) == (0, 0)

    run(main())


def test_duplicate_is_not_run_again(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """C03: of one key sent at once and again there is one turn and one agent, and every sender is told it."""

    async def main() -> None:
        agents = Agents(answer("yes"))
        async with working(log, agents) as work:
            turns = await asyncio.gather(*(work.submit("t", "pay", key="k") for _ in range(3)))
            await settled(log, "t", turns[0].id)
            turns.append(await work.submit("t", "pay", key="k"))
            assert {turn.id for turn in turns} == {turns[0].id}
            assert sorted(turn.duplicate for turn in turns) == [False, True, True, True]
            with pytest.raises(KeyConflict):
                await work.submit("t", "pay more", key="k")
            assert len(agents.made) == 1

    run(main())
    assert caplog.records == []


def test_who_asked_may_go_away(store: Store, log: Log) -> None:
    """Cancelling who waits for a submission stops neither the submission nor the turn."""

    async def main() -> None:
        async with working(log, Agents(answer("yes"))) as work:
            with store.faults(log).hold("commit.before") as hold:
                asking = asyncio.create_task(work.submit("t", "question", turn="u"))
                await asyncio.to_thread(hold.wait_held)
                asking.cancel()
                await asyncio.wait({asking})
            await until(lambda: bool(log.threads().rows))
            assert await settled(log, "t", "u") == ("completed", None)

    run(main())


def test_store_that_fails_starts_no_agent(store: Store, log: Log) -> None:
    """P1: when a submission could not be written, no agent is made, and who asked is told."""

    async def main() -> None:
        agents = Agents()
        async with working(log, agents) as work:
            store.faults(log).fail("commit.before", StoreUnavailable)
            with pytest.raises(StoreUnavailable):
                await work.submit("t", "question", key="k")
            assert agents.made == []

    run(main())


def test_store_that_fails_in_a_turn_is_logged(store: Store, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """A turn that meets a failing store is counted and logged by its id, and settled when the store works."""

    async def main() -> None:
        def fail(_task: object) -> None:
            store.faults(log).fail("commit.before", StoreUnavailable)

        async with working(log, Agents(fail, answer("lost"))) as work:
            await work.submit("t", "question", turn="u")
            assert await settled(log, "t", "u") == ("interrupted", "failed")
            await until(lambda: not work.counts.running)
            assert work.counts.store_errors == {"StoreUnavailable": 1}

    run(main())
    assert "'u'" in caplog.text


def test_unknown_agent_is_bad_input(log: Log) -> None:
    """An agent that is not there is refused before anything is stored."""

    async def main() -> None:
        async with working(log, Agents()) as work:
            with pytest.raises(InvalidInput, match="agent"):
                await work.submit("t", "question", agent="nobody")
        assert not log.threads().rows

    run(main())


def test_agents_are_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of open turns a submission is refused with the limit's name, and nothing is stored (P11)."""
    monkeypatch.setattr(work_module, "TURNS_AT_ONCE_MAX", 2)

    async def main() -> None:
        async with working(log, Agents(hang())) as work:
            await work.submit("a", "question")
            await work.submit("b", "question")
            with pytest.raises(Overloaded, match="TURNS_AT_ONCE_MAX"):
                await work.submit("c", "question")
            assert [row.thread for row in log.threads().rows] == ["b", "a"]
            await work.close()

    run(main())


def test_retry_of_what_never_started_is_run_by_the_agent_that_was_asked(store: Store) -> None:
    """A turn whose server died before it began is asked again of the agent that was chosen for it, and not of the
    default one; also by a server whose default is another."""
    log = store.open()
    second = Agents(answer("again"))

    async def main() -> None:
        dead = store.open()
        async with working(dead, Agents(hang()), other=Agents(hang())) as dying:
            await dying.submit("t", "first")
            asked = [await dying.submit("t", "question", agent="other", when_busy="queue")]
            asked.append(await dying.submit("t", "of the default", when_busy="queue"))
        dead.close()
        for turn, agent in zip(asked, ("other", "scripted"), strict=True):
            view = log.turn_view("t", turn.id)
            assert (view.reason, view.agent) == ("not_started", agent)
        work = Work(log, {"other": second, "scripted": Agents(answer("the other one"))}, agent="scripted")
        again = await work.retry("t", asked[0].id)
        assert await settled(log, "t", again.id) == ("completed", None)
        await work.close()
        work = Work(log, {"other": second, "scripted": Agents(answer("the other one"))}, agent="other")
        await settled(log, "t", (await work.retry("t", asked[1].id)).id)
        await work.close()
        assert len(second.made) == 1

    run(main())


def test_retry_is_run_by_the_agent_it_had(log: Log) -> None:
    """A turn asked again is run by the agent of its first attempt, or by the one that is named."""

    async def main() -> None:
        second = Agents(answer("again"))
        async with working(log, Agents(answer("first")), other=second) as work:
            with pytest.raises(NotRetryable):
                turn = await work.submit("t", "question")
                await settled(log, "t", turn.id)
                await work.retry("t", turn.id)
            async with working(log, Agents(), other=lambda: ScriptedAgent(RuntimeError("no"))) as failing:
                turn = await failing.submit("t", "question", agent="other")
                assert await settled(log, "t", turn.id) == ("interrupted", "failed")
            again = await work.retry("t", turn.id)
            assert await settled(log, "t", again.id) == ("completed", None)
            assert len(second.made) == 1
            assert (await work.retry("t", turn.id)).duplicate

    run(main())


def test_close_settles_what_runs_and_what_waits(log: Log) -> None:
    """When the server stops, what was shown of a running turn stays and it ends `cancelled`; waiting ones end
    `not_started`, and their agents are never made (C02)."""

    async def main() -> None:
        shown = asyncio.Event()
        agents = Agents(text("half an ans"), lambda _task: shown.set(), hang())
        async with working(log, agents) as work:
            turns = [await work.submit("t", f"question {n}", when_busy="queue") for n in range(3)]
            await shown.wait()
            assert (work.counts.running, work.counts.waiting) == (1, 2)
            await work.close()
            ends = [log.turn_view("t", turn.id) for turn in turns]
            assert [view.reason for view in ends] == ["cancelled", "not_started", "not_started"]
            details = [list(log.events("t", turn=turn.id))[-1].body for turn in turns]
            assert {getattr(body, "detail", None) for body in details} == {STOPPED}
            assert "half an ans" in [message.text for message in log.transcript("t").messages]
            assert len(agents.made) == 1
            assert agents.made[0].cancelled
            assert (work.counts.running, work.counts.waiting) == (0, 0)

    run(main())


def test_closed_work_takes_nothing(log: Log) -> None:
    """After closing nothing is accepted any more."""

    async def main() -> None:
        async with working(log, Agents()) as work:
            await work.close()
            with pytest.raises(StoreClosed):
                await work.submit("t", "question")
            assert not log.threads().rows

    run(main())


def test_submission_on_its_way_while_closing(store: Store, log: Log) -> None:
    """A submission that becomes durable while the server closes is settled as `not_started` before closing ends."""

    async def main() -> None:
        agents = Agents(answer("never"))
        async with working(log, agents) as work:
            with store.faults(log).hold("commit.before") as hold:
                asking = asyncio.create_task(work.submit("t", "question", turn="u"))
                await asyncio.to_thread(hold.wait_held)
                closing = asyncio.create_task(work.close())
                await asyncio.sleep(0)
            await closing
            assert (await asking).id == "u"
            assert log.turn_view("t", "u").reason == "not_started"
            assert agents.made == []

    run(main())


def test_close_waits_for_no_agent_for_ever(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that ignores its end keeps nobody waiting: its turn is settled, and closing returns."""
    monkeypatch.setattr(work_module, "STOP_TURNS_S", 0.05)
    go_on = asyncio.Event()

    async def stubborn(_task: object) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        async with working(log, Agents(stubborn)) as work:
            turn = await work.submit("t", "question")
            await until(lambda: work.counts.running == 1 and log.turn_view("t", turn.id).started_at is not None)
            await work.close()
            assert log.turn_view("t", turn.id).reason == "cancelled"
            go_on.set()
            await until(lambda: len(asyncio.all_tasks()) == 2)

    run(main())


def test_a_turn_that_the_runner_leaves_is_ended(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P5, P8: a turn whose runner fails by a defect of its own, or refuses, does not stay open: it ends as failed, and
    the thread takes the next one."""

    async def main() -> None:
        async with working(log, Agents(answer("yes"))) as work:
            for error in (RuntimeError("a defect"), DuplicateTurn(thread="t", turn="u", state="running")):

                async def leave(*_given: object, error: Exception = error, **_more: object) -> None:
                    raise error

                with monkeypatch.context() as patch:
                    patch.setattr(work_module, "run_turn", leave)
                    turn = await work.submit("t", "question")
                    assert await settled(log, "t", turn.id) == ("interrupted", "failed")
                assert turn.id in caplog.text
            after = await work.submit("t", "question")
            assert await settled(log, "t", after.id) == ("completed", None)
            await until(lambda: work.counts.turns["interrupted", "failed"] == 2)

    run(main())
