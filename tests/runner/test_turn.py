"""The runner: turns that go well, and those whose agent never starts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.running import (
    answer,
    asking,
    call,
    events,
    items,
    kinds,
    output,
    play,
    run,
    text,
    until,
)
from turnlog.agents.demo import DemoAgent, Pace
from turnlog.agents.protocol import (
    AttemptDroppedSignal,
    Finish,
    ItemSignal,
    Task,
    UsageSignal,
)
from turnlog.errors import AgentFailed, DuplicateTurn, Refused, StartFailed
from turnlog.events.kinds import AttemptDropped, Completed, Requested, Step, WorkerStarted
from turnlog.journal.log import Log
from turnlog.runner import Ran, run_turn
from turnlog.testing.scripted_agent import ScriptedAgent


def last(log: Log, turn: str) -> Any:
    return events(log, turn)[-1].body


# --- a turn that goes well ----------------------------------------------------------------------------------------


def test_signals_become_events_in_their_order(log: Log) -> None:
    """P9: what an agent says is in the log as it was said, with the agent's name, and the turn is completed."""
    ran, _, turn = run(
        play(
            log,
            text("Let me", "m1"),
            call("c1"),
            asking("running"),
            UsageSignal(usage={"input_tokens": 3}),
            output("c1"),
            answer("Let me see", "m1"),
            Finish(finish_reason="stop", usage={"input_tokens": 5}),
        )
    )
    assert ran == Ran(state="completed")
    assert kinds(log, turn) == [
        "submitted",
        "worker_started",
        "assistant_started",
        "item",
        "step",
        "step",
        "item",
        "item",
        "completed",
    ]
    started = events(log, turn)[1].body
    assert isinstance(started, WorkerStarted)
    assert (started.agent, started.agent_version) == ("scripted", "1")
    usage = next(e.body for e in events(log, turn) if isinstance(e.body, Step) and e.body.usage)
    assert (usage.id, usage.step, usage.usage) == ("usage", "note", {"input_tokens": 3})
    done = last(log, turn)
    assert isinstance(done, Completed)
    assert (done.finish_reason, done.usage) == ("stop", {"input_tokens": 5})
    assert [closed.draft for closed in items(log, turn)[-1].closes] == ["0/m1/text/0"]


def test_an_abandoned_attempt_is_recorded(log: Log) -> None:
    """What an attempt had shown before it was dropped is in the trace, and not in the answer."""
    _, _, turn = run(play(log, text("wrong"), AttemptDroppedSignal(reason="overloaded"), answer("right")))
    dropped = next(event.body for event in events(log, turn) if isinstance(event.body, AttemptDropped))
    assert (dropped.reason, [part.text for part in dropped.dropped]) == ("overloaded", ["wrong"])
    assert len(items(log, turn)) == 1


def test_text_without_a_final_item_becomes_the_answer(log: Log) -> None:
    """P3: an agent that finishes with open text completes the turn with exactly that text, marked as made of drafts."""
    _, _, turn = run(play(log, text("All "), text("of it")))
    (item,) = items(log, turn)
    assert item.synthesized == "no_final_item"
    assert json.loads(item.raw)["content"][0]["text"] == "All of it"


def test_the_agent_gets_the_turn_and_what_was_before(log: Log, tmp_path: Path) -> None:
    """The task has the content, the workspace of the submission, and the items of earlier turns only."""

    async def main() -> ScriptedAgent:
        await play(log, answer("first answer"))
        turn = await log.submit("t", "second", workspace=str(tmp_path), model="large")
        agent = ScriptedAgent(answer("second answer"))
        await run_turn(turn, lambda: agent, log=log)
        return agent

    task = run(main()).task
    assert task is not None
    assert (task.content, task.workspace, task.model) == ("second", tmp_path, "large")
    texts = [json.loads(raw)["content"] for raw in task.history]
    assert len(texts) == 2
    assert "question" in json.dumps(texts[0])
    assert "first answer" in json.dumps(texts[1])


def test_the_agents_form_of_the_message_stands_for_it(log: Log) -> None:
    """An item that an agent calls the submission's own form is in the next history, and the submission is not."""
    content = [{"type": "input_text", "text": "as the agent has it"}]
    echo = ItemSignal(raw={"type": "message", "role": "user", "content": content}, purpose="submission")
    _, _, turn = run(play(log, echo, answer("hello")))
    assert [item.purpose for item in items(log, turn)] == ["submission", None]
    given = [json.loads(item) for item in log.history("t").items]
    assert [item["content"][0]["text"] for item in given] == ["as the agent has it", "hello"]
    assert [message.text for message in log.transcript("t").messages] == ["question", "hello"]


