"""The events of a thread: as a page of JSON, or as a stream for who accepts `text/event-stream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.errors import CursorUnprovable
from turnlog.web.api.answer import read
from turnlog.web.api.input import check_query, cursor_seq, limit_of, path_of
from turnlog.web.api.read import events_page
from turnlog.web.site import Site
from turnlog.web.stream.feed import reset_frame
from turnlog.web.stream.sse import EventStream

_AFTER: Final = "after"


async def events(request: Request) -> Response:
    """What happened in a thread after a cursor, and for a stream what happens.

    A stream goes on after the header `Last-Event-ID`, since a reader that comes back repeats its address, else after
    `after`, else from the beginning. To a cursor that proves nothing here it says `reset`, and goes on from the head.
    """
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await events_page(request)
    check_query(request, {_AFTER, "limit"})
    limit_of(request)  # a page's, and wrong is wrong
    site: Site = request.app.state.site
    thread = path_of(request, "thread")
    try:
        after = await read(request, lambda log: cursor_seq(log, thread, cursor_given(request)))
    except CursorUnprovable as error:
        head = int(error.head.rpartition(".")[2])
        return EventStream(site, _frames(site, thread, head, reset_frame(error)))
    return EventStream(site, _frames(site, thread, after))


def cursor_given(request: Request) -> str:
    """The cursor that a reader of a stream comes with."""
    return request.headers.get("last-event-id") or request.query_params.get(_AFTER, "0")


async def _frames(site: Site, thread: str, after: int, first: bytes = b"") -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async with site.feeds.use(thread) as feed, aclosing(feed.frames(after)) as frames:
        async for piece in frames:
            yield piece


ROUTES: Final = [Route("/api/threads/{thread}/events", events)]
