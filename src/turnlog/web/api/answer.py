"""How the API answers: documents, made and encoded away from the event loop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from turnlog.events.codec import json_line
from turnlog.journal.log import Log
from turnlog.journal.shapes import Shape
from turnlog.web.site import Site

JSON = "application/json"
T = TypeVar("T")


def site_of(request: Request) -> Site:
    """What the routes of this server share."""
    site: Site = request.app.state.site
    return site


async def read(request: Request, ask: Callable[[Log], T]) -> T:
    """What `ask` reads of the log, in a thread of its own: a disk may be slow, and folding a long turn takes time."""
    log = site_of(request).log
    return await anyio.to_thread.run_sync(lambda: ask(log))


async def answer(request: Request, ask: Callable[[Log], Shape | bytes]) -> Response:
    """The document that `ask` makes of the log."""
    return Response(await read(request, lambda log: encoded(ask(log))), media_type=JSON)


def encoded(document: Shape | bytes) -> bytes:
    """A document's bytes."""
    return document if isinstance(document, bytes) else json_line(document)


def unchanging(request: Request, data: bytes) -> Response:
    """What stays the same for as long as it is there: who has it already is told so (304)."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or tag in {given.strip().removeprefix("W/") for given in known.split(",")}:
        return Response(status_code=304, headers={"etag": tag})
    return Response(data, media_type=JSON, headers={"etag": tag})
