"""What a connection may cost: bytes and time of heads, bytes that wait for a slow client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from tests.runner.running import run
from turnlog.limits import HEAD_BYTES_MAX, WRITE_BUFFER_BYTES
from turnlog.web import connection
from turnlog.web.connection import ABORT, Connection

ASK = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Asked:
    """An application that says `hello`, a while later when it is asked for `/slow`, and never ends at `/stream`."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.full = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        gone = asyncio.create_task(until_gone(receive))
        if scope["path"] == "/slow":
            await asyncio.wait({gone}, timeout=0.1)
        while scope["path"] == "/stream" and not gone.done():
            part = {"type": "http.response.body", "body": b"x" * 10_000, "more_body": True}
            sending = asyncio.ensure_future(send(part))
            if not (await asyncio.wait({sending}, timeout=0.2))[0]:
                self.full.set()
            await sending
        gone.cancel()
        await send({"type": "http.response.body", "body": b"hello"})


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Asked, int, ServerState]]:
    """A listener that answers with `Asked`, its port, and what it knows of its connections."""
    app, state = Asked(), ServerState()
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False)
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    try:
        yield app, server.sockets[0].getsockname()[1], state
    finally:
        for each in list(state.connections):
            each.transport.abort()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        while state.connections:
            await asyncio.sleep(0)


async def exchanged(port: int, data: bytes) -> bytes:
    """What the server answers to these bytes until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionResetError:
        return b"reset"
    finally:
        await hung_up(writer)


async def hung_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def test_endless_head_is_refused() -> None:
    """A head that goes on beyond its limit is refused without being kept (P11)."""

    async def main() -> None:
        async with served() as (app, port, _):
            head = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (HEAD_BYTES_MAX + 1)
            assert await exchanged(port, head) in (b"reset", *REFUSED_431)
            assert app.scopes == []

    run(main())


REFUSED_431 = (b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",)


def test_head_below_the_limit_is_taken() -> None:
    """A head of nearly that size is answered, also the second one of its connection."""

    async def main() -> None:
        async with served() as (app, port, _):
            ask = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (HEAD_BYTES_MAX - 100) + b"\r\n\r\n"
            last = ask.replace(b"\r\nx:", b"\r\nconnection: close\r\nx:")
            assert (await exchanged(port, ask + last)).count(b"200 OK") == 2
            assert len(app.scopes) == 2

    run(main())


@pytest.mark.parametrize(
    ("said", "told"),
    [(b"", b""), (b"GET / HT", b"408"), (b"\r\n", b"408"), (ASK + b"GET / HT", b"408")],
)
def test_slow_head_is_given_up(said: bytes, told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not finish its head in time is sent away; one that says nothing is hung up on (P11)."""
    monkeypatch.setattr(connection, "HEAD_S", 0.05)

    async def main() -> None:
        async with served() as (_, port, state):
            answer = await exchanged(port, said)
            assert (told in answer) if told else answer == b""
            assert not state.connections

    run(main())


def test_long_answer_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a head is not the time of its answer: a stream lives for longer."""
    monkeypatch.setattr(connection, "HEAD_S", 0.02)

    async def main() -> None:
        async with served() as (_, port, _state):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK.replace(b"GET /", b"GET /slow"))
            assert b"hello" in await reader.readuntil(b"0\r\n\r\n")
            await hung_up(writer)

    run(main())


def test_slow_reader_holds_few_bytes_and_can_be_cut_off() -> None:
    """What waits for a client that reads nothing is bounded, and a stream can cut it off (P11)."""

    async def main() -> None:
        async with served() as (app, port, state):
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, ASK.replace(b"GET /", b"GET /stream"))
            while not app.scopes:
                await asyncio.sleep(0)
            transport = next(iter(state.connections)).transport
            await app.full.wait()
            assert transport.get_write_buffer_size() <= WRITE_BUFFER_BYTES + 20_000
            app.scopes[0]["extensions"][ABORT]()
            while state.tasks:
                await asyncio.sleep(0)
            client.close()

    run(main())
