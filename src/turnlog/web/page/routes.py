"""The pages for people: threads, one thread and its stream, one turn and its trace, and the files they load."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from turnlog.errors import CursorUnprovable, InvalidInput, RecordDamaged, UnknownTurn
from turnlog.journal.documents import cursor_of, cursor_text
from turnlog.journal.follow import is_seq
from turnlog.journal.log import Log
from turnlog.journal.reading import ThreadView
from turnlog.limits import PAGE_ROWS
from turnlog.web.answer import fold, read, unchanging
from turnlog.web.input import check_query, cursor_given, cursor_seq, path_of
from turnlog.web.page import forms
from turnlog.web.page.live import LivePage
from turnlog.web.page.markup import dom_id, page_html
from turnlog.web.page.naming import one_line
from turnlog.web.page.rendering import document, trusted
from turnlog.web.page.resending import fresh_key
from turnlog.web.page.thread_view import ThreadPage, load
from turnlog.web.page.turn_page import trace_rows, turn_page
from turnlog.web.paths import path_id
from turnlog.web.site import site_of
from turnlog.web.stream.frames import reset
from turnlog.web.stream.sharing import Shared
from turnlog.web.stream.sse import EventStream

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final[Mapping[str, str]] = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def _page(name: str, **values: Any) -> Response:
    return HTMLResponse(document(name, **values))


# --- pages -------------------------------------------------------------------------------------------------------


async def threads(request: Request) -> Response:
    """The list of threads, pinned ones first, then the last changed, and a place to begin one."""
    check_query(request, {"before"})
    text = request.query_params.get("before")
    before = None if text is None else cursor_of(text)
    page = await read(request, lambda log: log.threads(limit=PAGE_ROWS, before=before))
    rows = await read(request, lambda log: [_thread_row(log, row) for row in page.rows])
    older = cursor_text(page.next)
    values = {"first": before is None, "action": "/t", "new": True, "key": fresh_key(request)}
    return _page("threads", rows=rows, older=older and f"/?before={older}", **values)


def _thread_row(log: Log, row: ThreadView) -> dict[str, Any]:
    """A thread in the list, with the state of its newest turn."""
    state, preview = None, ""
    if row.latest is not None:
        try:
            turn = log.turn_view(row.thread, row.latest)
            state, preview = turn.state, one_line(turn.preview)
        except (UnknownTurn, RecordDamaged):
            state = None
    return {
        "id": dom_id(row.thread),
        "path": path_id(row.thread),
        "title": row.title or "New thread",
        "preview": "" if preview == row.title else preview,
        "state": state,
        "updated_at": row.updated_at,
        "damaged": row.damaged,
        "pinned": row.pinned,
    }


async def thread(request: Request) -> Response:
    """A thread's newest turns, which go on by themselves, or older ones."""
    check_query(request, {"before"})
    name, before = path_of(request, "thread"), request.query_params.get("before")
    page = await fold(request, lambda log: load(log, name, before))
    row = await read(request, lambda log: log.thread(name))
    content = await run_sync(lambda: page_html(page.elements()))
    newest = f"/t/{path_id(name)}"
    return _page(
        "thread",
        title=row.title or "New thread",
        given_title=row.title,
        pinned=row.pinned,
        at=f"{site_of(request).log.epoch}.{page.head}",
        stream=None if before is not None else f"{newest}/stream",
        content=trusted(content),
        status=_status(page),
        action=f"{newest}/turns",
        new=False,
        key=fresh_key(request),
        newest=newest,
    )


def _status(page: ThreadPage) -> str:
    """What a screen reader is told first: whether a person is waited for, or something is being answered."""
    if any(source.asks for source in page.turns):
        return "An answer waits for your decision."
    return "An answer is being written." if any(source.open for source in page.turns) else ""


async def stream(request: Request) -> Response:
    """Frames that keep the page of a thread up to date, from the position it was fetched at."""
    check_query(request, {"after"})
    name, site = path_of(request, "thread"), site_of(request)
    try:
        after = await read(request, lambda log: cursor_seq(log, name, cursor_given(request)))
    except CursorUnprovable as error:
        return EventStream(site, _refetch(error))
    return EventStream(site, _live(request.app.state.pages, name, after))


async def _refetch(error: CursorUnprovable) -> AsyncGenerator[bytes, None]:
    yield reset(error.reason, error.head)


async def _live(pages: Shared[LivePage], name: str, after: int) -> AsyncGenerator[bytes, None]:
    async with pages.use(name) as page, aclosing(page.watch(after)) as pieces:
        async for piece in pieces:
            yield piece


async def turn(request: Request) -> Response:
    """One turn with its whole trace."""
    check_query(request, {"from", "edit"})
    name, id_ = path_of(request, "thread"), path_of(request, "turn")
    start = request.query_params.get("from", "0")
    if not is_seq(start):
        raise InvalidInput(field="from", problem="must be a number")
    page = await fold(request, lambda log: turn_page(log, name, id_, int(start)))
    return _page(
        "turn",
        title=page.title or "New thread",
        at=page.at,
        content=trusted(page_html([page.section])),
        pages=page.pages,
        running=page.running,
        hidden=page.hidden,
        text=page.text,
        edit="edit" in request.query_params,
        turn=id_,
        at_turn=dom_id(id_),
        key=fresh_key(request),
        base=f"/t/{path_id(name)}/turns/{path_id(id_)}",
        newest=f"/t/{path_id(name)}",
    )


async def trace(request: Request) -> Response:
    """The rows of one turn's trace, for the page that has it closed."""
    check_query(request, ())
    name, id_ = path_of(request, "thread"), path_of(request, "turn")
    return HTMLResponse(await fold(request, lambda log: page_html(trace_rows(log, name, id_))))


# --- files -------------------------------------------------------------------------------------------------------


class _File(NamedTuple):
    content: bytes
    type: str


@cache
def _files() -> dict[str, _File]:
    """The files that pages load, read once."""
    return {
        path.name: _File(path.read_bytes(), _TYPES[path.suffix]) for path in _STATIC.iterdir() if path.suffix in _TYPES
    }


async def static(request: Request) -> Response:
    """One of the files that pages load; a browser asks each time whether it has changed, and is told in short."""
    file = (await run_sync(_files)).get(request.path_params["name"])
    if file is None:
        raise HTTPException(404)
    return unchanging(request, file.content, file.type, {"cache-control": "no-cache"})


ROUTES: Final = [
    Route("/", threads),
    Route("/t", forms.begin, methods=["POST"]),
    Route("/t/{thread}", thread),
    Route("/t/{thread}/stream", stream),
    Route("/t/{thread}/title", forms.title, methods=["POST"]),
    Route("/t/{thread}/pin", forms.pin, methods=["POST"]),
    Route("/t/{thread}/turns", forms.submit, methods=["POST"]),
    Route("/t/{thread}/turns/{turn}/interrupt", forms.interrupt, methods=["POST"]),
    Route("/t/{thread}/turns/{turn}/retry", forms.retry, methods=["POST"]),
    Route("/t/{thread}/turns/{turn}/undo", forms.undo, methods=["POST"]),
    Route("/t/{thread}/turns/{turn}/fork", forms.fork, methods=["POST"]),
    Route("/t/{thread}/turns/{turn}/decisions/{approval}", forms.decide, methods=["POST"]),
    Route("/t/{thread}/turn/{turn}", turn),
    Route("/t/{thread}/turn/{turn}/trace", trace),
    Route("/static/{name}", static),
]
"""The pages. They are for people, and not in the API's document."""
