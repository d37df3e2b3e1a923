"""What a request says: ids of its path, parameters of its query, its body. What is wrong is named."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from turnlog.errors import CursorUnprovable, InvalidInput, NotJson, RecordDamaged
from turnlog.events.codec import decode_json, refuse_constant
from turnlog.journal.documents import cursor_of
from turnlog.journal.follow import SEQ_MAX, is_seq
from turnlog.journal.log import Log
from turnlog.limits import PAGE_ROWS, PAGE_ROWS_MAX
from turnlog.web.paths import id_of

T = TypeVar("T")

_AT: Final = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_FIELD: Final = re.compile(r"field `([^`]*)`")


def path_of(request: Request, name: str) -> str:
    """The id that a segment of the path names. Raises `InvalidInput`."""
    return id_of(request.path_params[name], name)


def seq_of(request: Request) -> int:
    """The seq in the path. Raises `InvalidInput`."""
    if not is_seq(request.path_params["seq"]):
        raise InvalidInput(field="seq", problem="must be a number")
    return int(request.path_params["seq"])


def check_query(request: Request, known: Container[str]) -> None:
    """Raise `InvalidInput` for a parameter that is not `known`, or is given twice."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise InvalidInput(field=name, problem="is no parameter of this request")
        if name in seen:
            raise InvalidInput(field=name, problem="is given twice")
        seen.add(name)


def limit_of(request: Request, *, default: int = PAGE_ROWS) -> int:
    """How many rows a page shall have. Raises `InvalidInput`."""
    text = request.query_params.get("limit", str(default))
    if not is_seq(text) or not 0 < int(text) <= PAGE_ROWS_MAX:
        raise InvalidInput(field="limit", problem=f"must be between 1 and {PAGE_ROWS_MAX}")
    return int(text)


def number_of(request: Request, name: str) -> int:
    """A number of the query, 0 when it is left out. Raises `InvalidInput`."""
    text = request.query_params.get(name, "0")
    if not is_seq(text):
        raise InvalidInput(field=name, problem="must be a number")
    return int(text)


def groups_of(request: Request) -> int | None:
    """How many groups of a history shall be given, None for all. Raises `InvalidInput`."""
    text = request.query_params.get("limit")
    if text is None:
        return None
    if not is_seq(text) or int(text) == 0:
        raise InvalidInput(field="limit", problem=f"must be between 1 and {SEQ_MAX}")
    return int(text)


def before_of(request: Request) -> bytes | None:
    """The place before which a list goes on. Raises `InvalidInput`."""
    text = request.query_params.get("before")
    return None if text is None else cursor_of(text)


def cursor_given(request: Request) -> str:
    """The cursor that a reader of a stream comes with. The header goes first: who comes back repeats its address."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "0")


def cursor_seq(log: Log, thread: str, after: str) -> int:
    """The seq of a cursor `epoch.seq`, or of a seq of this log. Raises `UnknownThread`, `InvalidInput` for what is no
    cursor, and `CursorUnprovable` for one of another store or of the future."""
    row = log.thread(thread)
    epoch, dot, number = after.rpartition(".")
    if not is_seq(number) or bool(epoch) is not bool(dot):
        raise InvalidInput(field="after", problem="must be a cursor, or a seq")
    head = f"{row.epoch}.{row.head}"
    if dot and epoch != row.epoch:
        raise CursorUnprovable(thread=thread, reason="epoch", head=head)
    if int(number) > row.head:
        raise CursorUnprovable(thread=thread, reason="future", head=head)
    return int(number)


async def body_of(request: Request, kind: type[T]) -> T:
    """The body as `kind`, of which an empty one gives the defaults. Raises `NotJson`, or `InvalidInput` of a field."""
    data = await request.body() or b"{}"
    try:
        value = decode_json(data, kind)
    except RecordDamaged:
        raise _what_is_wrong(data, kind) from None
    if (field := _field_given_twice(data)) is not None:
        raise InvalidInput(field=field, problem="is given twice")
    return value


class _Fields(list[tuple[str, Any]]):
    """An object of JSON as it was written."""


def _field_given_twice(data: bytes) -> str | None:
    """The place of a field that one object of valid JSON has twice: only one of the two values would be kept."""
    try:
        return _twice(json.loads(data, object_pairs_hook=_Fields, parse_int=str, parse_float=str), "")
    except RecursionError:  # nested more deeply than anything that is accepted
        return None


def _twice(value: Any, at: str) -> str | None:
    seen: set[str] = set()
    for name, part in value if isinstance(value, _Fields) else ():
        place = f"{at}.{name}" if at else name
        if name in seen:
            return place
        seen.add(name)
        if (found := _twice(part, place)) is not None:
            return found
    if isinstance(value, list) and not isinstance(value, _Fields):
        inside = (_twice(part, f"{at}[{index}]") for index, part in enumerate(value))
        return next((found for found in inside if found is not None), None)
    return None


def _what_is_wrong(data: bytes, kind: type[T]) -> InvalidInput:
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        return NotJson(field="body", problem=str(error))
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return _invalid(str(error))
    return NotJson(field="body", problem="cannot be read exactly")


def _invalid(problem: str) -> InvalidInput:
    """A validation's message: it names the place, and a field of it that is missing or unknown."""
    at, field = _AT.search(problem), _FIELD.search(problem)
    names = [at[1] if at else "", field[1] if field else ""]
    return InvalidInput(
        field=".".join(name for name in names if name) or "body", problem=_AT.sub("", problem).replace("`", "")
    )
