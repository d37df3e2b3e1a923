"""One HTTP connection: uvicorn's, with bounds on heads, time, and what waits for a slow client."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any, Final

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from turnlog.limits import CONNECTION_DEAD_MS, CONNECTION_KERNEL_BYTES, HEAD_BYTES_MAX, HEAD_S, WRITE_BUFFER_BYTES
from turnlog.web.http_problems import last_answer

ABORT: Final = "turnlog.abort"
"""The ASGI extension that cuts the connection off: a callable without arguments."""

_SOCKET_OPTIONS: Final = {"TCP_NOTSENT_LOWAT": CONNECTION_KERNEL_BYTES, "TCP_USER_TIMEOUT": CONNECTION_DEAD_MS}


class Connection(HttpToolsProtocol):
    """A client that is slow to ask is sent away, and one that is slow to read holds a bounded number of bytes."""

    _head_bytes = 0
    _in_head = True
    _head_end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # Who is one too many is answered here: uvicorn's own answer is no problem document.
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        _bound_kernel(transport.get_extra_info("socket"))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more to wait for."""
        self._head_is_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; as long as they are of a head, they are counted."""
        if self._in_head:
            self._await_head()
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(431)

    def on_message_begin(self) -> None:
        """See `HttpToolsProtocol`."""
        super().on_message_begin()
        # It may have come behind the request before it, in the same bytes.
        self._head_bytes = max(self._head_bytes, 1)
        self._await_head()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """The head is whole: it may take its time from here on, as others look after that."""
        self._in_head = False
        self._head_is_over()
        self.app = self.config.loaded_app
        if self._head_length() > HEAD_BYTES_MAX:  # which is not known before when it came in few reads
            self.app = partial(_refusing, 431)
        elif self._connections_max is not None and len(self.connections) >= self._connections_max:
            self.app = partial(_refusing, 503)
        super().on_headers_complete()

    def _head_length(self) -> int:
        """About the bytes of the head that has just come: what was read at once may hold more than it."""
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def on_message_complete(self) -> None:
        """What comes next is another head."""
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def send_400_response(self, msg: str) -> None:
        """See `HttpToolsProtocol`: this is no HTTP, or the end of a body is none."""
        cycle: RequestResponseCycle | None = self.cycle
        self._refuse(400, unanswered=not self._in_head and cycle is not None and not cycle.response_started)

    def _await_head(self) -> None:
        if self._head_end is None:
            self._head_end = self.loop.call_later(HEAD_S, self._refuse, 408)

    def _head_is_over(self) -> None:
        if self._head_end is not None:
            self._head_end.cancel()
            self._head_end = None

    def _refuse(self, status: int, *, unanswered: bool = False) -> None:
        """Answer a head that is too large or too slow or none at all, unless another answer is on its way, and hang up.

        `unanswered` tells that it is the request in hand that this answers. Who said nothing at all is told nothing: a
        browser opens connections ahead.
        """
        self._head_is_over()
        cycle: RequestResponseCycle | None = self.cycle
        if self._head_bytes and (unanswered or cycle is None or cycle.response_complete):
            headers, body = last_answer(status)
            lines = b"".join(b"%s: %s\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
        self.transport.close()


async def _refusing(status: int, _scope: Scope, _receive: Receive, send: Send) -> None:
    """The application of a request that no other one gets to see."""
    headers, body = last_answer(status)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _bound_kernel(sock: Any) -> None:
    """Where the system can: let it keep little that is not sent, and give up a peer that is gone without a word."""
    for name, value in _SOCKET_OPTIONS.items():
        if hasattr(socket, name) and sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
