"""JSON-RPC as Codex speaks it over a pipe: one JSON object a line, and both sides send requests.

Ids of the two sides collide, so a message is told by its `method` first and by its `id` second. All of it is pure:
bytes to messages, and messages to lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from turnlog.agents.codex.credentials import without_credentials
from turnlog.errors import InvalidInput, TooLarge
from turnlog.limits import CODEX_LINE_BYTES_MAX

RpcId: TypeAlias = int | str

METHOD_UNKNOWN: Final = -32601
"""The code for a request that we do not answer otherwise."""

_SHOWN_BYTES: Final = 200
"""Bytes of an unreadable line that are told: enough to know what wrote it."""

_SHOWN_CHARS: Final = 200
"""The same of an error of another shape than is known."""


class RpcError(msgspec.Struct, frozen=True):
    """Why the other side refused a request."""

    code: int = 0
    message: str = ""


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request of ours: a result, or why there is none."""

    id: RpcId
    result: msgspec.Raw
    error: RpcError | None = None


class Asked(msgspec.Struct, frozen=True):
    """A request of the other side: it waits until it is answered."""

    id: RpcId
    method: str
    params: msgspec.Raw


class Told(msgspec.Struct, frozen=True, dict=True):
    """A notification."""

    method: str
    params: msgspec.Raw

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Its parameters by name, decoded once for all who ask; of another shape, none."""
        try:
            params = msgspec.json.decode(self.params)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return params if isinstance(params, dict) else {}


class Unreadable(msgspec.Struct, frozen=True):
    """A line that is no message: its beginning."""

    beginning: bytes


Message: TypeAlias = Reply | Asked | Told | Unreadable


class _Line(msgspec.Struct):
    id: RpcId | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


_lines: Final = msgspec.json.Decoder(_Line)
_errors: Final = msgspec.json.Decoder(RpcError)


def read_message(line: bytes) -> Message:
    """The message that a line holds; raw parts keep their bytes."""
    try:
        read = _lines.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return Unreadable(line[:_SHOWN_BYTES])
    if read.method is not None:
        if read.id is None:
            return Told(read.method, read.params)
        return Asked(read.id, read.method, read.params)
    if read.id is None or not (bytes(read.result) or bytes(read.error)):
        return Unreadable(line[:_SHOWN_BYTES])
    return Reply(read.id, read.result, _read_error(read.error) if bytes(read.error) else None)


def _read_error(raw: msgspec.Raw) -> RpcError:
    try:
        error = _errors.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        words = without_credentials(bytes(raw).decode("utf-8", "replace"))
        return RpcError(message=words[:_SHOWN_CHARS])
    return RpcError(error.code, without_credentials(error.message))


class Lines:
    """Cuts a stream of bytes into lines. Only a line feed ends one: all else may stand in JSON."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes and give the lines they complete, without their line feeds and without empty ones.

        Raises `TooLarge` for a line over `CODEX_LINE_BYTES_MAX`.
        """
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._append(part)
            line = b"".join(self._parts)
            self._parts, self._bytes = [], 0
            if line.strip():
                yield line
        self._append(rest)

    def _append(self, part: bytes) -> None:
        self._bytes += len(part)
        if self._bytes > CODEX_LINE_BYTES_MAX:
            raise TooLarge(field="line", limit="CODEX_LINE_BYTES_MAX", limit_value=CODEX_LINE_BYTES_MAX)
        if part:
            self._parts.append(part)


def request_line(id_: RpcId, method: str, params: Any) -> bytes:
    """A request. `params` may hold `msgspec.Raw`; `InvalidInput` when it holds what has no UTF-8."""
    return _line(method, {"id": id_, "method": method, "params": params})


def notification_line(method: str) -> bytes:
    """A notification without parameters, the only kind there is to send."""
    return _line(method, {"method": method})


def result_line(id_: RpcId, result: Any) -> bytes:
    """The answer to a request of the other side."""
    return _line("result", {"id": id_, "result": result})


def error_line(id_: RpcId, code: int, message: str) -> bytes:
    """The refusal of a request of the other side."""
    return _line("error", {"id": id_, "error": {"code": code, "message": message}})


def one_line(raw: bytes) -> msgspec.Raw:
    """A JSON text for a line: its line ends, which can only stand between its tokens, become spaces."""
    return msgspec.Raw(raw.replace(b"\n", b" ").replace(b"\r", b" "))


def _line(field: str, message: dict[str, Any]) -> bytes:
    """One line. What has no UTF-8 makes the other side end, or never answer: it is refused here."""
    try:
        line = msgspec.json.encode(message)
        line.decode("utf-8")
    except UnicodeError as error:
        raise InvalidInput(field=field, problem="holds half a surrogate pair, which has no UTF-8") from error
    assert b"\n" not in line, "a raw part must be one line"
    return line + b"\n"
