"""The runner when the store is slow, refuses, or belongs to somebody else, and when the process dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.running import act, answer, call, hang, items, kinds, open_log, output, run, text, until
from turnlog.agents.protocol import Task
from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.errors import Fenced, StoreError, StoreUnavailable
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.runner import Ran, run_turn
from turnlog.testing.faults import FaultEngine
from turnlog.testing.killing import Child
from turnlog.testing.scripted_agent import Act, ScriptedAgent


def faulty() -> FaultEngine:
    return FaultEngine(MemoryEngine(MemoryStore(), SystemClock()))


def test_no_agent_begins_before_its_start_is_durable() -> None:
    """P1: while the write of worker_started hangs, the agent has not begun; once it is durable, it does."""
    engine = faulty()

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent()
        with engine.hold("commit.before") as hold:
            running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
            await asyncio.to_thread(hold.wait_held)
            await asyncio.sleep(0.02)
            assert not agent.begun.is_set()
        assert (await running).state == "completed"
        assert agent.begun.is_set()

    with Log(engine) as log:
        run(main(log))


def test_silence_is_counted_from_the_agents_beginning() -> None:
    """A start that takes longer than the idle limit, as on a slow disk, is no silence of the agent."""
    engine = faulty()

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("a"), act(lambda: asyncio.sleep(0)), answer("done"))
        with engine.hold("commit.before") as hold:
            running = asyncio.create_task(run_turn(turn, lambda: agent, log=log, idle_s=0.05))
            await asyncio.to_thread(hold.wait_held)
            await asyncio.sleep(0.1)
        assert (await running).state == "completed"

    with Log(engine) as log:
        run(main(log))


def test_an_emit_returns_when_its_signal_is_durable() -> None:
    """P1: a tool's body is not reached while the write of its call hangs, and a slow disk does not count as silence."""
    engine = faulty()

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(act(lambda: None), call("c1"), act(lambda: None))
        with engine.hold("commit.before", k=2) as hold:
            running = asyncio.create_task(run_turn(turn, lambda: agent, log=log, idle_s=0.02))
            await asyncio.to_thread(hold.wait_held)
            await asyncio.sleep(0.1)
            assert agent.played == 1
        assert (await running).state == "completed"

    with Log(engine) as log:
        run(main(log))


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
@pytest.mark.parametrize("k", range(1, 8))
def test_a_failing_write_stops_the_agent(place: str, k: int) -> None:
    """P1: whichever write of a turn fails, no agent goes on after it, the error is raised, and the turn ends truly.

    The script makes at least five writes after its submission; a k beyond them all must not fail.
    """
    engine = faulty()
    ledger: list[str] = []

    async def main(log: Log) -> tuple[Ran | None, ScriptedAgent, str]:
        turn = await log.submit("t", "question")
        engine.fail(place, lambda: StoreUnavailable(detail="disk full"), k=k)
        agent = ScriptedAgent(
            call("c1"), act(lambda: ledger.append("paid")), output("c1"), text("half"), answer("done", None)
        )
        try:
            ran = await run_turn(turn, lambda: agent, log=log)
        except StoreError:
            ran = None
        assert agent.ended.is_set() == agent.begun.is_set()
        engine.heal()
        await until(lambda: log.turn_view("t", turn.id).state in ("completed", "interrupted"))
        return ran, agent, turn.id

    with Log(engine) as log:
        ran, agent, turn = run(main(log))
        names = [item.type for item in items(log, turn)]
        state = log.turn_view("t", turn).state
        assert kinds(log, turn).count("completed") + kinds(log, turn).count("interrupted") == 1
        assert ("paid" in ledger) <= ("function_call" in names)
        if ran is not None:
            assert ran.state == state
        else:
            assert k < 8
        if state == "completed":
            assert names[-1] == "message"
    if k == 1:
        assert not agent.begun.is_set()


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
@pytest.mark.parametrize("k", range(1, 5))
def test_text_is_never_lost_in_a_failing_write(place: str, k: int) -> None:
    """P4: whichever write fails, a turn that reads completed has all the text that its agent said."""
    engine = faulty()

    async def main(log: Log) -> str:
        turn = await log.submit("t", "question")
        engine.fail(place, lambda: StoreUnavailable(detail="disk full"), k=k)
        with contextlib.suppress(StoreError):
            await run_turn(turn, lambda: ScriptedAgent(text("All "), text("of it")), log=log)
        engine.heal()
        await until(lambda: log.turn_view("t", turn.id).state in ("completed", "interrupted"))
        return turn.id

    with Log(engine) as log:
        turn = run(main(log))
        if log.turn_view("t", turn).state == "completed":
            assert [json.loads(item.raw)["content"][0]["text"] for item in items(log, turn)] == ["All of it"]


