"""One `codex app-server` process: started, shaken hands with, and ended without leaving anything behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from turnlog.agents.codex.binary import find_binary, read_version, without_ours
from turnlog.agents.codex.connection import Connection
from turnlog.agents.codex.credentials import without_credentials
from turnlog.errors import AgentFailed, StartFailed
from turnlog.events.clock import Clock
from turnlog.limits import CODEX_START_S, CODEX_STOP_S


def _own_version() -> str:
    try:
        return metadata.version("turnlog")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "0"


_CLIENT: Final = {
    "clientInfo": {"name": "turnlog", "title": None, "version": _own_version()},
    "capabilities": {
        "experimentalApi": True,  # raw items are given to nobody else
        "optOutNotificationMethods": [
            "account/rateLimits/updated",
            "remoteControl/status/changed",
            "thread/status/changed",
        ],
    },
}
_MARK: Final = "TURNLOG_CODEX"
"""The environment variable by which the commands of a process are known: they have sessions of their own."""

_ERRORS_BYTES: Final = 2_048
"""Bytes of the last that Codex wrote to stderr: told when it ends by itself."""

_READ_AHEAD_BYTES: Final = 256 * 1_024
"""Bytes that the event loop reads ahead of us."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_FIRST_WORD: Final = re.compile(r"\A\S+")

_started = count(1)


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run. `environment` holds all that the process gets, and decides by `CODEX_BIN` which program it is."""

    environment: Mapping[str, str]
    clock: Clock


class _Handshake(msgspec.Struct):
    userAgent: str = ""  # Codex's own name


class CodexProcess:
    """A running Codex. `connection` speaks with it, `version` is its own word."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, mark: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._transport, self._mark = process, transport, mark
        self._errors = b""
        self._draining = asyncio.create_task(self._drain(process.stderr), name="codex stderr")
        self._closing: asyncio.Task[None] | None = None
        self.connection = Connection(process.stdout, process.stdin)
        self.version = ""

    @classmethod
    async def start(cls, program: Program) -> CodexProcess:
        """Start one and shake hands. Raises `StartFailed`; then nothing of it is left."""
        binary = await asyncio.to_thread(find_binary, program.environment)
        mark = f"{os.getpid()}.{program.clock.now_us()}.{next(_started)}"
        try:
            process = await cls._spawn(binary, program.environment, mark)
        except OSError as error:
            raise StartFailed(reason="start_failed", detail=f"{binary} does not run: {error}") from error
        try:
            await process._shake_hands()
        except BaseException:
            await process.close()
            raise
        return process

    @classmethod
    async def _spawn(cls, binary: Path, environment: Mapping[str, str], mark: str) -> CodexProcess:
        """The same as `create_subprocess_exec`, which keeps the transport to itself: it must be closed in the end."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_READ_AHEAD_BYTES, loop=loop),
            binary,
            "app-server",
            start_new_session=True,
            env={**without_ours(environment), _MARK: mark},
        )
        return cls(Process(transport, protocol, loop), transport, mark)

    async def _shake_hands(self) -> None:
        try:
            reply = await self.connection.request("initialize", _CLIENT, seconds=CODEX_START_S)
        except AgentFailed as error:
            raise StartFailed(reason="start_failed", detail=await self.explain(error.detail or "")) from error
        if reply.error is not None:
            raise StartFailed(reason="start_failed", detail=f"Codex refused to begin: {reply.error.message}")
        # "turnlog/0.163.0 (...)": the name is ours, the version its own.
        self.version = read_version(_user_agent(reply.result).partition("/")[2])
        await self.connection.notify("initialized")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be spoken with."""
        return not self.connection.ended and self._closing is None

    async def explain(self, what: str) -> str:
        """`what`, how the process ended if it has, and its last words."""
        with suppress(TimeoutError):
            if self.connection.ended:
                await asyncio.wait_for(asyncio.shield(self._draining), CODEX_STOP_S)
                await asyncio.wait_for(self._process.wait(), CODEX_STOP_S)
        code = self._process.returncode
        ending = "" if code is None else f" ({_exit_words(code)})"
        errors = without_credentials(_last_words(self._errors))
        return f"{what}{ending}" + (f"; its last words: {errors}" if errors else "")

    def begin_close(self) -> asyncio.Task[None]:
        """End it: politely, so that it ends its commands; then by force, and its commands with it. Idempotent.

        Gives the task that does it. Even if that never begins, because the event loop ends, the process does.
        """
        if self._closing is None:
            self.connection.close_input()
            self._closing = asyncio.create_task(self._close(), name="codex closing")
            self._closing.add_done_callback(lambda _: self._kill())
        return self._closing

    async def close(self) -> None:
        """The same, and wait for it; it is carried through even when who waits is cancelled."""
        await asyncio.shield(self.begin_close())

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CODEX_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._kill()
        except asyncio.CancelledError:  # the event loop ends: there is no time for politeness
            self._kill()
            raise
        finally:
            await self._process.wait()
            if self._process.returncode != 0:
                await asyncio.to_thread(end_marked, self._mark)
            await self.connection.stop()
            self._draining.cancel()
            await asyncio.wait({self._draining})
            self._transport.close()

    def _kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _drain(self, errors: asyncio.StreamReader) -> None:
        """Read stderr always: a full pipe would stop Codex."""
        while data := await errors.read(_ERRORS_BYTES):
            self._errors = (self._errors + data)[-_ERRORS_BYTES:]


def _user_agent(result: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(result, type=_Handshake).userAgent
    except msgspec.DecodeError:
        return ""


def _last_words(errors: bytes) -> str:
    """What Codex wrote last, without colours. A word that was cut may be half a URL: it is left out."""
    text = errors.decode("utf-8", "replace")
    whole = _FIRST_WORD.sub("", text) if len(errors) == _ERRORS_BYTES else text
    return _COLOUR.sub("", whole).strip()


def _exit_words(code: int) -> str:
    return f"it ended with code {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"


def end_marked(mark: str) -> None:
    """Kill the commands of a Codex that was killed itself: each has a session of its own, and outlives it.

    They are known by the mark in their environment, where the system shows it (Linux).
    """
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
