"""The processes of one event loop: one a thread, not too many, none for ever, and none that knows another history."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from turnlog.agents.codex import pool as pool_module
from turnlog.agents.codex.pool import CodexPool
from turnlog.agents.protocol import ItemSignal
from turnlog.errors import StartFailed
from turnlog.runner import run_turn
from turnlog.testing.fake_app_server import Fake, Refuse
from turnlog.testing.responses_answers import text
from turnlog.testing.scripted_agent import ScriptedAgent

from .running import fake_program, run, servers, task, until
from .stage import THREAD, Stage, same_items, staged


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
    """At the limit a resting process makes room, and a turn waits for one that is at work."""
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
            taking = run_turn(waiting, stage.agents, log=stage.log, workspace=stage.workspace)
            gate.set()
            assert (await running).state == "completed"
            assert (await taking).state == "completed"
        assert len(servers()) == 1

    with staged() as stage:
        run(main(stage))


def test_a_start_that_fails_gives_its_place_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a failed start there is room for the next one."""
    monkeypatch.setattr(pool_module, "CODEX_PROCESSES_MAX", 1)

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake(on={"thread/start": [Refuse("no")]})))
        for _ in range(3):
            with pytest.raises(StartFailed, match="no"):
                await pool.take(task(tmp_path))

    run(main())


def test_without_a_folder_nothing_is_started(tmp_path: Path) -> None:
    """Codex works in a folder; a turn that names none fails before any process is there."""

    async def main() -> None:
        pool = CodexPool(fake_program(tmp_path, Fake()))
        with pytest.raises(StartFailed, match="folder") as caught:
            await pool.take(task(None))
        assert caught.value.reason == "workspace_failed"
        assert not servers()

    run(main())
