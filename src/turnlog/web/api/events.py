"""The events of a thread: as a page of JSON, or as a stream for who accepts `text/event-stream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.errors import CursorUnprovable
from turnlog.web.answer import read
from turnlog.web.api.read import events_page
from turnlog.web.input import check_query, cursor_given, cursor_seq, limit_of, path_of
from turnlog.web.site import site_of
from turnlog.web.stream.feed import ThreadFeed
from turnlog.web.stream.frames import reset
from turnlog.web.stream.sharing import Shared
from turnlog.web.stream.sse import EventStream


async def events(request: Request) -> Response:
    """What happened in a thread after a cursor, and for a stream what happens.

    A stream goes on after the header `Last-Event-ID`, since a reader that comes back repeats its address, else after
    `after`, else from the beginning. To a cursor that proves nothing here it says `reset`, and goes on from the head.
    """
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await events_page(request)
    check_query(request, {"after", "limit"})
    limit_of(request)  # a page's, and wrong is wrong
    site, thread = site_of(request), path_of(request, "thread")
    feeds: Shared[ThreadFeed] = request.app.state.feeds
    try:
        after = await read(request, lambda log: cursor_seq(log, thread, cursor_given(request)))
    except CursorUnprovable as error:
        head = int(error.head.rpartition(".")[2])
        return EventStream(site, _frames(feeds, thread, head, reset(error.reason, error.head)))
    return EventStream(site, _frames(feeds, thread, after))


async def _frames(
    feeds: Shared[ThreadFeed], thread: str, after: int, first: bytes = b""
) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async with feeds.use(thread) as feed, aclosing(feed.frames(after)) as frames:
        async for piece in frames:
            yield piece


ROUTES: Final = [Route("/api/threads/{thread}/events", events)]
