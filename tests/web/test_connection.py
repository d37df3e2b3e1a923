"""What a connection may cost: bytes and time of heads, bytes that wait for a slow client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from tests.runner.running import run
from tests.web.calling import check_value
from turnlog.limits import HEAD_BYTES_MAX, WRITE_BUFFER_BYTES
from turnlog.web import connection
from turnlog.web.connection import ABORT, Connection
from turnlog.web.http_problems import HEADERS

ASK = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Asked:
    """An application that says `hello`, a while later when it is asked for `/slow`, and never ends at `/stream`."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.full = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        gone = asyncio.create_task(until_gone(receive))
        if scope["path"] == "/slow":
            await asyncio.wait({gone}, timeout=0.1)
        if scope["path"] == "/unread":
            await gone
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
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
async def served(*, connections_max: int | None = None) -> AsyncIterator[tuple[Asked, int, ServerState]]:
    """A listener that answers with `Asked`, its port, and what it knows of its connections."""
    app, state = Asked(), ServerState()
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        limit_concurrency=connections_max,
    )
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
            answer = await exchanged(port, head)
            assert answer == b"reset" or status_of(answer) == 431
            assert app.scopes == []

    run(main())


@pytest.mark.parametrize("before", [b"", ASK])
@pytest.mark.parametrize("many", [1, 50])
def test_large_head_that_comes_at_once_is_refused(before: bytes, many: int) -> None:
    """A head over the limit is refused also when all of it comes in one read, behind another request or not, and as
    one long line or as many (P11)."""

    async def main() -> None:
        async with served() as (app, port, _):
            lines = (b"x: " + b"a" * (HEAD_BYTES_MAX // many) + b"\r\n") * many
            answer = await exchanged(port, before + b"GET / HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n")
            assert len(app.scopes) == (1 if before else 0)
            if b"431" in answer:  # it is told, if it was read whole and not hung up on in its middle
                assert status_of(answer[answer.rindex(b"HTTP/1.1") :]) == 431

    run(main())


def status_of(answer: bytes) -> int:
    """The status of an answer that ends a connection; it must be whole, a problem document, and safe to look at."""
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    status = int(line.split()[1])
    assert headers.items() >= {**HEADERS, "connection": "close", "content-length": str(len(body))}.items()
    assert headers["content-type"] == "application/problem+json"
    assert ("retry-after" in headers) is (status == 503)
    document = json.loads(body)
    check_value("Problem", document)
    assert document["status"] == status and document["detail"] != document["title"]
    return status


def test_what_is_no_http_is_told_so() -> None:
    """Bytes that are no request, and a body that is not framed, are answered 400; what comes behind a request that is
    being answered is not taken for the answer to that (P11)."""

    async def main() -> None:
        async with served() as (app, port, _):
            assert status_of(await exchanged(port, b"\x16\x03\x01 hello\r\n\r\n")) == 400
            assert app.scopes == []
            chunked = ASK.replace(b"GET /", b"POST /unread").replace(b"host", b"transfer-encoding: chunked\r\nhost")
            assert status_of(await exchanged(port, chunked + b"no number\r\n")) == 400
            assert await exchanged(port, ASK + b"\x16\x03") == b""

    run(main())


def test_a_connection_too_many_is_told_to_come_back() -> None:
    """Beyond the most connections that a server takes a request is answered 503 and when to come again, and the next
    one is taken once another has gone (P11)."""

    async def main() -> None:
        async with served(connections_max=2) as (app, port, state):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK)
            assert b"200 OK" in await reader.readuntil(b"0\r\n\r\n")
            assert status_of(await exchanged(port, ASK)) == 503
            assert len(app.scopes) == 1
            await hung_up(writer)
            while state.connections:
                await asyncio.sleep(0)
            assert b"200 OK" in await exchanged(port, ASK.replace(b"host", b"connection: close\r\nhost"))

    run(main())


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
    [(b"", False), (b"GET / HT", True), (b"\r\n", True), (ASK + b"GET / HT", True)],
)
def test_slow_head_is_given_up(said: bytes, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not finish its head in time is sent away; one that says nothing is hung up on (P11)."""
    monkeypatch.setattr(connection, "HEAD_S", 0.05)

    async def main() -> None:
        async with served() as (_, port, state):
            answer = await exchanged(port, said)
            assert status_of(answer.rpartition(b"0\r\n\r\n")[2]) == 408 if told else answer == b""
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
