"""How the demo agent works in the open: each tool call is on disk before it is done, each word after it is said."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from turnlog.agents.demo.bounds import OUTPUT_CHARS_MAX
from turnlog.agents.demo.files import Parts, Problem, problem
from turnlog.agents.protocol import DraftSignal, Emit, ItemSignal, StepSignal
from turnlog.events.clock import Clock
from turnlog.events.kinds import DraftKind, Failure

T = TypeVar("T")

_PIECE: Final = re.compile(r"\s*\S{1,24}\s*")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast the agent speaks and works, in seconds: fast enough to read along, slow enough to see what it does."""

    word_s: float = 0.02
    step_s: float = 0.15
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)


def pieces(text: str) -> Iterator[str]:
    """A text word by word, spaces included; joined they are the text."""
    end = 0
    for match in _PIECE.finditer(text):
        yield text[end : match.end()]
        end = match.end()
    if end < len(text):
        yield text[end:]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One use of a tool: what a model would have asked for, with a title for people."""

    name: str
    title: str
    path: Parts
    arguments: Mapping[str, Any]
    parent: str | None = None


class Work:
    """What one turn shows of its work. `mark` makes its ids unique among all turns."""

    def __init__(self, emit: Emit, clock: Clock, pace: Pace, mark: str) -> None:
        self._emit, self._clock, self._pace, self._mark = emit, clock, pace, mark
        self._made = 0

    def new_id(self, kind: str) -> str:
        """A new id of the form `kind_mark_n`."""
        self._made += 1
        return f"{kind}_{self._mark}_{self._made}"

    async def use(self, call: Call, body: Callable[[], T], tell: Callable[[T], str]) -> T | Problem:
        """Use a tool: `body` runs in a thread once the intent is durable; `tell` puts its result into words.

        An `OSError` of `body` makes a failed step, and is returned as a `Problem`.
        """
        call_id = self.new_id("call")
        await self._begin(call, call_id)
        try:
            result = await asyncio.to_thread(body)
        except OSError as error:
            trouble = problem(call.path, error)
            await self._pace.sleep(self._pace.step_s)
            await self._end(call_id, f"failed: {trouble.failure.reason}", trouble.failure)
            return trouble
        await self._pace.sleep(self._pace.step_s)
        await self._end(call_id, tell(result)[:OUTPUT_CHARS_MAX], None)
        return result

    async def _begin(self, call: Call, call_id: str) -> None:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        await self._emit(
            StepSignal(
                id=call_id,
                call_id=call_id,
                parent=call.parent,
                step="tool",
                name=call.name,
                title=call.title,
                status="running",
                started_at=self._clock.now_us(),
            )
        )
        await self._emit(
            ItemSignal(raw={"type": "function_call", "call_id": call_id, "name": call.name, "arguments": arguments})
        )

    async def _end(self, call_id: str, output: str, failure: Failure | None) -> None:
        await self._emit(ItemSignal(raw={"type": "function_call_output", "call_id": call_id, "output": output}))
        await self._emit(
            StepSignal(
                id=call_id,
                call_id=call_id,
                status="failed" if failure else "succeeded",
                failure=failure,
                ended_at=self._clock.now_us(),
            )
        )

    async def failed_file(self, trouble: Problem, parent: str | None) -> None:
        """Show a file that a tool could not read as a failed step of its own."""
        at = self._clock.now_us()
        await self._emit(
            StepSignal(
                id=self.new_id("file"),
                parent=parent,
                step="tool",
                name="read_file",
                title=f"Reading {trouble.path}",
                status="failed",
                failure=trouble.failure,
                started_at=at,
                ended_at=at,
            )
        )

    async def begin_subagent(self, name: str, title: str) -> str:
        """Start a sub-agent; its tools name the returned id as their parent."""
        agent = self.new_id("agent")
        await self._emit(
            StepSignal(
                id=agent, step="subagent", name=name, title=title, status="running", started_at=self._clock.now_us()
            )
        )
        return agent

    async def end_subagent(self, agent: str, report: str, failure: Failure | None = None) -> None:
        """Let a sub-agent say what it found, and end it."""
        await self._stream(report, agent, "text")
        await self._emit(
            StepSignal(
                id=agent,
                status="failed" if failure else "succeeded",
                text=report,
                failure=failure,
                ended_at=self._clock.now_us(),
            )
        )

    async def think(self, text: str) -> None:
        """Show a thought."""
        item = self.new_id("rs")
        await self._stream(text, item, "reasoning")
        summary = [{"type": "summary_text", "text": text}]
        await self._emit(ItemSignal(raw={"type": "reasoning", "id": item, "summary": summary}))

    async def answer(self, text: str) -> None:
        """Say the answer, and hand over the final item."""
        item = self.new_id("msg")
        await self._stream(text, item, "text")
        content = [{"type": "output_text", "text": text, "annotations": []}]
        await self._emit(ItemSignal(raw={"type": "message", "role": "assistant", "id": item, "content": content}))

    async def _stream(self, text: str, target: str, kind: DraftKind) -> None:
        for piece in pieces(text):
            await self._emit(DraftSignal(text=piece, target=target, kind=kind))
            await self._pace.sleep(self._pace.word_s)
