"""The processes of one event loop: one a thread, not too many, none for ever, and none that knows another history."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from turnlog.agents.codex import pool as pool_module
from turnlog.agents.codex.pool import CodexPool
from turnlog.agents.protocol import ItemSignal, Signal
from turnlog.errors import StartFailed
from turnlog.events.kinds import WorkerStarted
from turnlog.journal.turn import Turn
from turnlog.runner import run_turn
from turnlog.testing.fake_app_server import CLIENT_ID, VERSION, Fake, FakeAct, Refuse, Reply, Send, received, write_fake
from turnlog.testing.responses_answers import text
from turnlog.testing.scripted_agent import ScriptedAgent

from .running import fake_program, run, servers, task, unheard, until
from .stage import THREAD, Stage, same_items, staged

_U = {"threadId": "T", "turnId": "U"}
_USER = {
    "type": "message",
    "id": "msg_u",
    "role": "user",
    "content": [{"type": "input_text", "text": "hello"}],
    "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["user.text"]},
}
ANSWERING: dict[str, list[FakeAct]] = {
    "turn/start": [
        Reply({"turn": {"id": "U"}}),
        Send("rawResponseItem/completed", {**_U, "item": _USER}),
        Send("item/started", {**_U, "item": {"type": "userMessage", "id": "u", "clientId": CLIENT_ID}}),
        Send("turn/completed", {"threadId": "T", "turn": {"id": "U", "status": "completed"}}),
    ]
}
"""A Codex that takes the message and has nothing to say."""


def test_another_agents_turn_is_part_of_what_codex_is_given() -> None:
    """When the log's thread has grown elsewhere, the resting Codex thread does not know it: a new one gets it all."""

    async def main(stage: Stage) -> None:
        await stage.ask("one")
        turn = await stage.log.submit(THREAD, "to another")
        content = [{"type": "output_text", "text": "by another"}]
        other = ScriptedAgent(ItemSignal(raw={"type": "message", "role": "assistant", "content": content}))
        await run_turn(turn, lambda: other, log=stage.log)
        _, last = await stage.ask("two")
        *given, _ = stage.given()
        assert same_items(given, stage.history(until=last))
        assert "by another" in str(given)
        await until(lambda: len(servers()) == 1)

    with staged() as stage:
        run(main(stage))


def test_another_folder_is_another_process() -> None:
    """A turn in another workspace is not asked in a Codex thread that works elsewhere."""

    async def main(stage: Stage) -> None:
        await stage.ask("one")
        (first,) = servers()
        stage.workspace = stage.folder / "elsewhere"
        stage.workspace.mkdir()
        await stage.ask("two")
        await until(lambda: len(servers()) == 1)
        assert servers() != [first]

    with staged() as stage:
        run(main(stage))


def test_another_model_is_another_thread() -> None:
    """A turn that names a model is asked of that one, and not in a thread that was begun with another."""

    async def main(stage: Stage) -> None:
        await stage.ask("one")
        for model in ("another-model", "another-model", None):
            turn = await stage.log.submit(THREAD, "two", model=model)
            assert (await stage.take(turn)).state == "completed"
        assert [asked.body["model"] for asked in stage.endpoint.asked] == [
            "stub-model",
            "another-model",
            "another-model",
            "stub-model",
        ]
        threads = [asked.body["prompt_cache_key"] for asked in stage.endpoint.asked]
        assert threads[1] == threads[2] and len(set(threads)) == 3

    with staged() as stage:
        run(main(stage))


def versions_told(stage: Stage, turn: Turn) -> list[str]:
    """The version that the turn's start tells, and those that its notes do."""
    (began,) = [event.body for event in stage.events(turn) if isinstance(event.body, WorkerStarted)]
    notes = [step.title or "" for step in stage.steps(turn) if step.name == "version"]
    return [began.agent_version or "", *notes]


def test_a_codex_that_was_replaced_tells_its_own_version() -> None:
    """After an upgrade beneath a running server the next turn is run by the new program, and tells its version."""

    async def main(stage: Stage) -> None:
        for version in (VERSION, "0.200.1"):
            write_fake(stage.folder, Fake(on=ANSWERING, version=version))
            ran, turn = await stage.ask("hello")
            assert ran.state == "completed"
            assert versions_told(stage, turn) == [version]
        sent = [message.get("method") for message in received(stage.folder / "fake-codex")]
        assert sent.count("initialize") == sent.count("turn/start") == 2

    with staged(lambda folder: fake_program(folder, Fake(on=ANSWERING))) as stage:
        run(main(stage))


