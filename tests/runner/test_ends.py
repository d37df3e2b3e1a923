"""The runner: each way in which a turn ends before its agent is done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.running import (
    act,
    answer,
    asking,
    call,
    events,
    hang,
    items,
    kinds,
    open_log,
    output,
    play,
    run,
    text,
    until,
)
from turnlog.agents.protocol import (
    DraftSignal,
    Emit,
    Finish,
    ItemSignal,
    Task,
)
from turnlog.errors import AgentFailed, InvalidInput, Refused, TooLarge
from turnlog.events.kinds import Interrupted
from turnlog.journal.log import Log
from turnlog.limits import BODY_BYTES_MAX
from turnlog.runner import Ran, run_turn
from turnlog.testing.scripted_agent import Act, ScriptedAgent

SOON = 0.05
"""Seconds for a limit that a test waits for."""


class Tidy(ScriptedAgent):
    """Says something more, in no hurry, when it ends."""

    async def run(self, task: Task, emit: Emit) -> Finish:
        try:
            return await super().run(task, emit)
        finally:
            await asyncio.sleep(SOON / 5)
            await emit(output("c1"))


def last(log: Log, turn: str) -> Any:
    return events(log, turn)[-1].body


# --- limits -------------------------------------------------------------------------------------------------------


def test_a_silent_agent_is_interrupted(log: Log) -> None:
    """A silent agent ends as timed_out by the idle limit, and what it had said is kept."""
    ran, agent, turn = run(play(log, text("I thin"), hang(), idle_s=SOON))
    assert (ran.state, ran.reason) == ("interrupted", "timed_out")
    assert "idle limit" in (ran.detail or "")
    assert agent.cancelled
    (item,) = items(log, turn)
    assert item.synthesized == "interrupted"
    assert json.loads(item.raw)["content"][0]["text"] == "I thin"


def test_a_talking_agent_is_not_idle(log: Log) -> None:
    """Each signal begins the idle time anew."""

    async def pause(_task: Task) -> None:
        await asyncio.sleep(SOON)

    talk: list[Act] = [text("a"), pause] * 12
    ran, _, _ = run(play(log, *talk, idle_s=SOON * 10))
    assert ran.state == "completed"


def test_waiting_for_a_person_is_not_idle(log: Log) -> None:
    """While an approval is waiting there is no idle limit; when it is over, there is one again."""

    async def pause(_task: Task) -> None:
        await asyncio.sleep(SOON * 3)

    ran, agent, _ = run(play(log, asking("waiting"), pause, asking("succeeded"), hang(), idle_s=SOON))
    assert ran.reason == "timed_out"
    assert agent.played == 3


def test_a_long_agent_is_interrupted(log: Log) -> None:
    """An agent that talks on and on, or waits for a person, ends as timed_out by the hard limit."""

    async def pause(_task: Task) -> None:
        await asyncio.sleep(SOON / 10)

    talk: list[Act] = [text("a"), pause] * 1_000
    ran, agent, _ = run(play(log, *talk, asking("waiting"), hang(), hard_s=SOON * 2))
    assert ran.reason == "timed_out"
    assert "hard limit" in (ran.detail or "")
    assert agent.cancelled


# --- requests and cancelling --------------------------------------------------------------------------------------


def test_an_interrupt_ends_the_turn(log: Log) -> None:
    """C28: an interrupt cancels the agent; text so far is kept and marked, the turn is cancelled and says by whom."""

    async def main() -> tuple[Ran, ScriptedAgent, str]:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("half an ans"), hang())
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await until(lambda: agent.played == 1)
        await log.request("t", turn.id, by="ann")
        return await running, agent, turn.id

    ran, agent, turn = run(main())
    assert ran == Ran(state="interrupted", reason="cancelled", detail="interrupted by ann")
    assert agent.cancelled
    assert [item.synthesized for item in items(log, turn)] == ["interrupted"]


def test_an_interrupt_from_another_log_ends_the_turn(tmp_path: Path) -> None:
    """An interrupt written by another opener of the store, as by another process, ends the agent too."""

    async def main(log: Log, other: Log) -> Ran:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("half"), hang())
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await until(lambda: agent.played == 1)
        await other.request("t", turn.id)
        return await running

    with open_log("sqlite", tmp_path) as log, open_log("sqlite", tmp_path) as other:
        assert run(main(log, other)).reason == "cancelled"


def test_an_interrupt_before_the_start_is_heeded(log: Log) -> None:
    """A turn that was interrupted while it waited ends as cancelled, however long its agent would take."""

    async def main() -> Ran:
        turn = await log.submit("t", "question")
        await log.request("t", turn.id)
        return await run_turn(turn, lambda: ScriptedAgent(hang()), log=log)

    assert run(main()).reason == "cancelled"


def test_cancelling_the_runner_settles_the_turn(log: Log) -> None:
    """A cancelled runner stops its agent, lets it clean up, settles the turn, and only then passes it on."""

    async def main() -> tuple[ScriptedAgent, str]:
        turn = await log.submit("t", "question")
        agent = Tidy(text("half"), hang())
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await until(lambda: agent.played == 1)
        running.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert agent.ended.is_set()
        assert isinstance(last(log, turn.id), Interrupted)
        return agent, turn.id

    _, turn = run(main())
    assert last(log, turn).reason == "cancelled"
    assert [item.type for item in items(log, turn)] == ["function_call_output", "message"]


def test_cancelling_before_the_start_starts_nothing(log: Log) -> None:
    """A runner that is cancelled at once makes no agent begin, and the turn is settled all the same."""

    async def main() -> tuple[ScriptedAgent, str]:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("half"))
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return agent, turn.id

    agent, turn = run(main())
    assert not agent.begun.is_set()
    assert last(log, turn).reason == "cancelled"


def test_a_loop_that_shuts_down_leaves_no_turn_open(log: Log) -> None:
    """A runner that nobody waits for settles its turn when its event loop is closed under it."""
    turns: list[str] = []

    async def main() -> asyncio.Task[Ran]:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("half"), hang())
        turns.append(turn.id)
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await until(lambda: agent.played == 1)
        return running

    running = asyncio.run(main())
    assert running.cancelled()
    assert last(log, turns[0]).reason == "cancelled"
    assert [item.synthesized for item in items(log, turns[0])] == ["interrupted"]


def test_a_cancelled_agent_may_clean_up(log: Log) -> None:
    """What an interrupted agent still says while it cleans up is kept, in its place before the end."""

    async def main() -> str:
        turn = await log.submit("t", "question")
        await run_turn(turn, lambda: Tidy(call("c1"), hang()), log=log, idle_s=SOON)
        return turn.id

    assert kinds(log, run(main()))[-3:] == ["item", "item", "interrupted"]


def test_an_agent_that_does_not_stop_is_left_behind(log: Log) -> None:
    """P5: an agent that ignores its cancellation keeps no turn open; what it says later is refused and kept as late."""
    refused: list[BaseException] = []

    async def main() -> tuple[Ran, str]:
        release = asyncio.Event()

        class Stubborn(ScriptedAgent):
            async def run(self, task: Task, emit: Emit) -> Finish:
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:
                        continue
                try:
                    await emit(answer("too late"))
                except Refused as error:
                    refused.append(error)
                return Finish()

        turn = await log.submit("t", "question")
        ran = await run_turn(turn, Stubborn, log=log, idle_s=SOON, stop_s=SOON)
        before = kinds(log, turn.id)
        release.set()
        await until(lambda: bool(refused))
        await asyncio.sleep(0)
        assert kinds(log, turn.id) == before
        return ran, turn.id

    ran, turn = run(main())
    assert ran.reason == "timed_out"
    assert not items(log, turn)
    assert [event.kind for event in log.events("t")][-1] == "thread_late"


# --- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (ValueError("bad model"), "failed", "ValueError: bad model"),
        (ValueError(), "failed", "ValueError"),
        (AgentFailed(reason="transport_closed", detail="socket"), "transport_closed", "socket"),
        (AgentFailed(reason="out of luck", detail="no"), "failed", "no"),
        (AgentFailed(reason="out of luck"), "failed", "out of luck"),
        (TooLarge(field="item", limit="BODY_BYTES_MAX", limit_value=1), "too_large", None),
        (asyncio.CancelledError(), "failed", "the agent cancelled itself"),
        (ValueError("😀\udcff" * 100_000), "failed", None),
    ],
)
def test_an_agent_that_raises_ends_its_turn(log: Log, error: BaseException, reason: str, detail: str | None) -> None:
    """P5: whatever an agent raises, its turn ends with a reason of the list and a detail that fits."""
    ran, _, turn = run(play(log, text("so far"), error))
    assert (ran.state, ran.reason) == ("interrupted", reason)
    assert detail is None or ran.detail == detail
    end = last(log, turn)
    assert (end.reason, end.detail) == (reason, ran.detail)
    assert [item.synthesized for item in items(log, turn)] == ["interrupted"]


def test_an_agent_without_words_has_no_detail(log: Log) -> None:
    """An agent that says why it failed by a reason alone ends its turn with that and no line that repeats it."""
    _, _, turn = run(play(log, AgentFailed(reason="transport_closed")))
    assert (last(log, turn).reason, last(log, turn).detail) == ("transport_closed", None)


def test_an_agent_that_returns_nothing_has_failed(log: Log) -> None:
    """An agent that ends without a Finish did not keep the contract, and its turn says so."""

    class Careless(ScriptedAgent):
        async def run(self, task: Task, emit: Emit) -> Finish:
            return None  # type: ignore[return-value]

    async def main() -> Ran:
        return await run_turn(await log.submit("t", "question"), Careless, log=log)

    ran = run(main())
    assert ran.reason == "failed"
    assert "NoneType" in (ran.detail or "")


@pytest.mark.parametrize("kind", ["item", "draft"])
def test_what_is_too_large_ends_the_turn(log: Log, kind: str) -> None:
    """P4: a limit refuses with its name and ends the turn as too_large, also when the agent lets the refusal pass."""
    big = "x" * BODY_BYTES_MAX

    class Deaf(ScriptedAgent):
        async def run(self, task: Task, emit: Emit) -> Finish:
            for _ in range(3):
                try:
                    await emit(ItemSignal(raw={"type": "x", "text": big}) if kind == "item" else DraftSignal(text=big))
                except TooLarge:
                    await asyncio.sleep(0)
            return await super().run(task, emit)

    async def main() -> Ran:
        agent = Deaf(hang() if kind == "item" else text("more"))
        return await run_turn(await log.submit("t", "question"), lambda: agent, log=log)

    ran = run(main())
    assert ran.reason == "too_large"
    assert "_BYTES_MAX" in (ran.detail or "")


def test_a_call_in_flight_has_an_unknown_outcome(log: Log) -> None:
    """C42: a tool that did its work and was cut before its result is neither a success nor a failure."""
    ledger: list[str] = []
    _, _, turn = run(play(log, call("c1"), act(lambda: ledger.append("paid")), ValueError("cut")))
    assert ledger == ["paid"]
    assert last(log, turn).unknown_calls == ["c1"]


def test_a_turn_settled_by_another_hand_ends_the_agent(log: Log) -> None:
    """P5: when the turn ends in another way, the agent is stopped and the first end stands."""

    async def main() -> tuple[Ran, ScriptedAgent, str]:
        turn = await log.submit("t", "question")
        agent = ScriptedAgent(text("half"), act(lambda: turn.interrupt("cancelled", "from aside")), hang())
        return await run_turn(turn, lambda: agent, log=log), agent, turn.id

    ran, agent, turn = run(main())
    assert (ran.state, ran.reason) == ("interrupted", "cancelled")
    assert agent.cancelled
    assert last(log, turn).detail == "from aside"
    assert kinds(log, turn).count("interrupted") == 1


@pytest.mark.parametrize(
    ("script", "kept", "left_out"),
    [
        ([], [], "message"),
        ([text("half an")], ["half an"], ""),
        ([DraftSignal(text='{"path":"/tm', target="c1", kind="args")], [], "function_call"),
        ([call("c1")], ["function_call", "function_call_output"], ""),
    ],
)
def test_a_follow_up_of_a_cut_turn_is_valid(log: Log, script: list[Any], kept: list[str], left_out: str) -> None:
    """C28: cut before a word, in the text, in arguments or before the result, the next turn's history is sound."""

    async def main() -> list[bytes]:
        await play(log, *script, hang(), idle_s=SOON)
        _, agent, _ = await play(log, answer("fine"))
        assert agent.task is not None
        return list(agent.task.history)

    history = run(main())
    after = [raw.decode() for raw in history[1:]]
    assert len(after) == len(kept)
    assert all(part in raw for part, raw in zip(kept, after, strict=True))
    assert not left_out or not any(left_out in raw for raw in after)


