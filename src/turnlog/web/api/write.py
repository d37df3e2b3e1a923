"""What can be asked for over the API."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from turnlog.journal import shapes
from turnlog.web.answer import accepted, submitted
from turnlog.web.api.bodies import GivenDecision, GivenInterrupt, GivenMessage, GivenRetry
from turnlog.web.input import body_of, path_of
from turnlog.web.site import site_of


async def submit(request: Request) -> Response:
    """Accept a message and begin to answer it."""
    thread, given = path_of(request, "thread"), await body_of(request, GivenMessage)
    turn = await site_of(request).work.submit(
        thread,
        given.content,
        key=given.key,
        turn=given.turn,
        agent=given.agent,
        attachments=[msgspec.structs.asdict(file) for file in given.attachments],
        when_busy=given.when_busy,
        edit_of=given.edit_of,
    )
    return await submitted(request, turn)


async def retry(request: Request) -> Response:
    """Ask an interrupted turn again."""
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    given = await body_of(request, GivenRetry)
    again = await site_of(request).work.retry(thread, turn, agent=given.agent, when_busy=given.when_busy)
    return await submitted(request, again)


async def interrupt(request: Request) -> Response:
    """Ask the owner of an open turn to end it."""
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    given = await body_of(request, GivenInterrupt)
    seq = await site_of(request).log.request(thread, turn, by=given.by)
    return accepted(shapes.Request(thread=thread, turn=turn, seq=seq))


async def decide(request: Request) -> Response:
    """Decide an approval; the first decision stands."""
    thread, turn, approval = (path_of(request, name) for name in ("thread", "turn", "approval"))
    given = await body_of(request, GivenDecision)
    seq = await site_of(request).log.request(thread, turn, "decide", approval=approval, value=given.value, by=given.by)
    return accepted(shapes.Request(thread=thread, turn=turn, seq=seq))
