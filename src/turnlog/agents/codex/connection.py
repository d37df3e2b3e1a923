"""The pipe to one Codex process: requests with deadlines, and everything else in the order it came."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from turnlog.agents.codex.jsonrpc import (
    METHOD_UNKNOWN,
    Asked,
    Lines,
    Message,
    Reply,
    RpcId,
    Told,
    Unreadable,
    error_line,
    notification_line,
    read_message,
    request_line,
    result_line,
)
from turnlog.errors import AgentFailed, TooLarge
from turnlog.limits import CODEX_INBOX_BYTES, CODEX_REQUEST_S

Incoming = Asked | Told | Unreadable

_READ_BYTES: Final = 64 * 1_024


class Woken:
    """What `next` gives to a reader that was woken."""


class Connection:
    """Reads all the time, so that replies are never late; what nobody takes yet waits in order.

    It stops reading while much is waiting and no reply is: then Codex itself has to wait, and loses nothing.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._lines = Lines()
        self._inbox: deque[tuple[Incoming, int]] = deque()
        self._inbox_bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._replies: dict[RpcId, asyncio.Future[Reply]] = {}
        self._last_id = 0
        self._too_large: TooLarge | None = None
        self._woken = False
        self.ended = False
        self._reading = asyncio.create_task(self._read(), name="codex reader")

    # --- sending ------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any, *, seconds: float = CODEX_REQUEST_S) -> Reply:
        """Send a request and wait for its reply, which may be a refusal.

        Raises `AgentFailed`: `timed_out` when no reply comes in time (Codex says nothing to a line it cannot read), and
        `transport_closed` when the pipe ends first. `InvalidInput` when the request has no UTF-8.
        """
        self._last_id += 1
        line = request_line(self._last_id, method, params)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[self._last_id] = future
        self._room.set()
        if self.ended:
            future.cancel()
        id_ = self._last_id
        try:
            async with asyncio.timeout(seconds):
                await self._send(line)
                await asyncio.wait({future})
        except TimeoutError:
            detail = f"Codex did not answer {method} within {seconds:g} s"
            raise AgentFailed(reason="timed_out", detail=detail) from None
        finally:
            del self._replies[id_]
        if future.cancelled():
            raise AgentFailed(reason="transport_closed", detail=f"Codex ended before it answered {method}")
        return future.result()

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._send(notification_line(method))

    async def answer(self, id_: RpcId, result: Any) -> None:
        """Answer a request of Codex."""
        await self._send(result_line(id_, result))

    async def refuse(self, asked: Asked) -> None:
        """Tell Codex that this request of its is not served here."""
        await self._send(error_line(asked.id, METHOD_UNKNOWN, f"{asked.method} is not served"))

    async def _send(self, line: bytes) -> None:
        """Write a line. That the other side is gone is told by its end, not by a failed write."""
        if self.ended or self._writer.is_closing():
            return
        try:
            self._writer.write(line)
            await self._writer.drain()
        except ConnectionError:
            self._writer.close()

    # --- receiving ----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the one who waits in `next` go on with nothing."""
        self._woken = True
        self._changed.set()

    async def next(self) -> Incoming | Woken | None:
        """The next request or notification of Codex, in order; None once the pipe has ended and all is taken.

        Raises `TooLarge` when it ended because a line was longer than `CODEX_LINE_BYTES_MAX`.
        """
        while not self._inbox:
            if self._too_large is not None:
                raise self._too_large
            if self._woken:
                self._woken = False
                return Woken()
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        message, size = self._inbox.popleft()
        self._inbox_bytes -= size
        self._room.set()
        return message

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(_READ_BYTES):
                for line in self._lines.feed(data):
                    self._take(read_message(line), len(line))
                while self._inbox_bytes > CODEX_INBOX_BYTES and not self._replies:
                    self._room.clear()
                    await self._room.wait()
        except TooLarge as error:
            self._too_large = error
        finally:
            self.ended = True
            for future in self._replies.values():
                future.cancel()
            self._changed.set()

    def _take(self, message: Message, size: int) -> None:
        if isinstance(message, Reply):
            future = self._replies.get(message.id)
            if future is not None and not future.done():
                future.set_result(message)
            return
        self._inbox.append((message, size))
        self._inbox_bytes += size
        self._changed.set()

    # --- ending -------------------------------------------------------------------------------------------------

    def close_input(self) -> None:
        """Close our side: Codex ends by itself, and its commands with it."""
        self._writer.close()

    async def stop(self) -> None:
        """Read no more."""
        self._reading.cancel()
        await asyncio.wait({self._reading})
