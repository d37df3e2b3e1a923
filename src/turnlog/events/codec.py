"""Bytes from bodies and back: deterministic, exact, and strict about what may be kept.

A stored body is one line of compact JSON; kinds in `PAYLOAD_KINDS` continue after that line's LF with their `raw`
bytes, untouched. JSON escapes control characters, so the first LF always ends the line.

What cannot be kept exactly is refused before anything is stored: NaN and Infinity, keys that are not text, nesting over
`JSON_DEPTH_MAX`, bytes that are not UTF-8. Kept exactly: integers of any size, NUL, lone surrogates (as JSON escapes),
U+2028 and its kin, the order of keys.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from turnlog.errors import InvalidInput, NotJson, RecordDamaged, TooLarge
from turnlog.events.clock import rfc3339
from turnlog.events.kinds import (
    KINDS,
    PAYLOAD_KINDS,
    VERSION,
    AnyBody,
    Attachment,
    Damaged,
    Event,
    Item,
    KnownBody,
    ThreadItem,
    ThreadLate,
    Unknown,
)
from turnlog.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX

T = TypeVar("T")

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LINE_ENDS: Final = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]")
"""U+0085, U+2028 and U+2029 in UTF-8."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGER_BITS_MAX: Final = 14_000
"""Longer integers have more than 4,300 digits, which Python itself refuses to read."""
_OPENING: Final = frozenset(b"[{")
_CLOSING: Final = frozenset(b"]}")


class RawHead(msgspec.Struct, frozen=True):
    """What of a raw model item is looked at when it is accepted; anything else of it may be of any shape."""

    type: Any = None
    id: Any = None
    call_id: Any = None
    role: Any = None


# --- values ----------------------------------------------------------------------------------------------------


def encode_json(value: Any, *, order: str | None = None) -> bytes:
    """Compact JSON of a checked value or struct, UTF-8. Only a lone surrogate, which UTF-8 lacks, becomes an escape."""
    try:
        return msgspec.json.encode(value, order="sorted" if order == "sorted" else None, enc_hook=_plain)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_plain)
        text = json.dumps(
            plain, separators=(",", ":"), sort_keys=order == "sorted", ensure_ascii=False, allow_nan=False
        )
        return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text).encode("utf-8")


def _plain(value: Any) -> Any:
    """The built-in value that a subclass or another container stands for."""
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_json(data: bytes, kind: type[T]) -> T:
    """Decode into `kind`, or raise `RecordDamaged`. Falls back to the stdlib, which reads lone surrogates."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        problem = str(error)
    try:
        return msgspec.convert(json.loads(data.decode("utf-8"), parse_constant=refuse_constant), kind)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise RecordDamaged(problem=problem) from None


def refuse_constant(name: str) -> NoReturn:
    """What the stdlib calls for NaN and Infinity. Raises `ValueError`."""
    raise ValueError(f"{name} is not JSON")


def check_value(field: str, value: Any) -> None:
    """Raise `NotJson` unless `value` is built of dicts with text keys, lists, text, exact numbers, bools and None.

    Raises `TooLarge` for what is nested too deeply, or has more parts than a body has bytes.
    """
    waiting: list[tuple[Any, int]] = [(value, 1)]
    parts = 0
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if parts > BODY_BYTES_MAX:
            raise TooLarge(field=field, limit="BODY_BYTES_MAX", limit_value=BODY_BYTES_MAX)
        if isinstance(part, int) and part.bit_length() > _INTEGER_BITS_MAX:
            raise NotJson(field=field, problem=f"an integer of {part.bit_length()} bits, which few readers take")
        if part is None or isinstance(part, str | int):
            continue
        if isinstance(part, float):
            if not math.isfinite(part):
                raise NotJson(field=field, problem=f"{part} has no JSON form")
            continue
        if depth > JSON_DEPTH_MAX:
            raise _too_deep(field)
        if isinstance(part, Mapping):
            if not all(isinstance(key, str) for key in part):
                raise NotJson(field=field, problem="a key of an object must be text")
            waiting += [(inner, depth + 1) for inner in part.values()]
        elif isinstance(part, Sequence) and not isinstance(part, bytes | bytearray | memoryview):
            waiting += [(inner, depth + 1) for inner in part]
        else:
            raise NotJson(field=field, problem=f"{type(part).__name__} has no JSON form")


def _too_deep(field: str) -> TooLarge:
    return TooLarge(field=field, problem="nested too deeply", limit="JSON_DEPTH_MAX", limit_value=JSON_DEPTH_MAX)


# --- raw model items -------------------------------------------------------------------------------------------


def accept_raw(raw: bytes | Mapping[str, Any], *, field: str = "item") -> tuple[bytes, RawHead]:
    """Check one raw item and return its bytes with what is read from it.

    Bytes are returned as they came; a mapping is encoded once, its key order kept. Raises `NotJson` (not UTF-8, not one
    JSON object, NaN or Infinity) or `TooLarge` (longer than `BODY_BYTES_MAX`, nested too deeply).
    """
    if isinstance(raw, Mapping):
        check_value(field, raw)
        raw = encode_json(raw if isinstance(raw, dict) else dict(raw))
    elif not isinstance(raw, bytes):
        raise NotJson(field=field, problem=f"must be bytes or a mapping, not {type(raw).__name__}")
    if len(raw) > BODY_BYTES_MAX:
        raise TooLarge(field=field, limit="BODY_BYTES_MAX", limit_value=BODY_BYTES_MAX, given=len(raw))
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(field=field, problem=f"not UTF-8 at byte {error.start}") from None
    if json_depth(raw) > JSON_DEPTH_MAX:
        raise _too_deep(field)
    if not raw.lstrip(b" \t\r\n").startswith(b"{"):
        raise NotJson(field=field, problem="must be one JSON object")
    try:
        return raw, decode_json(raw, RawHead)
    except RecordDamaged as error:
        raise NotJson(field=field, problem=error.problem) from None


def json_depth(data: bytes) -> int:
    """The deepest nesting of JSON text, counted without parsing it; at least that of any valid reading."""
    if data.count(b"[") + data.count(b"{") <= JSON_DEPTH_MAX:
        return 0
    depth = deepest = 0
    for byte in _STRING.sub(b"", data):
        if byte in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif byte in _CLOSING:
            depth -= 1
    return deepest


# --- bodies ----------------------------------------------------------------------------------------------------


def encode_body(body: KnownBody) -> bytes:
    """The stored bytes of a body, or `TooLarge` when they are more than `BODY_BYTES_MAX`."""
    if isinstance(body, Item | ThreadItem | ThreadLate):
        data = encode_json(msgspec.structs.replace(body, raw=b"")) + b"\n" + body.raw
    else:
        data = encode_json(body)
    if len(data) > BODY_BYTES_MAX:
        raise TooLarge(field=largest_field(body), limit="BODY_BYTES_MAX", limit_value=BODY_BYTES_MAX, given=len(data))
    return data


def largest_field(body: KnownBody) -> str:
    """What of a body to name when it is too large: an item, or the field that takes most of it."""
    if body.kind in PAYLOAD_KINDS:
        return body.kind
    return max(body.__struct_fields__, key=lambda name: len(encode_json(getattr(body, name))))


def accept_body(body: KnownBody) -> bytes:
    """The stored bytes of a body made from what a caller gave, or `InvalidInput` when it could not be read again."""
    try:
        data = encode_body(body)
    except TypeError as error:
        raise InvalidInput(field=body.kind, problem=str(error)) from None
    read = decode_body(body.kind, VERSION, data)
    if isinstance(read, Damaged):
        raise InvalidInput(field=body.kind, problem=read.problem)
    return data


def decode_body(kind: str, v: int, data: bytes) -> AnyBody:
    """The body of a stored record: `Unknown` for a newer kind or version, `Damaged` for an unreadable known one."""
    known = KINDS.get(kind)
    if known is None or v != VERSION:
        return Unknown()
    line, lf, raw = data.partition(b"\n") if kind in PAYLOAD_KINDS else (data, b"", b"")
    try:
        body: KnownBody = decode_json(line, known)
    except RecordDamaged as error:
        return Damaged(problem=error.problem)
    if kind in PAYLOAD_KINDS:
        if not lf:
            return Damaged(problem="the payload is missing")
        return msgspec.structs.replace(body, raw=raw)
    return body


def json_line(value: Any) -> bytes:
    """Compact JSON for other people's readers: some take U+0085, U+2028 and U+2029 for ends of lines."""
    return one_line(encode_json(value))


