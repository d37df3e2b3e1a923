"""HTTP/1.1 on a socket, one connection a request: no pool that would hide when a server is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple


class Gone(Exception):
    """The server went away."""


class Head(NamedTuple):
    """The beginning of an answer; names of headers are lower case."""

    status: int
    headers: dict[str, str]


class Exchange:
    """One request on its way. Reading raises `Gone` when the answer ends before it is whole."""

    def __init__(self, reader: asyncio.StreamReader, head: Head) -> None:
        self.head = head
        self._reader = reader

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        if self.head.headers.get("transfer-encoding") != "chunked":
            yield await _exactly(self._reader, int(self.head.headers["content-length"]))
            return
        while size := int(await _line(self._reader), 16):
            yield (await _exactly(self._reader, size + 2))[:-2]

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.pieces()])


@asynccontextmanager
async def exchange(
    port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> AsyncIterator[Exchange]:
    """Send a request; inside, the beginning of the answer has come. Leaving cuts the connection. Raises `Gone`."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise Gone from error
    try:
        length = {} if body is None else {"content-length": str(len(body))}
        fields = {"host": f"127.0.0.1:{port}", "connection": "close", **length, **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + (body or b""))
        yield Exchange(reader, await _head(reader))
    finally:
        writer.transport.abort()


async def _head(reader: asyncio.StreamReader) -> Head:
    _, status, *_ = (await _line(reader)).split(" ")
    headers: dict[str, str] = {}
    while line := await _line(reader):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Head(int(status), headers)


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readline()
    except OSError as error:
        raise Gone from error
    if not line.endswith(b"\r\n"):
        raise Gone
    return line[:-2].decode("latin-1")


async def _exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except (OSError, asyncio.IncompleteReadError) as error:
        raise Gone from error