def test_a_lost_draft_stops_the_agent() -> None:
    """P2: an agent whose buffered text could not be written learns it at one of its next words, and is stopped."""
    engine = faulty()

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")
        engine.fail("commit.before", lambda: StoreUnavailable(detail="disk full"), k=2)

        async def pause(_task: Task) -> None:
            await asyncio.sleep(0.005)

        talk: list[Act] = [text("word "), pause] * 1_000
        agent = ScriptedAgent(*talk)
        with pytest.raises(StoreError):
            await run_turn(turn, lambda: agent, log=log)
        assert agent.played < 100

    with Log(engine) as log:
        run(main(log))


def test_a_store_that_stays_broken_is_raised_and_settled_later() -> None:
    """P8: when even the end cannot be written, the error says so, and it is written once the store works again."""
    engine = faulty()

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")

        def break_it() -> None:
            engine.fail("commit.before", lambda: StoreUnavailable(detail="disk full"), forever=True)

        agent = ScriptedAgent(call("c1"), act(break_it), output("c1"), hang())
        with pytest.raises(StoreError) as caught:
            await run_turn(turn, lambda: agent, log=log)
        assert agent.ended.is_set()
        assert any("not settled" in note for note in caught.value.__notes__)
        engine.heal()
        await until(lambda: log.turn_view("t", turn.id).state == "interrupted")

    with Log(engine) as log:
        run(main(log))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_fenced_runner_writes_nothing(tmp_path: Path, kind: str) -> None:
    """P7: an agent whose turn was taken over is stopped, the runner raises Fenced, and nothing more is written."""

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question")

        def take_over() -> None:
            turn._fence -= 1  # What this writer knows is now older than what the store has.

        agent = ScriptedAgent(call("c1"), act(take_over), output("c1"), hang())
        with pytest.raises(Fenced):
            await run_turn(turn, lambda: agent, log=log)
        assert agent.ended.is_set()
        assert kinds(log, turn.id) == ["submitted", "worker_started", "item"]

    with open_log(kind, tmp_path) as log:
        run(main(log))


CHILD = """
import asyncio, os, sys
import turnlog
from turnlog.agents.protocol import DraftSignal, Finish, ItemSignal
from turnlog.runner import run_turn
from turnlog.testing.killing import report

class Dies:
    name, version = "dies", "1"
    def __init__(self, how):
        self.how = how
    async def run(self, task, emit):
        if self.how == "first line":
            os._exit(137)
        await emit(DraftSignal(text="half an answer"))
        await emit(ItemSignal(raw={"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}))
        report("working")
        await asyncio.sleep(3600)
        return Finish()

async def main(store, how, threads):
    log = turnlog.open(store)
    turns = [await log.submit(thread, "hello") for thread in threads]
    await asyncio.gather(*(run_turn(turn, lambda: Dies(how), log=log) for turn in turns))

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""


def child(folder: Path, how: str, *threads: str) -> Child:
    script = folder / "child.py"
    script.write_text(CHILD)
    return Child(script, [f"sqlite:///{folder}/chat.db", how, *threads], folder=folder)


def test_a_process_that_dies_in_the_agents_first_line_keeps_the_turn(tmp_path: Path) -> None:
    """C01: the message is there, once and byte for byte, its turn interrupted, and nothing was said for the agent."""
    with child(tmp_path, "first line", "t") as died:
        assert died.reap() == 137
    with open_log("sqlite", tmp_path) as log:
        (view,) = log.turns("t").rows
        assert (view.state, view.reason) == ("interrupted", "process_died")
        submitted: Any = next(iter(log.events("t", turn=view.turn))).body
        assert submitted.content == "hello"
        assert items(log, view.turn) == []


def test_turns_of_dead_processes_do_not_run_forever(tmp_path: Path) -> None:
    """C06: three turns in each of four killed processes are twelve interrupted turns; recovering again does nothing."""
    for round_ in range(4):
        with child(tmp_path, "later", *(f"{round_}-{n}" for n in range(3))) as working:
            working.wait_for(lambda lines: len(lines) == 3)
            working.kill()
    with open_log("sqlite", tmp_path) as log:
        threads = [row.thread for row in log.threads().rows]
        views = [view for thread in threads for view in log.turns(thread).rows]
        assert len(views) == 12
        assert {(view.state, view.reason) for view in views} == {("interrupted", "process_died")}
        for view, thread in zip(views, threads, strict=True):
            call_item, said = items(log, view.turn, thread)
            assert call_item.call_id == "c1"
            assert json.loads(said.raw)["content"][0]["text"] == "half an answer"
        heads = [log.thread(thread).head for thread in threads]
        assert log.recover() == []
        assert [log.thread(thread).head for thread in threads] == heads
