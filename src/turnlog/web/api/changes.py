"""Which threads change, as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.web.api.input import check_query
from turnlog.web.site import Site
from turnlog.web.stream.sse import EventStream


async def changes(request: Request) -> Response:
    """The rows of threads that change. It begins with a `reset`: who then reads the list of threads misses nothing."""
    check_query(request, ())
    site: Site = request.app.state.site
    return EventStream(site, _frames(site))


async def _frames(site: Site) -> AsyncGenerator[bytes, None]:
    async with site.changes.use("") as feed, aclosing(feed.frames()) as frames:
        async for piece in frames:
            yield piece


ROUTES: Final = [Route("/api/changes", changes)]
