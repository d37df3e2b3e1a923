"""What a Responses endpoint refuses or drops of its input, written from the rules alone: shares no code with the folds.

Each rule is one that a provider, or the app-server in front of it, was seen to have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

CLIENT_PAIRS: Final = {
    "function_call": {"function_call_output"},
    "custom_tool_call": {"custom_tool_call_output"},
    "local_shell_call": {"local_shell_call_output", "function_call_output"},
    "shell_call": {"shell_call_output"},
    "apply_patch_call": {"apply_patch_call_output"},
    "computer_call": {"computer_call_output"},
}

SERVER_FIELDS: Final = ("id", "encrypted_content", "previous_response_id", "response_id")

PORTABLE_TYPES: Final = frozenset(
    {"message", "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"}
)


def read(items: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in items]


def faults(items: Sequence[bytes]) -> list[str]:
    """What an endpoint would say against these items; nothing when it takes them."""
    found = [fault for raw in items for fault in _text_faults(raw)]
    given = read(items)
    return [*found, *_shape_faults(given), *_pair_faults(given), *_reasoning_faults(given)]


def portable_faults(items: Sequence[bytes]) -> list[str]:
    """The same for an endpoint that made none of the items."""
    found = faults(items)
    for item in read(items):
        kind = item.get("type", "message")
        base = kind.removesuffix("_output")
        if base not in PORTABLE_TYPES:
            found.append(f"unknown type {kind}")
        for field in SERVER_FIELDS:
            if field in item and not (kind == "local_shell_call_output" and item["id"] == item.get("call_id")):
                found.append(f"{field} of another server in {kind}")
        content = item.get("content")
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("file_id") and "image_url" not in part:
                found.append("a file of another server")
    return found


def _shape_faults(given: Iterable[dict[str, Any]]) -> Iterable[str]:
    """An item names its type; a message, which alone may go without, has a role and content."""
    for item in given:
        if item.get("type", "message") == "message":
            if not (isinstance(item.get("role"), str) and isinstance(item.get("content"), str | list)):
                yield "a message without role or content"
                continue
            texts = {"output_text", "refusal"} if item["role"] == "assistant" else {"input_text"}
            for part in item["content"] if isinstance(item["content"], list) else []:
                if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                    yield "a part that is none"
                elif part["type"] in {"output_text", "refusal", "input_text"} - texts:
                    yield f"a part {part['type']} of the {item['role']}"
        elif not isinstance(item["type"], str):
            yield "an item without a type"


def _text_faults(raw: bytes) -> Iterable[str]:
    """The body of a request is JSON in UTF-8 that has no half of a surrogate pair, and an item is an object."""
    try:
        item = json.loads(raw)
    except ValueError:
        yield f"no JSON: {raw!r}"
        return
    if not isinstance(item, dict):
        yield f"no object: {raw!r}"
    try:
        json.dumps(item, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        yield f"a lone surrogate: {raw!r}"


def _pair_faults(given: Sequence[dict[str, Any]]) -> Iterable[str]:
    """Each call of the client has one output behind it, and each output a call of its kind before it."""
    open_calls: Counter[tuple[str, str]] = Counter()
    for item in given:
        kind, call = item.get("type", "message"), item.get("call_id") or ""
        if kind in CLIENT_PAIRS or (kind.endswith("_call") and call):
            if not call:
                yield f"{kind} without a call id"
            open_calls[kind, call] += 1
        elif kind.endswith("_output"):
            call = call or item.get("id") or ""
            calls = [base for base, outputs in CLIENT_PAIRS.items() if kind in outputs] or [
                kind.removesuffix("_output")
            ]
            asked = next((base for base in calls if open_calls[base, call] > 0), None)
            if asked is None:
                yield f"{kind} {call} without its call"
            else:
                open_calls[asked, call] -= 1
    for (kind, call), count in open_calls.items():
        if count:
            yield f"{kind} {call} without its output"


def _reasoning_faults(given: Sequence[dict[str, Any]]) -> Iterable[str]:
    """Reasoning is followed at once by something else that the model made."""
    for item, after in zip_longest(given, given[1:]):
        if item.get("type") == "reasoning" and (
            after is None
            or after.get("type", "").endswith("_output")
            or (after.get("type", "message") == "message" and after.get("role") != "assistant")
        ):
            yield "reasoning without its following item"
