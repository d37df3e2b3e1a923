"""Errors as answers: a status, and a problem document (RFC 9457) or, on a page, the same for people."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from turnlog import errors
from turnlog.errors import CursorUnprovable, InvalidInput, StoreError, TurnlogError
from turnlog.events.codec import json_line
from turnlog.web.http_problems import PROBLEM_JSON, http_problem_document, retry_after
from turnlog.web.page.refusals import refusal
from turnlog.web.page.rendering import document as page
from turnlog.web.page.resending import resend, thread_page
from turnlog.web.site import site_of

STATUSES: Final[dict[type[TurnlogError], int]] = {
    errors.TurnlogError: 500,
    errors.InvalidInput: 400,
    errors.TooLarge: 413,
    errors.NotJson: 400,
    errors.Refused: 409,
    errors.KeyConflict: 409,
    errors.DuplicateTurn: 409,
    errors.Busy: 409,
    errors.IllegalTransition: 409,
    errors.AlreadySettled: 409,
    errors.Fenced: 409,
    errors.OwnerAlive: 409,
    errors.NotRetryable: 409,
    errors.TurnHidden: 409,
    errors.ThreadExists: 409,
    errors.ThreadImporting: 409,
    errors.AlreadyDecided: 409,
    errors.Overloaded: 503,
    errors.UnknownThread: 404,
    errors.UnknownTurn: 404,
    errors.UnknownItem: 404,
    errors.CursorUnprovable: 409,
    errors.PlanChanged: 409,
    errors.StoreError: 503,
    errors.StoreBusy: 503,
    errors.StoreUnavailable: 503,
    errors.StoreClosed: 503,
    errors.StoreVersion: 500,
    errors.StoreMissing: 503,
    errors.StoreForeign: 500,
    errors.StoreDamaged: 500,
    errors.ForkedLog: 500,
    errors.RecordDamaged: 500,
    errors.AgentFailed: 500,
    errors.StartFailed: 500,
    errors.RestoreFailed: 500,
}
"""What each error is over HTTP: 503 where the same request may work a little later."""


def status_of(error: TurnlogError) -> int:
    """The status of an error; of a class without a row, that of its nearest parent."""
    if isinstance(error, CursorUnprovable) and error.reason == "malformed":
        return 400
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem_document(error: TurnlogError) -> dict[str, Any]:
    """`type`, `title`, `status`, `detail`, and the error's facts by name; no path of this machine."""
    title = (type(error).__doc__ or "").partition("\n")[0]
    # The members of a problem win: what a store says in its own `detail` may name files of this machine.
    return {
        **{name: value for name, value in error.facts.items() if value is not None},
        "type": f"urn:turnlog:problem:{_dashed(type(error).__name__)}",
        "title": title,
        "status": status_of(error),
        "detail": _detail(error, title),
    }


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _detail(error: TurnlogError, title: str) -> str:
    """The error in a sentence of its own where it has more to say than its title."""
    if isinstance(error, InvalidInput):
        return f"{error.field}: {error.problem}"
    return title


async def turnlog_problem(request: Request, error: Exception) -> Response:
    """The answer to a request that met an error of turnlog's. StoreErrors are counted."""
    assert isinstance(error, TurnlogError)
    if isinstance(error, StoreError):
        site_of(request).counts.store_errors[type(error).__name__] += 1
    document = problem_document(error)
    return _answer(request, document, retry_after(document["status"]))


async def http_problem(request: Request, error: Exception) -> Response:
    """The answer to a request that HTTP itself, a route or the guard refuses."""
    assert isinstance(error, HTTPException)
    document = http_problem_document(error.status_code, error.detail)
    return _answer(request, document, dict(error.headers or {}))


async def unexpected_problem(request: Request) -> Response:
    """The answer to a request that met a defect: what it is stands in the server's log."""
    return await http_problem(request, HTTPException(500, "The server met a defect of its own; its log says more."))


def _answer(request: Request, document: dict[str, Any], headers: dict[str, str]) -> Response:
    path = request.scope["path"]
    if wants_page(request):
        sentence, advice = refusal(document, path)
        again, back = resend(request, document), thread_page(path, document)
        html = page("problem", title=sentence, advice=advice, again=again, back=back)
        content, media = html.encode(), "text/html; charset=utf-8"
    else:
        if path == "/t" or path.startswith("/t/"):  # The script of a page shows it to a person.
            document = {**document, "detail": refusal(document, path).sentence}
        content, media = json_line(document) + b"\n", PROBLEM_JSON
    return Response(content, document["status"], headers, media)


def wants_page(request: Request) -> bool:
    """Whether a person looks at the answer: a request for a page by a browser, not one of a program or of a script."""
    return not request.scope["path"].startswith("/api/") and "text/html" in request.headers.get("accept", "")
