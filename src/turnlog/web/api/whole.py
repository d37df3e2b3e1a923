"""What can be asked of a thread as a whole over the API: a title, a pin, a truncation, a fork, a summary."""

from __future__ import annotations

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from turnlog.errors import InvalidInput
from turnlog.events.codec import json_line
from turnlog.journal import shapes
from turnlog.journal.documents import thread_row
from turnlog.web.answer import JSON, answer, encoded
from turnlog.web.api.bodies import GivenCompaction, GivenFork, GivenSettings, GivenTruncation
from turnlog.web.input import body_of, path_of
from turnlog.web.site import site_of


async def settings(request: Request) -> Response:
    """Rename a thread, pin it, or both."""
    thread, given, log = path_of(request, "thread"), await body_of(request, GivenSettings), site_of(request).log
    if given.title is None and given.pinned is None:
        raise InvalidInput(field="title", problem="or `pinned` must be given")
    if given.title is not None:
        await log.rename(thread, given.title, by=given.by)
    if given.pinned is not None:
        await log.pin(thread, given.pinned, by=given.by)
    return await answer(request, lambda log: thread_row(log.thread(thread)))


async def truncate(request: Request) -> Response:
    """Take a turn and what was begun after it out of the conversation."""
    thread, given = path_of(request, "thread"), await body_of(request, GivenTruncation)
    done = await site_of(request).log.truncate(thread, given.turn, by=given.by)
    document = shapes.Truncation(thread=thread, seq=done.seq, hidden=list(done.hidden), more=done.more)
    return Response(encoded(document), media_type=JSON)


async def fork(request: Request) -> Response:
    """Copy a thread. Where it can end is read first, in a thread of its own; then a page is copied a commit."""
    thread, given = path_of(request, "thread"), await body_of(request, GivenFork)
    log = site_of(request).log
    copied = await (await run_sync(lambda: log.fork(thread, given.to, turn=given.turn)))
    return Response(json_line(thread_row(copied)), 201, media_type=JSON)


async def compact(request: Request) -> Response:
    """Let a summary stand for the beginning of a thread."""
    thread, given = path_of(request, "thread"), await body_of(request, GivenCompaction)
    seq = await site_of(request).log.compact(thread, given.summary, until=given.until, by=given.by)
    return Response(encoded(shapes.ThreadEvent(thread=thread, seq=seq)), media_type=JSON)
