"""The guard: what reaches the routes comes from this server's own pages or from a program, never from another site.

A web page of anybody can make a browser send requests to this machine. So every request names a host that is ours (a
name that was pointed at us by DNS is not), what a browser says about where it comes from must be ourselves, and where
others can reach the port at all they need the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.limits import REQUEST_BYTES_MAX, REQUEST_DISCARDED_BYTES_MAX, REQUEST_S
from turnlog.web.counts import Counts
from turnlog.web.http_problems import HEADER_LINES, retry_after
from turnlog.web.problems import http_problem, unexpected_problem
from turnlog.web.site import site_of

_logger = logging.getLogger("turnlog")

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS: Final = SAFE | {"POST", "PUT", "PATCH", "DELETE"}

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_COOKIE_S: Final = 30 * 24 * 3_600


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Who is let in. `hosts` are the values of the Host header that mean us, None for any.

    With a `token` every request but `/healthz` shows it, as a bearer or by the cookie that `/?token=` gives; `cookie`
    is that cookie's name: cookies do not tell ports apart.
    """

    hosts: frozenset[str] | None
    token: str | None = None
    cookie: str = "turnlog"

    def check(self, request: Request) -> Response | None:
        """Raise `HTTPException` for a request that is not let in; an answer where that is all there is to do."""
        self._check_host(request)
        _check_origin(request)
        path = request.scope["path"]
        if self.token is None or path == "/healthz":
            return None
        given = request.query_params.get("token")
        if given is not None and path == "/" and request.method in SAFE:
            return self._admit(request, given)
        if not self._is_known(request):
            raise HTTPException(
                401, "This server needs its token: open /?token=TOKEN once.", {"WWW-Authenticate": "Bearer"}
            )
        return None

    def _check_host(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or (self.hosts is not None and hosts[0].lower() not in self.hosts):
            raise HTTPException(421, "The Host header does not name this server.")

    def _is_known(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_token(bearer.strip())
        return hmac.compare_digest(request.cookies.get(self.cookie, "").encode(), self._pass().encode())

    def _is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def _pass(self) -> str:
        """What the cookie holds: it opens this server, and does not tell the token."""
        return hmac.new((self.token or "").encode(), b"turnlog cookie", hashlib.sha256).hexdigest()

    def _admit(self, request: Request, given: str) -> Response:
        """Take the token out of the address, so that no history and no screenshot keeps it."""
        if not self._is_token(given):
            raise HTTPException(401, "This is not the token of this server.", {"WWW-Authenticate": "Bearer"})
        rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "token"])
        answer = RedirectResponse(f"/?{rest}" if rest else "/", 303)
        answer.set_cookie(self.cookie, self._pass(), max_age=_COOKIE_S, httponly=True, samesite="strict")
        return answer


def loopback_hosts(port: int, host: str = "localhost") -> frozenset[str]:
    """The Host headers by which a browser on this machine names a server on its loopback address, or at `host`."""
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host.lower()}
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set()))


def _check_origin(request: Request) -> None:
    """Refuse what another site made a browser send. A program that is no browser says nothing of where it comes from.

    A link on another site may lead to a page: what is read so is seen by nobody but the person who followed it.
    """
    origin, site, mode, dest = (
        _only(request, name) for name in ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    )
    if (mode, dest) == ("navigate", "document") and request.method in SAFE:
        return
    host = request.headers["host"].lower()
    if origin is not None and origin.lower() not in {f"{scheme}://{host}" for scheme in _SCHEMES}:
        raise HTTPException(403, "This request comes from another site.")
    if site not in (None, "same-origin", "none"):
        raise HTTPException(403, "This request comes from another site.")


