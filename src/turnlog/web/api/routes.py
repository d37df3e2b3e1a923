"""The routes of the API: each operation of the table that is not a stream or the server's own, with its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.web.answer import unchanging
from turnlog.web.api import care as api_care
from turnlog.web.api import read as api_read
from turnlog.web.api import whole as api_whole
from turnlog.web.api import write as api_write
from turnlog.web.api.openapi import openapi_json
from turnlog.web.api.operation import Operation
from turnlog.web.api.operations import OPERATIONS
from turnlog.web.input import check_query

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


async def openapi(request: Request) -> Response:
    """The document that describes the API."""
    return unchanging(request, openapi_json())


HANDLERS: Final[Mapping[str, Handler]] = {
    "listThreads": api_read.threads,
    "getThread": api_read.thread,
    "setThread": api_whole.settings,
    "truncateThread": api_whole.truncate,
    "forkThread": api_whole.fork,
    "compactThread": api_whole.compact,
    "listTurns": api_read.turns,
    "submitMessage": api_write.submit,
    "getLatestTurn": api_read.latest_timeline,
    "getTurn": api_read.timeline,
    "interruptTurn": api_write.interrupt,
    "retryTurn": api_write.retry,
    "decideApproval": api_write.decide,
    "getItem": api_read.item,
    "getTranscript": api_read.transcript,
    "getHistory": api_read.history,
    "listNewestTurns": api_read.newest_turns,
    "auditStore": api_care.audit,
    "repairStore": api_care.repair,
    "undoRepair": api_care.undo,
    "getOpenApi": openapi,
}


def _routes() -> list[Route]:
    """One route a path, so that a method it does not have is answered with all that it has."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        if operation.id in HANDLERS:
            paths.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _handler(methods), methods=list(methods)) for path, methods in paths.items()]


def _handler(methods: Mapping[str, Operation]) -> Handler:
    async def handle(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        check_query(request, operation.names)
        return await HANDLERS[operation.id](request)

    return handle


ROUTES: Final = _routes()
