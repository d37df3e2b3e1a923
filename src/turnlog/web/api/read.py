"""What can be read over the API."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from turnlog.errors import InvalidInput, UnknownTurn
from turnlog.folds.history import check_profile
from turnlog.journal.documents import (
    history_document,
    newest_turns_document,
    thread_row,
    threads_document,
    timeline_document,
    turns_document,
)
from turnlog.journal.log import Log
from turnlog.journal.shapes import Timeline
from turnlog.web.answer import answer, fold, read, unchanging
from turnlog.web.api.lists import entry_page, event_page, transcript_page
from turnlog.web.input import before_of, check_query, cursor_seq, groups_of, limit_of, path_of, seq_of


async def threads(request: Request) -> Response:
    """Rows of threads."""
    limit, before = limit_of(request), before_of(request)
    return await answer(request, lambda log: threads_document(log.threads(limit=limit, before=before)))


async def thread(request: Request) -> Response:
    """One row."""
    name = path_of(request, "thread")
    return await answer(request, lambda log: thread_row(log.thread(name)))


async def turns(request: Request) -> Response:
    """Rows of a thread's turns."""
    name, limit, before = path_of(request, "thread"), limit_of(request), before_of(request)
    return await answer(
        request, lambda log: turns_document(at=_at(log, name), page=log.turns(name, limit=limit, before=before))
    )


def _at(log: Log, thread: str) -> str:
    """The cursor of now: whoever follows from there misses nothing that is read later."""
    row = log.thread(thread)
    return f"{row.epoch}.{row.head}"


async def newest_turns(request: Request) -> Response:
    """The newest turn of each thread."""
    if request.query_params.get("latest") != "1":
        raise InvalidInput(field="latest", problem="must be 1: of each thread only the newest turn is listed here")
    limit, before = limit_of(request), before_of(request)
    return await answer(request, lambda log: newest_turns_document(log.newest_turns(limit=limit, before=before)))


async def timeline(request: Request) -> Response:
    """One turn's trace."""
    name, turn, limit = path_of(request, "thread"), path_of(request, "turn"), limit_of(request)
    after = request.query_params.get("after")
    return await answer(request, lambda log: _timeline(log, name, turn, after, limit), fold)


async def latest_timeline(request: Request) -> Response:
    """The trace of a thread's newest turn."""
    name, limit = path_of(request, "thread"), limit_of(request)
    after = request.query_params.get("after")
    return await answer(request, lambda log: _timeline(log, name, _latest(log, name), after, limit), fold)


def _latest(log: Log, thread: str) -> str:
    latest = log.thread(thread).latest
    if latest is None:
        raise UnknownTurn(thread=thread, turn="latest")
    return latest


def _timeline(log: Log, thread: str, turn: str, after: str | None, limit: int) -> Timeline:
    page = entry_page(log, thread, turn, after, limit)
    row = log.turn_view(thread, turn).beside(page.turn)
    return timeline_document(row, page.entries, log.epoch, next=page.next)


async def item(request: Request) -> Response:
    """One raw item, byte for byte."""
    name, seq = path_of(request, "thread"), seq_of(request)
    return unchanging(request, await read(request, lambda log: log.item(name, seq)))


async def transcript(request: Request) -> Response:
    """What a person reads."""
    name, limit, before = path_of(request, "thread"), limit_of(request), before_of(request)
    return await answer(request, lambda log: transcript_page(log, name, limit, before), fold)


async def history(request: Request) -> Response:
    """What an agent is given."""
    name, until, limit = path_of(request, "thread"), request.query_params.get("until"), groups_of(request)
    profile: Any = request.query_params.get("profile", "responses")
    check_profile(profile)
    return await answer(
        request,
        lambda log: history_document(at=_at(log, name), history=log.history(name, profile, until=until, limit=limit)),
        fold,
    )


async def events_page(request: Request) -> Response:
    """Events of a thread, as one document; their stream is of `events`."""
    check_query(request, {"after", "limit"})
    name, limit = path_of(request, "thread"), limit_of(request)
    after = request.query_params.get("after", "0")
    return await answer(request, lambda log: event_page(log, name, cursor_seq(log, name, after), limit))
