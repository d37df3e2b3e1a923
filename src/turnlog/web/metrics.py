"""`/healthz` and `/metrics`: whether the server can take a message, and what it has done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.events.codec import json_line
from turnlog.web.input import check_query
from turnlog.web.site import Site, site_of

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


async def healthz(request: Request) -> Response:
    """200 while the log can be written, as far as its last writes tell; else a problem document."""
    check_query(request, ())
    site = site_of(request)
    await run_sync(site.log.check, limiter=site.health)
    document = {"status": "ok", "reason": None}
    return Response(json_line(document) + b"\n", media_type="application/json")


async def metrics(request: Request) -> Response:
    """Counts in the text format of Prometheus."""
    check_query(request, ())
    return Response("\n".join(_lines(site_of(request))) + "\n", media_type=_TEXT)


def _lines(site: Site) -> Iterator[str]:
    counts = site.counts
    yield from _metric("turnlog_streams", "gauge", "Open event streams.", [("", len(site.streams))])
    yield from _metric("turnlog_turns_running", "gauge", "Turns that an agent works on.", [("", counts.running)])
    yield from _metric("turnlog_turns_waiting", "gauge", "Turns that wait for their start.", [("", counts.waiting)])
    ends = sorted(counts.turns.items())
    yield from _metric(
        "turnlog_turns_ended_total",
        "counter",
        "Turns run by this server, by how they ended.",
        [(f'{{state="{state}",reason="{reason}"}}', n) for (state, reason), n in ends],
    )
    yield from _metric(
        "turnlog_http_answers_total",
        "counter",
        "Answers by method and status.",
        [(f'{{method="{method}",status="{status}"}}', n) for (method, status), n in sorted(counts.answers.items())],
    )
    yield from _metric(
        "turnlog_store_errors_total",
        "counter",
        "Errors of the store.",
        [(f'{{kind="{kind}"}}', n) for kind, n in sorted(counts.store_errors.items())],
    )


def _metric(name: str, kind: str, about: str, values: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield f"{name}{labels} {value}"


ROUTES: Final = [Route("/healthz", healthz), Route("/metrics", metrics)]
