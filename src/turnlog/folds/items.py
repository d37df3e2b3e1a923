"""What folds read from a raw model item: its text, its arguments, its output. Any field may be of any shape."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from turnlog.events.codec import encode_json, refuse_constant

CLIENT_CALLS: Final = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"}
)
"""Types of calls that the client carries out, so that an output with their call id must follow. Any other call with a
call id is taken for one of them; a call without one (a web search, say) is carried out by the model's own side."""

NAMELESS_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Types of calls that some providers send with an empty call id: such a call belongs to the next such output."""


class RawItem(msgspec.Struct, frozen=True):
    """The fields of a raw item that a person is shown."""

    type: Any = None
    role: Any = None
    status: Any = None
    name: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None
    content: Any = None
    summary: Any = None
    error: Any = None


def _number(text: str) -> msgspec.Raw:
    """A number as it is written: as a float, `1e400` would be infinite and `1.10` another text."""
    return msgspec.Raw(text.encode())


_decoder: Final = msgspec.json.Decoder(RawItem, float_hook=_number)


def read_item(raw: bytes) -> RawItem | None:
    """The item, or None when its bytes are not one JSON object. Its numbers may be
    `msgspec.Raw`."""
    try:
        raw.decode("utf-8")  # what is skipped is not looked at otherwise
        return _decoder.decode(raw)
    except UnicodeDecodeError:
        return None
    except (msgspec.DecodeError, RecursionError):
        return _read_slowly(raw)


def _read_slowly(raw: bytes) -> RawItem | None:
    """The stdlib reads lone surrogates, and integers of any length when it need not make them numbers."""
    try:
        read = json.loads(raw.decode("utf-8"), parse_float=_number, parse_int=_number, parse_constant=refuse_constant)
        return msgspec.convert(read, RawItem)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def is_responses_item(item: RawItem) -> bool:
    """Whether it has what no Responses item is without: a type, and a message a role and content, which is text or
    parts with a type. The type of a message may be left out. A call of a function or a tool has a name and its input as
    text, and the output of one is there."""
    match item.type:
        case "function_call":
            return isinstance(item.name, str) and isinstance(item.arguments, str)
        case "custom_tool_call":
            return isinstance(item.name, str) and isinstance(item.input, str)
        case "function_call_output" | "custom_tool_call_output":
            return isinstance(item.output, str) or _are_parts(item.output)
    if item.type == "message" or (item.type is None and item.role is not None):
        return isinstance(item.role, str) and (isinstance(item.content, str) or _are_parts(item.content))
    return isinstance(item.type, str) and item.type != ""


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
    )


def parts_text(content: Any, joint: str = "") -> str:
    """The text of a message's content or of an output: text itself, or its text parts joined; else its JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        inner = content.get("content", content.get("text"))
        return inner if isinstance(inner, str) else json_text(content)
    if isinstance(content, list):
        return joint.join(part for part in map(_part_text, content) if part)
    return json_text(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return json_text(part)
    for field in ("text", "refusal"):
        if isinstance(part.get(field), str):
            return str(part[field])
    return f"[{json_text(part.get('type', 'part'))}]"


def reasoning_text(item: RawItem) -> str:
    """The summary of a reasoning item, or its open content."""
    texts = [parts_text(part, "\n\n") for part in (item.summary, item.content)]
    return "\n\n".join(text for text in texts if text)


def call_args(item: RawItem) -> str | None:
    """What a call was given, as text: its arguments, input or action."""
    for value in (item.arguments, item.input, item.action):
        if value is not None:
            return json_text(value)
    return None


def call_name(item: RawItem, item_type: str) -> str:
    """The name of the tool a call is for, else the kind of call."""
    if isinstance(item.name, str) and item.name:
        return item.name
    return item_type.removesuffix("_output").removesuffix("_call")


def json_text(value: Any) -> str:
    """Text itself, anything else as compact JSON; a number as the item has it."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except UnicodeEncodeError:
        return _compact(value)


def _compact(value: Any) -> str:
    """Compact JSON of what holds lone surrogates, which become escapes."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_compact(key)}:{_compact(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    return (bytes(value) if isinstance(value, msgspec.Raw) else encode_json(value)).decode("utf-8")


def joined(text: str) -> str:
    """The same text with halves of surrogate pairs that came apart put together; lone halves stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