class Wordless(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class WordlessFailure(AgentFailed):
    """The same as a failure of an agent."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(str):
    """A text that is of no plain type."""


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (Wordless(), "Wordless"),
        (WordlessFailure(reason="failed", detail=5), "WordlessFailure"),  # type: ignore[arg-type]
        (AgentFailed(reason="failed", detail=Odd("odd")), "odd"),
        (AgentFailed(reason="failed", detail=5), "The agent did not"),  # type: ignore[arg-type]
        (AgentFailed(reason=["failed"], detail="listed"), "listed"),  # type: ignore[arg-type]
    ],
    ids=["wordless", "wordless failure", "odd text", "no text", "no reason"],
)
def test_whatever_an_agent_raises_its_turn_ends(log: Log, error: Exception, detail: str) -> None:
    """P5: an exception that cannot be put into words ends the turn as failed all the same, under its name."""
    ran, _, turn = run(play(log, error))
    assert (ran.state, ran.reason) == ("interrupted", "failed")
    assert ran.detail is not None
    assert ran.detail.startswith(detail)
    assert last(log, turn).detail == ran.detail


def test_a_signal_that_is_none_is_refused(log: Log) -> None:
    """P1: what is no signal was not written, and `emit` says so: an agent never takes it for durable."""
    said: list[InvalidInput] = []

    class Mistaken:
        name, version = "mistaken", "1"

        async def run(self, task: Task, emit: Emit) -> Finish:
            for wrong in ({"type": "message"}, None, "text", DraftSignal):
                with pytest.raises(InvalidInput) as refusal:
                    await emit(wrong)  # type: ignore[arg-type]
                said.append(refusal.value)
            return Finish()

    async def main() -> tuple[Ran, str]:
        turn = await log.submit("t", "question")
        return await run_turn(turn, Mistaken, log=log), turn.id

    ran, turn = run(main())
    assert ran == Ran(state="completed")
    assert [refusal.field for refusal in said] == ["signal"] * 4
    assert kinds(log, turn) == ["submitted", "worker_started", "completed"]
