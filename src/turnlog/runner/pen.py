"""The pen an agent writes with: signals become writes, and their refusals end the turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from turnlog.agents.protocol import (
    AttemptDroppedSignal,
    DraftSignal,
    ItemSignal,
    Signal,
    StepSignal,
    UsageSignal,
)
from turnlog.errors import AlreadySettled, Fenced, InvalidInput, Overloaded, Refused, StoreError, TooLarge, TurnlogError
from turnlog.events.kinds import Step
from turnlog.folds.states import TERMINAL
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn

USAGE_STEP: Final = "usage"
"""The id of the step that carries a turn's token counts as they arrive."""


class Pen:
    """Writes one turn for one agent, and knows how long the agent has been silent.

    `broken` is told of a refusal that must end the agent even when the agent itself lets it pass: the turn or the store
    is gone, or something was too large to be kept. After a takeover or a failure of the store nothing more is written.
    What is still said when the turn has settled otherwise is kept as late, and refused all the same.
    """

    def __init__(self, turn: Turn, broken: Callable[[TurnlogError], None]) -> None:
        self._turn = turn
        self._broken = broken
        self._error: TurnlogError | None = None
        self._drafts: deque[Receipt[None]] = deque()
        self._writing = 0
        self._waiting: set[str] = set()
        self._spoke = 0.0

    def silent_s(self) -> float:
        """Seconds since the agent's last signal; 0 while one is being written or a person is being waited for."""
        if self._writing or self._waiting:
            return 0.0
        return asyncio.get_running_loop().time() - self._spoke

    def listen(self) -> None:
        """Count the agent's silence from now."""
        self._spoke = asyncio.get_running_loop().time()

    async def emit(self, signal: Signal) -> None:
        """Write one signal. Returns when it is durable, for a draft when it is buffered; see `Emit`."""
        if self._error is not None:
            raise self._error
        self._writing += 1
        try:
            await self._write(signal)
            if self._turn.state in TERMINAL:
                raise AlreadySettled(thread=self._turn.thread, turn=self._turn.id, state=self._turn.state)
        except (Refused, StoreError, TooLarge) as error:
            if isinstance(error, Fenced | StoreError):
                self._error = error
            self._broken(error)
            raise
        finally:
            self._writing -= 1
            self.listen()

    async def _write(self, signal: Signal) -> None:
        match signal:
            case DraftSignal():
                await self._write_draft(signal)
            case ItemSignal(raw=raw, format=format_, purpose=purpose):
                await self._turn.item(raw, format=format_, purpose=purpose)
            case StepSignal():
                await self._turn.put_step(Step(**{field.name: getattr(signal, field.name) for field in fields(signal)}))
                self._note_waiting(signal)
            case UsageSignal(usage=usage):
                await self._turn.step(USAGE_STEP, kind="note", title="Usage", status="succeeded", usage=usage)
            case AttemptDroppedSignal(reason=reason):
                await self._turn.drop_attempt(reason)
            case _:  # an agent without a type checker may say anything
                raise InvalidInput(field="signal", problem=f"{type(signal).__name__} is no signal")

    async def _write_draft(self, signal: DraftSignal) -> None:
        """Buffer a chunk. When the disk stalls, wait for it instead of failing: the agent slows down to its speed."""
        while self._drafts and self._drafts[0].done():
            self._drafts.popleft().result()
        try:
            self._put_draft(signal)
        except Overloaded:
            if not self._drafts:
                raise
            while self._drafts:
                await self._drafts.popleft()
            self._put_draft(signal)

    def _put_draft(self, signal: DraftSignal) -> None:
        self._drafts.append(self._turn.draft(signal.text, signal.target, signal.kind, signal.part))

    def _note_waiting(self, signal: StepSignal) -> None:
        if signal.status == "waiting":
            self._waiting.add(signal.id)
        elif signal.status is not None:
            self._waiting.discard(signal.id)
