"""Which threads change, as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.web.input import check_query
from turnlog.web.site import site_of
from turnlog.web.stream.changing import ChangeFeed
from turnlog.web.stream.sharing import Shared
from turnlog.web.stream.sse import EventStream


async def changes(request: Request) -> Response:
    """The rows of threads that change. It begins with a `reset`: who then reads the list of threads misses nothing."""
    check_query(request, ())
    return EventStream(site_of(request), _frames(request.app.state.changes))


async def _frames(changing: Shared[ChangeFeed]) -> AsyncGenerator[bytes, None]:
    async with changing.use("") as feed, aclosing(feed.frames()) as frames:
        async for piece in frames:
            yield piece


ROUTES: Final = [Route("/api/changes", changes)]
