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
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["quick", "slow", "half-open", "page"]

_STAMP = re.compile(rb"@(\d+)@")
WARM_S = 5
"""Seconds after connecting that are not measured: what was written before comes at once."""

AFTER_S = 3
"""Seconds that clients stay beyond their time, so that the server can be asked about them meanwhile."""

_SLOW_READS_S, _SLOW_RESTS_S = 1.0, 4.0
_HALF_OPENAFTER_S = 2.0
_HALF_OPEN_BUFFER_BYTES = 8_192


@dataclass
class Seen:
    """What all clients have seen: how late text came, in ms, and how many connections ended by kind."""

    delays_ms: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    received_bytes: int = 0


class Client(asyncio.Protocol):
    """One connection. A slow one reads now and then, a half-open one soon reads no more."""

    def __init__(self, kind: Kind, thread: str, seen: Seen) -> None:
        self._kind, self._thread, self._seen = kind, thread, seen
        self._from_us = 0
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
        self._from_us = time.monotonic_ns() // 1_000 + WARM_S * 1_000_000
        if self._kind == "half-open":
            asyncio.get_running_loop().call_later(_HALF_OPENAFTER_S, self._rest)
        elif self._kind == "slow":
            self._rest()

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
        """Note how late each text is."""
        if not self._status:
            self._status = data[:12]
            self._seen.refused += self._status != b"HTTP/1.1 200"
        self._seen.received_bytes += len(data)
        if self._kind == "quick":
            now = time.monotonic_ns() // 1_000
            for stamp in map(int, _STAMP.findall(data)):
                if stamp > self._from_us:
                    self._seen.delays_ms[(now - stamp) // 1_000] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it has ended."""
        self._over = True
        self._seen.ended[self._kind] += 1


async def watch(port: int, threads: int, clients: dict[Kind, int], seconds: float) -> Seen:
    """Connect all of them, spread over the threads, and look for `seconds`."""
    loop, seen = asyncio.get_running_loop(), Seen()
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
            await loop.create_connection(lambda kind=kind, thread=thread: Client(kind, thread, seen), sock=sock)  # type: ignore[misc]
            number += 1
            if number % 50 == 0:
                await asyncio.sleep(0.1)
    await asyncio.sleep(seconds + AFTER_S)
    return seen


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
    seen = asyncio.run(watch(given.port, given.threads, clients, given.seconds))
    document = {
        "delays_ms": {str(ms): count for ms, count in sorted(seen.delays_ms.items())},
        "refused": seen.refused,
        "ended": seen.ended,
        "received_bytes": seen.received_bytes,
        "cpu_s": time.process_time(),
    }
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
