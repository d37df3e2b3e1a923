"""The text of a form that was refused: the page that says so has it, in a form that can be sent again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from turnlog.events.ids import RandomIds
from turnlog.web.paths import SEGMENT
from turnlog.web.site import site_of

_ids: Final = RandomIds()

_TYPED: Final = ("content", "title")
"""Fields of forms in which somebody wrote something."""

_GONE: Final = frozenset({"turn-hidden", "unknown-turn", "key-conflict"})
"""Refusals after which the same form would be refused for ever: its text may go as a message of its own."""


_OF_THREAD: Final = re.compile(f"/t/{SEGMENT[1:-1]}(?=/)")


class Resend(NamedTuple):
    """A form that was refused. `typed` is the name of the field that has the `text`, `hidden` are the others."""

    action: str
    typed: str
    text: str
    hidden: Mapping[str, str]
    button: str


def fresh_key(request: Request) -> str:
    """A key for one form: sent twice, it is one submission."""
    return _ids.turn_id(site_of(request).clock.now_us())


def keep(request: Request, form: Mapping[str, str]) -> None:
    """What was sent, should it be refused."""
    request.state.form = form


def resend(request: Request, problem: Mapping[str, Any]) -> Resend | None:
    """The form again, or None where nothing was typed into it."""
    form: dict[str, str] = dict(getattr(request.state, "form", {}))
    typed = next((name for name in _TYPED if name in form), None)
    if typed is None:
        return None
    button = "Save" if typed == "title" else "Send"
    if str(problem["type"]).rpartition(":")[2] in _GONE:
        form.pop("edit_of", None)
        form["key"], button = fresh_key(request), "Send as a new message"
    return Resend(request.scope["path"], typed, form.pop(typed), form, button)


def thread_page(path: str, problem: Mapping[str, Any]) -> str | None:
    """The page of the thread that a request to `path` was about, where there is one."""
    found = _OF_THREAD.match(path)
    known = str(problem["type"]).startswith("urn:") and not str(problem["type"]).endswith(":unknown-thread")
    return found[0] if found and known else None
