"""How routes read and answer: documents, made and encoded away from the event loop."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from turnlog.errors import StoreError
from turnlog.events.codec import json_line
from turnlog.journal import shapes
from turnlog.journal.log import Log
from turnlog.journal.shapes import Shape
from turnlog.journal.turn import Turn
from turnlog.web.site import site_of

JSON: Final = "application/json"
T = TypeVar("T")


class Reading(Protocol):
    """`read` or `fold`."""

    def __call__(self, request: Request, ask: Callable[[Log], T], /) -> Awaitable[T]:
        """What `ask` gives."""
        ...


async def read(request: Request, ask: Callable[[Log], T]) -> T:
    """What `ask` reads of the log, in a thread of its own: a disk may be slow."""
    return await run_sync(ask, site_of(request).log)


async def fold(request: Request, ask: Callable[[Log], T]) -> T:
    """The same of what may be a long turn: its events are folded, which keeps a core busy, so few do it at once."""
    site = site_of(request)
    return await run_sync(ask, site.log, limiter=site.folding)


async def prompt(request: Request, ask: Callable[[Log], T]) -> T:
    """The same of a row that a sender waits for, in threads that slow reads of others do not hold."""
    site = site_of(request)
    return await run_sync(ask, site.log, limiter=site.work.looking)


async def answer(request: Request, ask: Callable[[Log], Shape | bytes], reading: Reading = read) -> Response:
    """The document that `ask` makes of the log."""
    return Response(await reading(request, lambda log: encoded(ask(log))), media_type=JSON)


def encoded(document: Shape | bytes) -> bytes:
    """A document's bytes."""
    return document if isinstance(document, bytes) else json_line(document)


def unchanging(
    request: Request, data: bytes, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """What stays the same for as long as it is there: who has it already is told so (304)."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {**(headers or {}), "etag": tag}
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or tag in {given.strip().removeprefix("W/") for given in known.split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


async def submitted(request: Request, turn: Turn) -> Response:
    """What became of a submission. It is durable now, so that a store which fails meanwhile makes it no error (P1)."""
    try:
        place = (await prompt(request, lambda log: log.turn_view(turn.thread, turn.id))).queue_place
    except StoreError:
        place = None
    document = shapes.Submission(
        thread=turn.thread,
        turn=turn.id,
        seq=turn.seq,
        duplicate=turn.duplicate,
        state=turn.state,
        queue_place=place,
    )
    return accepted(document)


def accepted(document: shapes.Submission | shapes.Request) -> Response:
    """What was asked for is durable; the rest follows (202)."""
    return Response(json_line(document), 202, media_type=JSON)
