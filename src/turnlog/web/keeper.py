"""The open streams of one server, and the one task that looks after all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from turnlog.events.clock import Clock
from turnlog.limits import STREAM_BYE_S, STREAM_PING_S, STREAM_STALL_S


class Stream(Protocol):
    """What is looked after."""

    idle_since: float
    """When it last sent something, in seconds of the clock."""

    sending_since: float | None
    """Since when a piece waits to be taken by the client, None while nothing waits."""

    def ring(self) -> None:
        """Look whether it is time to ping, or to stop."""
        ...

    def abort(self) -> None:
        """Cut the client off, whatever it was sent."""
        ...


class Streams:
    """Rings streams that were silent for `ping_s`, and all of them when `stop` is set; aborts clients that take nothing
    for `stall_s` (or, once `stop` is set, for `STREAM_BYE_S`)."""

    def __init__(
        self, stop: asyncio.Event, clock: Clock, *, ping_s: float = STREAM_PING_S, stall_s: float = STREAM_STALL_S
    ) -> None:
        self.stop = stop
        self.clock = clock
        self.ping_s = ping_s
        self._stall_s = stall_s
        self._open: set[Stream] = set()
        self._keeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @asynccontextmanager
    async def looked_after(self, stream: Stream) -> AsyncIterator[None]:
        """`stream` is open for the time of an `async with`."""
        self._open.add(stream)
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="turnlog-streams")
        try:
            yield
        finally:
            self._open.discard(stream)
            if not self._open and self._keeper is not None:
                keeper, self._keeper = self._keeper, None
                keeper.cancel()
                await asyncio.wait([keeper])

    async def _keep(self) -> None:
        while not self.stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), min(self.ping_s, self._stall_s) / 4)
            self.look()
        await asyncio.sleep(STREAM_BYE_S)
        for stream in self._open:
            stream.abort()

    def look(self) -> None:
        """Ring or abort those whose time has come."""
        now, stopping = self.clock.boot_s(), self.stop.is_set()
        for stream in self._open:
            if stream.sending_since is not None and now - stream.sending_since >= self._stall_s:
                stream.abort()
            elif stopping or now - stream.idle_since >= self.ping_s:
                stream.ring()
