"""How quickly a server that is told to stop says so to those who listen."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import httpx

import turnlog
from tests.runner.running import text
from turnlog.agents.protocol import Task
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.web.server import listening, port_of, run_server

TICK_S: Final = 0.01
BYE_S: Final = 1.0

HALF: Final = "half an answer"

STREAMS: Final = {"/api/threads/t/events": HALF, "/t/t/stream": HALF, "/api/changes": "reset"}
"""The streams of a server, and what each shows once it has begun."""


class Ticks:
    """Time that this process was given: on a machine too busy to run it no tick passes, whatever a clock says."""

    def __init__(self) -> None:
        self.count = 0
        self._over = threading.Event()

    @contextmanager
    def counted(self) -> Iterator[None]:
        thread = threading.Thread(target=self._tick)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            self.count += 1


class Listener:
    """One stream of a server, read until it ends."""

    def __init__(self, shows: str) -> None:
        self.begun = asyncio.Event()
        self.got = b""
        self._shows = shows.encode()

    async def listen(self, port: int, path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n\r\n"
        writer.write(head.encode())
        while part := await reader.read(65_536):
            self.got += part
            if self._shows in self.got:
                self.begun.set()
            if self.got.endswith(b"\r\n0\r\n\r\n"):
                break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_streams_end_within_a_second_of_the_signal() -> None:
    """SIGTERM ends every stream with a bye in less than a second of the server's own time, while an agent that is to
    end with it still cleans up and its turn is not settled (P9)."""
    ticks, seen = Ticks(), dict[str, bytes]()
    said_bye = asyncio.Event()
    cleaned_up: list[bool] = []
    ticks_to_bye: list[int] = []

    async def until_stopped(_task: Task) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await said_bye.wait()
            cleaned_up.append(True)

    async def stop_and_hear(port: int) -> None:
        listeners = {path: Listener(shows) for path, shows in STREAMS.items()}
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                (await client.post("/api/threads/t/turns", json={"content": "question"})).raise_for_status()
            heard = [asyncio.create_task(it.listen(port, path)) for path, it in listeners.items()]
            for listener in listeners.values():
                await listener.begun.wait()
        finally:
            before = ticks.count
            signal.raise_signal(signal.SIGTERM)
        await asyncio.gather(*heard)
        ticks_to_bye.append(ticks.count - before)
        assert not cleaned_up
        seen.update({path: it.got for path, it in listeners.items()})
        said_bye.set()

    with turnlog.open("memory://") as log, listening("127.0.0.1", 0) as sock, ticks.counted():
        hearing: list[asyncio.Task[None]] = []
        run_server(
            log,
            {"cleaning": lambda: ScriptedAgent(text(HALF), until_stopped)},
            agent="cleaning",
            sock=sock,
            ready=lambda: hearing.append(asyncio.ensure_future(stop_and_hear(port_of(sock)))),
        )
    hearing[0].result()
    for path, got in seen.items():
        assert b'event: bye\ndata: {"reason":"shutdown"}\n\n' in got, path
    assert ticks_to_bye[0] * TICK_S < BYE_S
