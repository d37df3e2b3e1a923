"""What can be asked for over the API."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from turnlog.errors import StoreError
from turnlog.events.codec import json_line
from turnlog.journal import shapes
from turnlog.journal.turn import Turn
from turnlog.web.api.answer import JSON, read, site_of
from turnlog.web.api.bodies import GivenDecision, GivenInterrupt, GivenMessage, GivenRetry
from turnlog.web.api.input import body_of, path_of

ACCEPTED = 202


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
    )
    return await submission(request, turn)


async def retry(request: Request) -> Response:
    """Ask an interrupted turn again."""
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    given = await body_of(request, GivenRetry)
    again = await site_of(request).work.retry(thread, turn, agent=given.agent, when_busy=given.when_busy)
    return await submission(request, again)


async def submission(request: Request, turn: Turn) -> Response:
    """What became of a submission. It is durable now, so that a store which fails meanwhile makes it no error (P1)."""
    try:
        place = (await read(request, lambda log: log.turn_view(turn.thread, turn.id))).queue_place
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
    return Response(json_line(document), ACCEPTED, media_type=JSON)


async def interrupt(request: Request) -> Response:
    """Ask the owner of an open turn to end it."""
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    given = await body_of(request, GivenInterrupt)
    seq = await site_of(request).log.request(thread, turn, by=given.by)
    return requested(thread, turn, seq)


async def decide(request: Request) -> Response:
    """Decide an approval; the first decision stands."""
    thread, turn, approval = (path_of(request, name) for name in ("thread", "turn", "approval"))
    given = await body_of(request, GivenDecision)
    seq = await site_of(request).log.request(thread, turn, "decide", approval=approval, value=given.value, by=given.by)
    return requested(thread, turn, seq)


def requested(thread: str, turn: str, seq: int) -> Response:
    """What became of a request to a turn's owner."""
    return Response(json_line(shapes.Request(thread=thread, turn=turn, seq=seq)), ACCEPTED, media_type=JSON)