def _only(request: Request, name: str) -> str | None:
    """The value of a header that something is decided by: of two, others might go by the other one."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise HTTPException(400, f"The header {name} is given more than once.")
    return values[0] if values else None


_SCHEMES: Final = ("http", "https")


class Guarding:
    """The guard as ASGI middleware around everything: checks, whole bodies, headers, counts, defects as answers."""

    def __init__(self, app: ASGIApp, *, guard: Guard, counts: Counts) -> None:
        self._app = app
        self._guard = guard
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answering = _Answering(send, self._counts, request)
        try:
            await self._pass_on(request, receive, answering)
        except HTTPException as refusal:
            answer = await http_problem(request, refusal)
            await answer(scope, receive, answering)
        except _Gone:
            return
        except Exception:
            _logger.exception("a request met a defect: %s %r", request.method, scope["path"])
            if answering.begun:
                raise
            answer = await unexpected_problem(request)
            await answer(scope, receive, answering)

    async def _pass_on(self, request: Request, receive: Receive, answering: _Answering) -> None:
        answer = self._guard.check(request)
        if answer is not None:
            await answer(request.scope, receive, answering)
        elif request.method in SAFE:
            await self._app(request.scope, receive, answering)
        else:
            body = await _whole_body(request, receive)
            answering.unread = False
            _check_type(request, body)
            await self._app(request.scope, _given(body, receive), answering)


class _Answering:
    """Sends an answer with the headers that every answer has, and counts it.

    While the request's body is `unread` the answer ends the connection: else who sends it could go on for ever.
    """

    def __init__(self, send: Send, counts: Counts, request: Request) -> None:
        self._send = send
        self._counts = counts
        self._method = request.method if request.method in _METHODS else "other"
        self.unread = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._counts.answers[self._method, message["status"]] += 1
            headers = list(message.get("headers", ()))
            if self.unread:
                headers.append((b"connection", b"close"))
            there = {name.lower() for name, _ in headers}
            message = {**message, "headers": [*headers, *(pair for pair in HEADER_LINES if pair[0] not in there)]}
        await self._send(message)


# --- bodies ----------------------------------------------------------------------------------------------------


class _Gone(Exception):
    """The client went away before its request was whole: there is nobody to answer."""


async def _whole_body(request: Request, receive: Receive) -> bytes:
    """The body, so that no route waits for a client, and no end of the server.

    Raises `HTTPException` for one that is too large, too slow, or not whole when the server stops.
    """
    length = request.headers.get("content-length", "0")
    if int(length) > REQUEST_BYTES_MAX and "expect" in request.headers:
        raise _too_large()
    reading = asyncio.create_task(_read(receive))
    stopping = asyncio.create_task(site_of(request).stop.wait())
    try:
        await asyncio.wait({reading, stopping}, timeout=REQUEST_S, return_when="FIRST_COMPLETED")
        if reading.done():
            return reading.result()
    finally:
        reading.cancel()
        stopping.cancel()
    if stopping.done():
        raise HTTPException(503, "The server is stopping.", retry_after(503))
    raise HTTPException(408, "The request did not arrive in time.")


async def _read(receive: Receive) -> bytes:
    """Read a body. What is too large is read away within bounds: most clients see an answer only when all is sent."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= REQUEST_DISCARDED_BYTES_MAX:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part = message.get("body", b"")
        size += len(part)
        more = message.get("more_body", False)
        if size <= REQUEST_BYTES_MAX:
            parts.append(part)
        else:
            parts.clear()
    if size > REQUEST_BYTES_MAX:
        raise _too_large()
    return b"".join(parts)


def _too_large() -> HTTPException:
    return HTTPException(413, f"The request is larger than REQUEST_BYTES_MAX ({REQUEST_BYTES_MAX} bytes).")


def _check_type(request: Request, body: bytes) -> None:
    """A form cannot be mistaken for JSON: a browser sends JSON to another site only after asking it."""
    path = request.scope["path"]
    wanted = _FORM if path == "/t" or path.startswith("/t/") else _JSON
    given = _only(request, "content-type") or ("" if body else wanted)
    if given.partition(";")[0].strip().lower() != wanted:
        raise HTTPException(415, f"The body must be {wanted}.")


def _given(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """A `receive` that gives a body that was read already, then waits for what comes."""
    waiting = [body]

    async def given() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return given
