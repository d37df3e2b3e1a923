"""What HTTP itself is answered where no route is asked: problem documents of a status, and the headers of every answer.

A request that is no HTTP, or too slow, or one connection too many, is answered before the application hears of it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from turnlog.events.codec import json_line
from turnlog.limits import HEAD_BYTES_MAX, HEAD_S

PROBLEM_JSON: Final = "application/problem+json"

RETRY_AFTER_S: Final = 1
"""What a client is asked to wait after 503: as long as the journal waits between two looks at its store."""

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types turnlog"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # No other site learns of our addresses; with "no-referrer" our own forms would come from an origin "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""

HEADER_LINES: Final = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
"""The same as they are sent."""

_DETAILS: Final = {
    400: "This is no HTTP request.",
    408: f"The head of the request did not arrive within HEAD_S ({HEAD_S:g} s).",
    431: f"The head of the request is larger than HEAD_BYTES_MAX ({HEAD_BYTES_MAX} bytes).",
    503: "The server has as many connections as it takes.",
}


def http_problem_document(status: int, detail: str = "") -> dict[str, Any]:
    """The problem document of a status that says all there is to say, but for `detail`."""
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail or title}


def retry_after(status: int) -> dict[str, str]:
    """The header that goes with 503: the same request may work a little later."""
    return {"Retry-After": str(RETRY_AFTER_S)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def last_answer(status: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of the answer that ends a connection: 400, 408, 431 or 503."""
    body = json_line(http_problem_document(status, _DETAILS[status])) + b"\n"
    own = {"content-type": PROBLEM_JSON, "content-length": str(len(body)), "connection": "close", **retry_after(status)}
    return [*((name.lower().encode(), value.encode()) for name, value in own.items()), *HEADER_LINES], body
