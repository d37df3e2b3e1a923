"""Looking after the store over HTTP: audit and repair, one at a time, and beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from turnlog.errors import PlanChanged
from turnlog.events.codec import json_line
from turnlog.journal import shapes
from turnlog.journal.documents import finding_facts, repair_document
from turnlog.journal.log import Log
from turnlog.limits import AUDIT_PAGE
from turnlog.web.answer import JSON
from turnlog.web.api.bodies import GivenRepair, GivenUndo
from turnlog.web.input import body_of, limit_of, number_of
from turnlog.web.site import site_of

T = TypeVar("T")


async def audit(request: Request) -> Response:
    """Findings of the store, or of one thread."""
    thread = request.query_params.get("thread")
    limit, after = limit_of(request, default=AUDIT_PAGE), number_of(request, "after")

    def page(log: Log) -> bytes:
        found = list(islice(log.audit(thread), after, after + limit + 1))
        more = str(after + limit) if len(found) > limit else None
        return json_line(shapes.Findings(findings=[finding_facts(each) for each in found[:limit]], next=more))

    return Response(await _care(request, page), media_type=JSON)


async def repair(request: Request) -> Response:
    """Show a plan, or apply the one that was shown."""
    given = await body_of(request, GivenRepair)

    def planned(log: Log) -> bytes:
        plan = log.plan_repair(log.audit(given.thread))
        if given.apply is None:
            return json_line(repair_document(plan, None))
        if given.apply != plan.id:
            raise PlanChanged(plan=plan.id)
        return json_line(repair_document(plan, log.repair(plan, by=given.by)))

    return Response(await _care(request, planned), media_type=JSON)


async def undo(request: Request) -> Response:
    """Let a repair hold no longer."""
    given = await body_of(request, GivenUndo)
    seq = await site_of(request).log.undo_repair(given.thread, given.seq, by=given.by)
    return Response(json_line(shapes.Undone(thread=given.thread, repair=given.seq, seq=seq)), media_type=JSON)


async def _care(request: Request, ask: Callable[[Log], T]) -> T:
    site = site_of(request)
    return await run_sync(ask, site.log, limiter=site.caring)
