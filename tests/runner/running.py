"""Runs agents through turns of real logs, and reads what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import turnlog
from turnlog.agents.protocol import DraftSignal, ItemSignal, StepSignal
from turnlog.events.kinds import Event, Item
from turnlog.journal.log import Log
from turnlog.runner import Ran, run_turn
from turnlog.testing.scripted_agent import Act, ScriptedAgent

T = TypeVar("T")

WAIT_S = 30.0


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` within a bound, and see that it leaves no task behind."""

    async def outer() -> T:
        result = await asyncio.wait_for(main, WAIT_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left running: {left}"
        return result

    return asyncio.run(outer())


def open_log(kind: str, folder: Path) -> Log:
    return turnlog.open("memory://" if kind == "memory" else f"sqlite:///{folder}/chat.db")


async def play(log: Log, *script: Act, thread: str = "t", **limits: Any) -> tuple[Ran, ScriptedAgent, str]:
    """Submit a turn and take a scripted agent through it."""
    turn = await log.submit(thread, "question")
    agent = ScriptedAgent(*script)
    return await run_turn(turn, lambda: agent, log=log, **limits), agent, turn.id


def events(log: Log, turn: str, thread: str = "t") -> list[Event]:
    return list(log.events(thread, turn=turn))


def kinds(log: Log, turn: str, thread: str = "t") -> list[str]:
    return [event.kind for event in events(log, turn, thread)]


def items(log: Log, turn: str, thread: str = "t") -> list[Item]:
    return [event.body for event in events(log, turn, thread) if isinstance(event.body, Item)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads bring about; the bound is that of `run`."""
    while not condition():
        await asyncio.sleep(0.001)


def text(chunk: str, target: str | None = None) -> DraftSignal:
    return DraftSignal(text=chunk, target=target)


def call(call_id: str) -> ItemSignal:
    return ItemSignal(raw={"type": "function_call", "call_id": call_id, "name": "pay", "arguments": "{}"})


def output(call_id: str) -> ItemSignal:
    return ItemSignal(raw={"type": "function_call_output", "call_id": call_id, "output": "done"})


def answer(said: str, item: str | None = None) -> ItemSignal:
    raw: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    return ItemSignal(raw=raw | ({} if item is None else {"id": item}))


def asking(status: Any) -> StepSignal:
    return StepSignal(id="approval-1", step="approval", title="May I?", status=status)


def hang() -> asyncio.Event:
    """An act that never ends."""
    return asyncio.Event()


def act(function: Callable[[], Awaitable[Any] | None]) -> Act:
    """An act that calls `function`, and awaits what it gives."""

    async def called(_task: Any) -> None:
        waiting = function()
        if waiting is not None:
            await waiting

    return called