def test_a_program_that_starts_another_codex_is_put_right() -> None:
    """A process that tells another version than its program did is noted in the trace, and believed from then on."""
    other: dict[str, list[FakeAct]] = {**ANSWERING, "initialize": [Reply({"userAgent": "turnlog/0.200.1 (fake)"})]}

    async def main(stage: Stage) -> None:
        for told in ([VERSION, f"This was Codex 0.200.1, not {VERSION}"], ["0.200.1"]):
            ran, turn = await stage.ask("hello")
            assert ran.state == "completed"
            assert versions_told(stage, turn) == told
        sent = [message.get("method") for message in received(stage.folder / "fake-codex")]
        assert sent.count("initialize") == 1

    with staged(lambda folder: fake_program(folder, Fake(on=other))) as stage:
        run(main(stage))


def test_a_process_that_nobody_wants_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without a turn the process ends, and the next turn starts another one."""
    monkeypatch.setattr(pool_module, "CODEX_IDLE_S", 0.1)

    async def main(stage: Stage) -> None:
        await stage.ask("one")
        await until(lambda: not servers())
        ran, _ = await stage.ask("two")
        assert ran.state == "completed"

    with staged() as stage:
        run(main(stage))


def test_there_are_not_more_processes_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit a resting process makes room, and a turn waits for one that is at work, however long: who waits for
    a place is no silent agent."""
    monkeypatch.setattr(pool_module, "CODEX_PROCESSES_MAX", 1)
    gate = threading.Event()

    async def main(stage: Stage) -> None:
        await stage.ask("one", thread="first")
        (first,) = servers()
        stage.endpoint.script(text("slow one", chunks=2, gate=gate))
        async with stage.asking("two") as (turn, running):
            await stage.shown(turn, lambda seen: seen == "slow")
            assert servers() != [first] and len(servers()) == 1
            waiting = await stage.log.submit("third", "three")
            taking = asyncio.create_task(stage.take(waiting, idle_s=1))
            await stage.shown(waiting, lambda seen: '"waiting"' in seen)
            assert not (await asyncio.wait({taking}, timeout=1.5))[0], "it was cut while it waited"
            gate.set()
            assert (await running).state == "completed"
            assert (await taking).state == "completed"
        assert [step.status for step in stage.steps(waiting) if step.id == "codex-place"] == [
            "waiting",
            "succeeded",
        ]
        await until(lambda: len(servers()) == 1)

    with staged() as stage:
        run(main(stage))


def test_a_process_that_is_kept_while_others_wait_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who waits gets the place of a turn that ends only when its process is gone: there are never more than allowed."""
    monkeypatch.setattr(pool_module, "CODEX_PROCESSES_MAX", 1)

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake()))
        link = await pool.take(task(tmp_path, "0"), unheard, VERSION)
        for number in range(1, 4):
            asks = Hears()
            waiting = asyncio.create_task(pool.take(task(tmp_path, str(number)), asks, VERSION))
            await asks.heard.wait()
            await asyncio.sleep(0)
            pool.keep(str(number - 1), link)
            link = await waiting
            assert servers() == [link.process.pid]
        await link.process.close()

    run(main())


class Hears:
    """Takes signals, and tells of the first one."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def __call__(self, signal: Signal) -> None:
        self.heard.set()


def test_a_turn_that_is_cancelled_while_it_wakes_a_process_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stopped before the resting process has said that it is well, a turn leaves neither the process nor its place."""
    monkeypatch.setattr(pool_module, "CODEX_PROCESSES_MAX", 1)

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake(on={"thread/loaded/list": []})))
        for steps in range(4):
            link = await pool.take(task(tmp_path), unheard, VERSION)
            pool.keep("t", link)
            taking = asyncio.create_task(pool.take(task(tmp_path), unheard, VERSION))
            for _ in range(steps):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait({taking})
            assert taking.cancelled()
            other = await pool.take(task(tmp_path, "other"), unheard, VERSION)
            assert servers() == [other.process.pid]
            pool.drop("other", other)
        await until(lambda: not servers())

    run(main())


def test_a_start_that_fails_gives_its_place_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a failed start there is room for the next one."""
    monkeypatch.setattr(pool_module, "CODEX_PROCESSES_MAX", 1)

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake(on={"thread/start": [Refuse("no")]})))
        for _ in range(3):
            with pytest.raises(StartFailed, match="no"):
                await pool.take(task(tmp_path), unheard, VERSION)

    run(main())


def test_without_a_folder_nothing_is_started(tmp_path: Path) -> None:
    """Codex works in a folder; a turn that names none fails before any process is there."""

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake()))
        with pytest.raises(StartFailed, match="folder") as caught:
            await pool.take(task(None), unheard, VERSION)
        assert caught.value.reason == "workspace_failed"
        assert not servers()

    run(main())
