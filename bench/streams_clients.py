"""The clients of the measurement of streams: many connections in one process, which takes little of a core.

Prints one JSON document when its time is over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["quick", "slow", "half-open", "page"]

PAUSE_US = 100_000
"""Microseconds between two updates of a turn."""

WARM_S = 5
"""Seconds after the last one has connected that are not measured: what was written before comes at once."""

AFTER_S = 6
"""Seconds that clients stay beyond their time: a slow one gets to read once more, and the server can be asked about
them meanwhile."""

_AWAKE_S = 1.0
_SLOW_READS_S, _SLOW_RESTS_S = 1.0, 4.0
_HALF_OPEN_AFTER_S = 2.0
_HALF_OPEN_BUFFER_BYTES = 8_192


_STAMP = re.compile(rb"@(\d+)@")
_STAMP_BYTES = 24
"""Bytes that a stamp does not exceed: it may come in two halves."""


@dataclass
class Window:
    """The texts that count: those due from one moment until another, in µs. Nothing is due before it is opened."""

    from_us: int = 0
    until_us: int = 0

    def open(self, from_s: float, seconds: float) -> int:
        """Begin at a time of the clock; the number of texts of one turn that are due in the window."""
        texts = int(seconds * 1e6) // PAUSE_US
        self.from_us = int(from_s * 1e6)
        self.until_us = self.from_us + texts * PAUSE_US
        return texts


@dataclass
class Seen:
    """What the clients of one kind have seen: how late texts came, in ms from when they were due, each text once a
    client; and how many connections were refused or ended."""

    delays_ms: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    ended: int = 0


class Client(asyncio.Protocol):
    """One connection. A slow one reads now and then, a half-open one soon reads no more."""

    def __init__(self, kind: Kind, thread: str, window: Window, seen: Seen) -> None:
        self._kind, self._thread, self._window, self._seen = kind, thread, window, seen
        self._last_us = 0
        self._tail = b""
        self._status = b""
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        port = transport.get_extra_info("peername")[1]
        path = f"/t/{self._thread}/stream" if self._kind == "page" else f"/api/threads/{self._thread}/events"
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n"
        transport.write(head.encode())
        if self._kind == "half-open":
            asyncio.get_running_loop().call_later(_HALF_OPEN_AFTER_S, self._rest)
        elif self._kind == "slow":
            self._rest()

    def awake(self) -> None:
        """Read on at last, and learn whether the connection has been cut off meanwhile."""
        if not self._over:
            self._transport.resume_reading()

    def _rest(self) -> None:
        if not self._over:
            self._transport.pause_reading()
            if self._kind == "slow":
                asyncio.get_running_loop().call_later(_SLOW_RESTS_S, self._read)

    def _read(self) -> None:
        if not self._over:
            self._transport.resume_reading()
            asyncio.get_running_loop().call_later(_SLOW_READS_S, self._rest)

    def data_received(self, data: bytes) -> None:
        """Note how late each text is that was not there before."""
        if not self._status:
            self._status = data[:12]
            self._seen.refused += self._status != b"HTTP/1.1 200"
        now = time.monotonic_ns() // 1_000
        data = self._tail + data
        self._tail = data[-_STAMP_BYTES:]
        for stamp in map(int, _STAMP.findall(data)):
            if stamp > self._last_us:  # else it is told again, in a text that is sent whole
                self._last_us = stamp
                if self._window.from_us <= stamp < self._window.until_us:
                    self._seen.delays_ms[(now - stamp) // 1_000] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it has ended."""
        self._over = True
        self._seen.ended += 1


async def watch(port: int, threads: int, clients: dict[Kind, int], seconds: float) -> tuple[dict[Kind, Seen], int]:
    """Connect all of them, spread over the threads, and look until `seconds` after: what they saw, and how many texts
    each of them was due."""
    loop, window = asyncio.get_running_loop(), Window()
    seen: dict[Kind, Seen] = {kind: Seen() for kind in clients}
    half_open: list[Client] = []
    number = 0
    for kind, count in clients.items():
        for place in range(count):
            # Pages are made per thread, so they are looked at in pairs, as by two tabs.
            thread = f"load-{(place // 2 if kind == 'page' else number) % threads}"
            sock = socket.socket()
            if kind == "half-open":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HALF_OPEN_BUFFER_BYTES)
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", port))
            client = Client(kind, thread, window, seen[kind])
            await loop.create_connection(lambda client=client: client, sock=sock)  # type: ignore[misc]
            half_open += [client] if kind == "half-open" else []
            number += 1
            if number % 50 == 0:
                await asyncio.sleep(0.1)
    due = window.open(loop.time() + WARM_S, seconds - WARM_S)
    await asyncio.sleep(seconds + AFTER_S)
    for client in half_open:
        client.awake()
    await asyncio.sleep(_AWAKE_S)
    return seen, due


def main() -> None:
    """Watch, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("port", "threads", "quick", "slow", "half-open", "page"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    clients: dict[Kind, int] = {
        "quick": given.quick,
        "slow": given.slow,
        "half-open": given.half_open,
        "page": given.page,
    }
    seen, due = asyncio.run(watch(given.port, given.threads, clients, given.seconds))
    kinds = {kind: {**asdict(it), "delays_ms": sorted(it.delays_ms.items())} for kind, it in seen.items()}
    sys.stdout.write(json.dumps({"due": due, "kinds": kinds}) + "\n")


if __name__ == "__main__":
    main()
