"""Server-sent events: the response that streams frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnlog.errors import StoreClosed, StoreError
from turnlog.limits import STREAM_RETRY_MS
from turnlog.web.connection import ABORT
from turnlog.web.site import Site
from turnlog.web.stream.frames import frame

_PING: Final = b": ping\n\n"
_RETRY: Final = b"retry: %d\n\n" % STREAM_RETRY_MS
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(Response):
    """Sends what `source` yields, each piece one or more whole frames, until it ends or the client goes.

    A silent stream is pinged, a client that takes nothing for too long is cut off (`web.keeper`). When the server
    stops or the log is closed the stream ends with `event: bye`, reason `shutdown`; when the store cannot be read, with
    reason `store`: the client comes back with its cursor in both cases. `source` is closed however the stream ends.
    """

    def __init__(self, site: Site, source: AsyncGenerator[bytes, None]) -> None:
        self.status_code = 200
        self.media_type = "text/event-stream"
        self.background = None
        self.init_headers(_HEADERS)
        self._streams = site.streams
        self._source = source
        self._bell = asyncio.Event()
        self._abort: Callable[[], object]
        self._cut_off = False
        self.idle_since = self._streams.clock.boot_s()
        self.sending_since: float | None = None

    def ring(self) -> None:
        """See `Stream`."""
        self._bell.set()

    def abort(self) -> None:
        """See `Stream`."""
        self._cut_off = True
        self._abort()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream; returns when the stream has ended."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await self._source.aclose()
            await send({"type": "http.response.body"})
            return
        self._send = send
        # Under a server that cannot cut connections the stream at least ends.
        self._abort = (scope.get("extensions") or {}).get(ABORT) or _this_task().cancel
        gone, pump = asyncio.create_task(_disconnected(receive)), asyncio.create_task(self._pump())
        for task in (gone, pump):
            task.add_done_callback(lambda _: self.ring())
        try:
            async with self._streams.looked_after(self):
                await self._attend(gone, pump)
                await _cancelled(pump)
                last = _farewell(pump)
                if not gone.done():
                    await self._last(last)
        finally:
            await _cancelled(gone, pump)

    async def _attend(self, *tasks: asyncio.Task[None]) -> None:
        """Ping while nothing comes; returns when a task is done or the server stops."""
        while not (self._streams.stop.is_set() or any(task.done() for task in tasks)):
            await self._bell.wait()
            self._bell.clear()
            if self._streams.clock.boot_s() - self.idle_since >= self._streams.ping_s and self.sending_since is None:
                await self._put(_PING)

    async def _pump(self) -> None:
        async with aclosing(self._source) as source:
            await self._put(_RETRY)
            async for piece in source:
                await self._put(piece)
                if self._cut_off:  # a connection that is gone takes everything at once
                    return

    async def _put(self, piece: bytes) -> None:
        now = self._streams.clock.boot_s()
        if self.sending_since is None:  # else a ping waits already, for longer
            self.sending_since = now
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self.idle_since, self.sending_since = now, None

    async def _last(self, piece: bytes) -> None:
        self.sending_since = self._streams.clock.boot_s()
        await self._send({"type": "http.response.body", "body": piece, "more_body": False})


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait for their ends; a task's own error is left in it."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _farewell(pump: asyncio.Task[None]) -> bytes:
    """What a stream that the client did not leave ends with: nothing when its source had no more to say."""
    error = StoreClosed() if pump.cancelled() else pump.exception()
    if error is None:
        return b""
    if not isinstance(error, StoreError):
        raise error
    reason = b"shutdown" if isinstance(error, StoreClosed) else b"store"
    return frame("bye", b'{"reason":"%s"}' % reason)
