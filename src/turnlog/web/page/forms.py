"""What the forms of the pages are sent to. Without a script the answer is the page again, with it what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from turnlog.errors import AlreadyDecided, AlreadySettled, InvalidInput
from turnlog.journal import shapes
from turnlog.journal.jobs import WhenBusy
from turnlog.journal.turn import Turn
from turnlog.limits import FORM_FIELDS_MAX
from turnlog.web.answer import accepted, submitted
from turnlog.web.input import path_of
from turnlog.web.page.endings import BY
from turnlog.web.page.markup import dom_id
from turnlog.web.page.naming import DECISIONS
from turnlog.web.page.resending import keep
from turnlog.web.paths import path_id
from turnlog.web.site import site_of

_WHEN_BUSY: Final[Mapping[str, WhenBusy]] = {"queue": "queue", "replace": "replace"}
"""What a person may choose: nothing that is asked on a page is refused because an answer is being written."""

_SEE_OTHER = 303


async def _form(request: Request, *known: str) -> dict[str, str]:
    """The fields of a form. Raises `InvalidInput` for what no form of ours sends."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        raise InvalidInput(field="body", problem="must be the fields of a form") from None
    for name, _ in pairs:
        if name not in known:
            raise InvalidInput(field=name, problem="is no field of this form")
    form: dict[str, str] = {}
    for name, value in pairs:
        if name in form:
            raise InvalidInput(field=name, problem="is given twice")
        form[name] = value
    keep(request, form)
    return form


def _content(form: dict[str, str]) -> str:
    """The message. Browsers send its ends of lines as CRLF, scripts as LF: it is the same message."""
    return form.get("content", "").replace("\r\n", "\n")


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _page(thread: str, turn: str) -> Response:
    return RedirectResponse(f"/t/{path_id(thread)}#turn-{dom_id(turn)}", _SEE_OTHER)


async def _accepted(request: Request, turn: Turn) -> Response:
    if _wants_json(request):
        return await submitted(request, turn)
    return _page(turn.thread, turn.id)


async def begin(request: Request) -> Response:
    """Begin a thread with a message. Its id is the form's key, so that a form sent twice begins one thread."""
    form = await _form(request, "content", "key")
    if not form.get("key"):
        raise InvalidInput(field="key", problem="must not be empty")
    content, site = _content(form), site_of(request)
    return await _accepted(request, await site.work.submit(form["key"], content, key=form["key"], when_busy="queue"))


async def submit(request: Request) -> Response:
    """Ask something in a thread."""
    thread, form = path_of(request, "thread"), await _form(request, "content", "key", "when_busy", "edit_of")
    when_busy = form.get("when_busy", "queue")
    if when_busy not in _WHEN_BUSY:
        raise InvalidInput(field="when_busy", problem="must be queue or replace")
    turn = await site_of(request).work.submit(
        thread,
        _content(form),
        key=form.get("key") or None,
        when_busy=_WHEN_BUSY[when_busy],
        edit_of=form.get("edit_of") or None,
    )
    return await _accepted(request, turn)


async def retry(request: Request) -> Response:
    """Ask an interrupted turn again."""
    await _form(request)
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    return await _accepted(request, await site_of(request).work.retry(thread, turn, when_busy="queue"))


async def undo(request: Request) -> Response:
    """Take a message and everything after it back."""
    await _form(request)
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    await site_of(request).log.truncate(thread, turn, by=BY)
    return RedirectResponse(f"/t/{path_id(thread)}", _SEE_OTHER)


async def fork(request: Request) -> Response:
    """Copy a thread up to a turn, and go on there. The form's key is the copy's id: sent twice, it is one copy."""
    form = await _form(request, "key")
    if not form.get("key"):
        raise InvalidInput(field="key", problem="must not be empty")
    thread, turn, log = path_of(request, "thread"), path_of(request, "turn"), site_of(request).log
    copied = await (await run_sync(lambda: log.fork(thread, form["key"], turn=turn)))
    return RedirectResponse(f"/t/{path_id(copied.thread)}", _SEE_OTHER)


async def title(request: Request) -> Response:
    """Give a thread a title. One that is sent as it was shown takes nothing back that was done meanwhile."""
    thread, form = path_of(request, "thread"), await _form(request, "title", "shown")
    if "title" not in form:
        raise InvalidInput(field="body", problem="has no title")
    if form["title"] != form.get("shown"):
        await site_of(request).log.rename(thread, form["title"], by=BY)
    return _settings(thread)


async def pin(request: Request) -> Response:
    """Pin a thread, or let it go: `pinned` is 1 or 0."""
    thread, form = path_of(request, "thread"), await _form(request, "pinned")
    if form.get("pinned") not in ("0", "1"):
        raise InvalidInput(field="pinned", problem="must be 0 or 1")
    await site_of(request).log.pin(thread, form["pinned"] == "1", by=BY)
    return _settings(thread)


def _settings(thread: str) -> Response:
    return RedirectResponse(f"/t/{path_id(thread)}#settings", _SEE_OTHER)


async def interrupt(request: Request) -> Response:
    """Stop a turn, or take it out of the line."""
    await _form(request)
    thread, turn = path_of(request, "thread"), path_of(request, "turn")
    try:
        seq = await site_of(request).log.request(thread, turn, by=BY)
    except AlreadySettled:
        if _wants_json(request):
            raise
        return _page(thread, turn)  # it ended while somebody reached for the button
    return accepted(shapes.Request(thread=thread, turn=turn, seq=seq)) if _wants_json(request) else _page(thread, turn)


async def decide(request: Request) -> Response:
    """Decide what a turn waits for: `value` is `accept` or `decline`, as `turnlog decide` has them."""
    form = await _form(request, "value")
    thread, turn, approval = (path_of(request, name) for name in ("thread", "turn", "approval"))
    value = form.get("value")
    if value not in dict(DECISIONS):
        raise InvalidInput(field="value", problem="must be accept or decline")
    try:
        seq = await site_of(request).log.request(thread, turn, "decide", approval=approval, value=value, by=BY)
    except (AlreadySettled, AlreadyDecided):
        if _wants_json(request):
            raise
        return _page(thread, turn)  # another one was quicker, and the page shows what was decided
    return accepted(shapes.Request(thread=thread, turn=turn, seq=seq)) if _wants_json(request) else _page(thread, turn)