def test_decisions_reach_the_agent(log: Log) -> None:
    """A decision that is requested while the agent waits for it comes out of the task's requests."""
    got: list[Requested] = []

    async def main() -> None:
        turn = await log.submit("t", "may you?")

        async def wait_for_it(task: Task) -> None:
            got.append(await anext(task.requests))

        agent = ScriptedAgent(asking("waiting"), wait_for_it, asking("succeeded"))
        running = asyncio.create_task(run_turn(turn, lambda: agent, log=log))
        await until(lambda: agent.played == 1)
        await log.request("t", turn.id, "decide", approval="approval-1", value="yes", by="ann")
        assert (await running).state == "completed"

    run(main())
    assert [(r.what, r.approval, r.value) for r in got] == [("decide", "approval-1", "yes")]


def test_requests_end_with_the_turn(log: Log) -> None:
    """An agent that reads requests beside its work sees their end when the turn is settled."""
    ended: list[asyncio.Task[None]] = []

    async def main() -> None:
        async def beside(task: Task) -> None:
            async def read() -> None:
                async for _ in task.requests:
                    pass

            ended.append(asyncio.create_task(read()))
            await asyncio.sleep(0)

        await play(log, beside, answer("done"))
        await ended[0]

    run(main())


def test_the_demo_agent_answers_through_the_runner(log: Log, tmp_path: Path) -> None:
    """The whole way: a question about a real folder, its trace with nested tools, and a follow-up from history."""
    folder = tmp_path / "folder"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "lease.md").write_text("# Lease\n\nA lease runs for 30 seconds.\n")

    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> list[str]:
        said = []
        for question in ("What is a lease?", "and where is it?"):
            turn = await log.submit("t", question)
            ran = await run_turn(turn, lambda: DemoAgent(pace=Pace(sleep=no_wait)), log=log, workspace=folder)
            assert ran.state == "completed"
            final = items(log, turn.id)[-1]
            assert final.synthesized is None
            said.append(json.loads(final.raw)["content"][0]["text"])
        return said

    first, second = run(main())
    assert "`docs/lease.md:1`" in first
    assert second.startswith("About what you asked before: `lease`")
    turn = log.turns("t").rows[0].turn
    entries = log.timeline("t", turn).entries
    (subagent,) = (entry for entry in entries if entry.kind == "subagent")
    assert subagent.status == "succeeded"
    assert [entry.name for entry in entries if entry.parent == subagent.id and entry.kind == "tool"] == ["search_files"]
    assert not [entry for entry in entries if entry.status == "running"]


# --- before the agent starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (RuntimeError("no binary"), "start_failed", "RuntimeError: no binary"),
        (StartFailed(reason="start_failed", detail="codex is not installed"), "start_failed", "codex is not installed"),
        (AgentFailed(reason="workspace_failed", detail="gone"), "workspace_failed", "gone"),
        (AgentFailed(reason="bad luck"), "start_failed", None),
    ],
)
def test_a_factory_that_raises_ends_the_turn(log: Log, error: Exception, reason: str, detail: str | None) -> None:
    """P1: when no agent can be made, none has started, and the turn says why."""

    def factory() -> ScriptedAgent:
        raise error

    async def main() -> tuple[Ran, str]:
        turn = await log.submit("t", "question")
        return await run_turn(turn, factory, log=log), turn.id

    ran, turn = run(main())
    assert (ran.state, ran.reason) == ("interrupted", reason)
    assert detail is None or ran.detail == detail
    assert kinds(log, turn) == ["submitted", "interrupted"]


@pytest.mark.parametrize("named_by", ["caller", "submission"])
def test_a_missing_workspace_ends_the_turn(log: Log, tmp_path: Path, named_by: str) -> None:
    """A workspace that is gone ends the turn as workspace_failed, and the agent does not begin."""
    gone = tmp_path / "gone"

    async def main() -> tuple[Ran, ScriptedAgent, str]:
        turn = await log.submit("t", "question", workspace=str(gone))
        agent = ScriptedAgent()
        named = gone if named_by == "caller" else None
        return await run_turn(turn, lambda: agent, log=log, workspace=named), agent, turn.id

    ran, agent, turn = run(main())
    assert ran.reason == "workspace_failed"
    assert str(gone) in (ran.detail or "")
    assert not agent.begun.is_set()
    assert kinds(log, turn) == ["submitted", "interrupted"]


def test_a_turn_is_not_run_twice(log: Log) -> None:
    """C03: a submission that was in the log, and a turn that has run, are refused before a second agent begins."""

    async def main() -> ScriptedAgent:
        turn = await log.submit("t", "question", key="k")
        again = await log.submit("t", "question", key="k")
        agent = ScriptedAgent()
        with pytest.raises(DuplicateTurn):
            await run_turn(again, lambda: agent, log=log)
        await run_turn(turn, ScriptedAgent, log=log)
        with pytest.raises(Refused):
            await run_turn(turn, lambda: agent, log=log)
        return agent

    assert not run(main()).begun.is_set()
