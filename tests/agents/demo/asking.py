"""Asks the demo agent without a journal, and keeps all it says."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlog.agents.demo import DemoAgent, Pace
from turnlog.agents.demo.files import Opener
from turnlog.agents.protocol import DraftSignal, ItemSignal, Signal, StepSignal, Task
from turnlog.events.kinds import Requested


class StillClock:
    """A clock that stands."""

    def now_us(self) -> int:
        return 1_000_000

    def boot_s(self) -> float:
        return 1.0


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


async def no_requests() -> AsyncIterator[Requested]:
    return
    yield


@dataclass
class Told:
    """All signals of one turn."""

    signals: list[Signal] = field(default_factory=list)

    @property
    def items(self) -> list[dict[str, Any]]:
        return [dict(s.raw) for s in self.signals if isinstance(s, ItemSignal) and not isinstance(s.raw, bytes)]

    @property
    def steps(self) -> list[StepSignal]:
        return [s for s in self.signals if isinstance(s, StepSignal)]

    @property
    def failed(self) -> list[StepSignal]:
        return [s for s in self.steps if s.status == "failed"]

    @property
    def text(self) -> str:
        last = self.items[-1]
        assert last["type"] == "message"
        text = last["content"][0]["text"]
        assert isinstance(text, str)
        return text

    @property
    def outputs(self) -> str:
        return "\n".join(item["output"] for item in self.items if item["type"] == "function_call_output")

    def drafts(self, target: str) -> str:
        return "".join(s.text for s in self.signals if isinstance(s, DraftSignal) and s.target == target)


def task(folder: Path | None, question: str | list[Any], history: Sequence[bytes] = (), turn: str = "turn-1") -> Task:
    return Task(
        thread="t",
        turn=turn,
        content=question,
        history=history,
        workspace=folder,
        model=None,
        requests=no_requests(),
    )


def agent(opener: Opener = os.open, sleep: Callable[[float], Awaitable[None]] = no_wait) -> DemoAgent:
    return DemoAgent(clock=StillClock(), pace=Pace(sleep=sleep), opener=opener)


def ask(folder: Path, question: str, history: Sequence[bytes] = (), opener: Opener = os.open) -> Told:
    """What the agent tells when it is asked `question` about `folder`."""
    told = Told()

    async def emit(signal: Signal) -> None:
        told.signals.append(signal)

    asyncio.run(asyncio.wait_for(agent(opener).run(task(folder, question, history), emit), 60))
    return told


def user(text: str) -> bytes:
    return json.dumps({"type": "message", "role": "user", "content": text}).encode()


def write(folder: Path, **files: str) -> Path:
    """Make files; `__` in a name stands for a slash, a last `_x` for the suffix `.x`."""
    for name, text in files.items():
        path = folder / "/".join(name.split("__"))
        path = path.with_name(".".join(path.name.rsplit("_", 1)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder
