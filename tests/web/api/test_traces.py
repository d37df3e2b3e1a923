"""A trace over the API is the same while it grows, after its end and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import turnlog
from tests.runner.running import answer, call, output, run, text
from tests.web.calling import calling
from turnlog.agents.protocol import DraftSignal, ItemSignal, StepSignal
from turnlog.journal.log import Log
from turnlog.testing.scripted_agent import Act

REASONING = ItemSignal(raw={"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]})


async def traces(path: Path, script: list[Act]) -> tuple[list[Any], list[Any]]:
    """The entries of a turn that plays `script`: at its last moment, and settled."""
    shown, seen = asyncio.Event(), asyncio.Event()

    async def show(_task: Any) -> None:
        shown.set()
        await seen.wait()

    with turnlog.open(f"sqlite:///{path}") as log:
        async with calling(log, *script, show) as api:
            turn = (await api.submit("t", "x", turn="T"))["turn"]
            await shown.wait()
            live = (await api.get(f"/api/threads/t/turns/{turn}"))["entries"]
            seen.set()
            await api.settled("t", turn)
            return live, (await api.get(f"/api/threads/t/turns/{turn}"))["entries"]


async def reloaded(path: Path) -> list[Any]:
    """The entries of the turn in another process's eyes."""
    with turnlog.open(f"sqlite:///{path}") as log:
        return await entries_of(log)


async def entries_of(log: Log) -> list[Any]:
    async with calling(log) as api:
        entries: list[Any] = (await api.get("/api/threads/t/turns/T"))["entries"]
        return entries


def test_thoughts_calls_and_texts_stay_in_the_order_they_came(tmp_path: Path) -> None:
    """Text, thought, call, text, call, text stay separate entries in order: live, settled, and reloaded (P9, C22)."""
    script: list[Act] = [
        text("First I look."),
        answer("First I look."),
        DraftSignal(text="Hm.", kind="reasoning", target="rs"),
        REASONING,
        call("c1"),
        output("c1"),
        text("Now "),
        text("I know."),
        answer("Now I know."),
        call("c2"),
        output("c2"),
        answer("Done."),
    ]

    async def main() -> None:
        live, settled = await traces(tmp_path / "a.db", script)
        assert [(one["kind"], one["text"] or one["output"]) for one in settled] == [
            ("message", "First I look."),
            ("reasoning", "Hm."),
            ("tool", "done"),
            ("message", "Now I know."),
            ("tool", "done"),
            ("message", "Done."),
        ]
        assert live == settled == await reloaded(tmp_path / "a.db")

    run(main())


def test_a_tree_of_sub_agents_stays_a_tree(tmp_path: Path) -> None:
    """Three levels of sub-agents and their tools nest as they ran: live, settled, and reloaded (P9, C23)."""
    script: list[Act] = [
        StepSignal(id="A", step="subagent", name="planner", status="running"),
        StepSignal(id="B", parent="A", step="subagent", name="reader", status="running"),
        StepSignal(id="b1", parent="B", step="tool", name="read", args={"path": "x"}, output="1", status="succeeded"),
        StepSignal(id="b2", parent="B", step="tool", name="read", status="failed"),
        StepSignal(id="lost", parent="nobody", step="tool", name="find", status="succeeded"),
        StepSignal(id="B", status="succeeded"),
        StepSignal(id="A", status="succeeded"),
        answer("Done."),
    ]

    async def main() -> None:
        live, settled = await traces(tmp_path / "a.db", script)
        parents = {one["id"]: one["parent"] for one in settled if one["kind"] != "message"}
        assert parents == {"A": None, "B": "A", "b1": "B", "b2": "B", "lost": None}
        assert live == settled == await reloaded(tmp_path / "a.db")

    run(main())
