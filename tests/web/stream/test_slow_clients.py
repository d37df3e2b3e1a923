"""Clients on real sockets that read slowly, or no more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from tests.journal.stores import message
from tests.runner.running import open_log, run, until
from tests.web.frames import FrameReader
from tests.web.listening import Held
from tests.web.sites import GUARD, HOST, site_of
from turnlog.journal.log import Log
from turnlog.limits import CONNECTION_KERNEL_BYTES, STREAM_PIECE_BYTES, WRITE_BUFFER_BYTES
from turnlog.web import keeper as streams
from turnlog.web.app import create_app
from turnlog.web.connection import Connection
from turnlog.web.site import Site
from turnlog.web.stream.frames import frame
from turnlog.web.stream.sse import EventStream

STALL_S = 0.5
CLIENT_BYTES = 8_192
ASK = f"GET /api/threads/t/events HTTP/1.1\r\nhost: {HOST}\r\naccept: text/event-stream\r\n\r\n".encode()


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[tuple[int, ServerState]]:
    """A listener for `app` as `turnlog serve` has it: its port, and what it knows of its connections."""
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], state
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks)


@asynccontextmanager
async def asking(port: int) -> AsyncIterator[socket.socket]:
    """A client that has asked for a stream, and takes little at once."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CLIENT_BYTES)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        await asyncio.get_running_loop().sock_sendall(client, ASK)
        yield client


def impatient(log: Log, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site that cuts clients off soon."""
    monkeypatch.setattr(streams.Streams.__init__, "__kwdefaults__", {"ping_s": 0.2, "stall_s": STALL_S})
    return site_of(log)


def test_half_open_client_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a client that stops reading is cut off after the limit, and until then holds a bounded number of bytes."""
    made = 0

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal made
        while True:
            piece = frame("event", b"x" * 10_000)
            made += len(piece)
            yield piece
            await asyncio.sleep(0)

    async def main(log: Log) -> None:
        site = impatient(log, monkeypatch)

        async def app(scope: object, receive: object, send: object) -> None:
            await EventStream(site, endless())(scope, receive, send)  # type: ignore[arg-type]

        async with listening(app) as (port, state), asking(port) as client:
            await until(lambda: made > 0)
            await until(lambda: len(site.streams) == 0)
            await until(lambda: not state.connections)
            assert made < WRITE_BUFFER_BYTES + 4 * (CONNECTION_KERNEL_BYTES + CLIENT_BYTES) + STREAM_PIECE_BYTES
            with suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(client, 65_536):
                    continue

    with open_log("memory", tmp_path) as log:
        run(main(log))


def test_slow_client_gets_everything(tmp_path: Path) -> None:
    """C40, P9: a client that reads a little now and then is pushed out of no stream, and gets each event once and in
    order, while others are at the head."""

    async def main(log: Log) -> None:
        await log.append_message("t", message("hello"))
        site = site_of(log)
        async with listening(create_app(site, guard=GUARD)) as (port, _), asking(port) as client:
            for number in range(200):
                await log.append_message("t", message(f"{number} " + "long " * 400))
            held, reader, rest = Held(), FrameReader(), b""
            while not held.is_all_of(log, "t"):
                await asyncio.sleep(0.001)
                data = await asyncio.get_running_loop().sock_recv(client, 16_384)
                assert data, "the server hung up"
                rest += data
                pieces, rest = chunks(rest)
                for frame_ in reader.feed(pieces):
                    held.take(frame_)
            assert len(held.events) == log.thread("t").head
            client.shutdown(socket.SHUT_RDWR)
            await until(lambda: len(site.streams) == 0)

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def chunks(data: bytes) -> tuple[bytes, bytes]:
    """The bodies of the whole chunks at the beginning of an answer, and what is left."""
    if data.startswith(b"HTTP/1.1 "):
        head, end, rest = data.partition(b"\r\n\r\n")
        return chunks(rest) if end else (b"", head)
    body = b""
    while b"\r\n" in data:
        size, _, rest = data.partition(b"\r\n")
        if len(rest) < int(size, 16) + 2:
            break
        body += rest[: int(size, 16)]
        data = rest[int(size, 16) + 2 :]
    return body, data