def one_line(data: bytes) -> bytes:
    """JSON text with these three as escapes: they stand in strings only, so its value is the same."""
    return _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0].decode()):04x}".encode(), data)


def event_json(event: Event) -> bytes:
    """An event as one JSON object on one line, for documents and streams: the raw item as a value in its place.

    What cannot be read, or is of another version, stands as text in `data`. For the line see `one_line`.
    """
    head, lf, raw = event.data.partition(b"\n") if event.kind in PAYLOAD_KINDS else (event.data, b"", b"")
    if lf and isinstance(event.body, Item | ThreadItem):
        head = (head[:-1] + b"," if head != b"{}" else b"{") + _raw_field(raw) + b"}"
    elif isinstance(event.body, ThreadLate):
        late = decode_body(event.body.late, event.v, raw)
        inner = event_json(
            msgspec.structs.replace(event, kind=event.body.late, body=late, data=raw, turn=event.body.of)
        )
        head = head[:-1] + b',"event":' + inner + b"}"
    elif isinstance(event.body, Unknown | Damaged):
        head = encode_json({"data": event.data.decode("utf-8", "replace")})
    envelope = encode_json({"seq": event.seq, "turn": event.turn, "kind": event.kind, "at": rfc3339(event.at)})
    return one_line(envelope[:-1] + b',"body":' + head + b"}")


def _raw_field(raw: bytes) -> bytes:
    """A raw item as a field of an object: as the value it is, or, when it is damaged, as text."""
    try:
        raw.decode("utf-8")
        decode_json(raw, RawHead)
    except (UnicodeDecodeError, RecordDamaged):
        return b'"data":' + encode_json(raw.decode("utf-8", "replace"))
    # Line ends in JSON stand only between values: as spaces, the value is the same and the document one line.
    return b'"raw":' + raw.replace(b"\n", b" ").replace(b"\r", b" ")


# --- digests ---------------------------------------------------------------------------------------------------


def content_digest(content: str | list[Any], attachments: Sequence[Attachment]) -> str:
    """SHA-256 (hex) of a submission's canonical content and its attachments' digests: what `key` stands for.

    Canonical is compact JSON with sorted keys. A file is its `sha256`; one without it is its name, for want of better.
    Model, workspace and all else that describes a file are not part of it.
    """
    files = [[item.sha256, None] if item.sha256 else [None, item.name] for item in attachments]
    canonical = encode_json([content, files], order="sorted")
    return hashlib.sha256(canonical).hexdigest()
