"""One Codex thread in a process of its own, and what it knows of the log's thread."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from turnlog.agents.codex.content import injected
from turnlog.agents.codex.jsonrpc import Reply, Told, one_line
from turnlog.agents.codex.process import CodexProcess, Program
from turnlog.agents.codex.translate import Translator
from turnlog.agents.protocol import Emit, ItemSignal, Signal, Task
from turnlog.errors import AgentFailed, AlreadySettled, RestoreFailed, StartFailed, TurnlogError
from turnlog.limits import CODEX_STOP_S

_EARLIER_MAX: Final = 4
"""Turns of a link whose commands may still be running when later ones are taken."""


class Known:
    """A running digest of items in order: two of them are equal when the items are, byte for byte."""

    def __init__(self, items: Iterable[bytes] = ()) -> None:
        self._digest = hashlib.sha256()
        for item in items:
            self.add(item)

    def add(self, item: bytes) -> None:
        """One more item."""
        self._digest.update(b"%d:" % len(item))
        self._digest.update(item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self._digest.digest() == other._digest.digest()

    __hash__ = None  # type: ignore[assignment]  # it changes


class _Named(msgspec.Struct):
    id: str


class _Started(msgspec.Struct):
    thread: _Named


class _Loaded(msgspec.Struct):
    data: list[str]


_loaded: Final = msgspec.json.Decoder(_Loaded)
_started: Final = msgspec.json.Decoder(_Started)


class Link:
    """An ephemeral Codex thread that was given a history. `known` is what it has been given and said since.

    It is for one task after the other: each goes on where the last one ended, or another link must be opened.
    """

    def __init__(self, process: CodexProcess, thread: str, task: Task) -> None:
        self.process, self.thread = process, thread
        self.known: Known | None = Known(task.history)
        self._workspace, self._model = task.workspace, task.model
        self._earlier: deque[tuple[Translator, Emit]] = deque(maxlen=_EARLIER_MAX)

    @classmethod
    async def open(cls, program: Program, task: Task) -> Link:
        """Start a process and a thread in it, and give it the history.

        Raises `StartFailed` when that is not possible, and its kind `RestoreFailed` when the history is refused; then
        nothing of it is left.
        """
        if task.workspace is None:
            raise StartFailed(reason="workspace_failed", detail="Codex needs a folder to work in")
        process = await CodexProcess.start(program)
        try:
            thread = await _start_thread(process, task.workspace, task.model)
            if task.history:
                await _restore(process, thread, task.history)
        except BaseException:
            await process.close()
            raise
        return cls(process, thread, task)

    async def fits(self, task: Task, version: str) -> bool:
        """Whether it is of this version and stands where the task begins, and Codex still has it."""
        return (
            self.known == Known(task.history)
            and (self._workspace, self._model, self.process.version) == (task.workspace, task.model, version)
            and await self._is_loaded()
        )

    async def _is_loaded(self) -> bool:
        """Ask, so that a process that has died or hangs is found out before a turn is given to it."""
        try:
            reply = await self.process.connection.request("thread/loaded/list", {}, seconds=CODEX_STOP_S)
            return self.thread in _loaded.decode(reply.result).data
        except (AgentFailed, msgspec.DecodeError):
            return False

    def remember(self, translator: Translator, emit: Emit) -> None:
        """A turn has ended here; its commands may go on."""
        self._earlier.append((translator, emit))

    async def tell_late(self, told: Told) -> None:
        """Pass on what comes of a turn that has ended: the log keeps it as late, as long as it takes it."""
        for translator, emit in [turn for turn in self._earlier if turn[0].is_about(told)]:
            for signal in self._late(translator, told):
                if isinstance(signal, ItemSignal):
                    self.known = None  # the log's history does not have it where this thread has it
                if not await _told(emit, signal):
                    self._earlier.remove((translator, emit))
                    break

    def _late(self, translator: Translator, told: Told) -> list[Signal]:
        """What a late message says. One that cannot be read is as unknown as others are, and no turn's end."""
        try:
            return list(translator.take(told))
        except AgentFailed:
            self.known = None
            return []


async def _told(emit: Emit, signal: Signal) -> bool:
    """Emit a late signal; whether the log still takes any."""
    try:
        await emit(signal)
    except AlreadySettled:
        return True
    except TurnlogError:
        return False
    return True


async def _start_thread(process: CodexProcess, workspace: Path, model: str | None) -> str:
    params: dict[str, Any] = {"ephemeral": True, "experimentalRawEvents": True, "cwd": str(workspace)}
    if model is not None:
        params["model"] = model
    reply = await _ask(process, "thread/start", params)
    if reply.error is not None:
        raise StartFailed(reason="start_failed", detail=f"Codex refused to begin: {reply.error.message}")
    try:
        return _started.decode(reply.result).thread.id
    except msgspec.DecodeError as error:
        raise StartFailed(reason="start_failed", detail=f"Codex began a thread without an id: {error}") from error


async def _restore(process: CodexProcess, thread: str, history: Iterable[bytes]) -> None:
    """Give a new thread the whole history, in one call: all of it is taken, or nothing."""
    params = {"threadId": thread, "items": [one_line(injected(item)) for item in history]}
    try:
        reply = await process.connection.request("thread/inject_items", params)
    except TurnlogError as error:
        raise RestoreFailed(reason="start_failed", detail=await process.explain(_words(error))) from error
    if reply.error is not None:
        with suppress(AgentFailed):
            await process.connection.request("thread/unsubscribe", {"threadId": thread}, seconds=CODEX_STOP_S)
        raise RestoreFailed(reason="start_failed", detail=f"Codex refused the history: {reply.error.message}")


async def _ask(process: CodexProcess, method: str, params: dict[str, Any]) -> Reply:
    try:
        return await process.connection.request(method, params)
    except AgentFailed as error:
        raise StartFailed(reason="start_failed", detail=await process.explain(_words(error))) from error


def _words(error: TurnlogError) -> str:
    return (error.detail if isinstance(error, AgentFailed) else None) or str(error)
