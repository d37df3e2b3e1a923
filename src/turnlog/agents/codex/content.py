"""What a person submitted, and what a history holds, as Codex takes it. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnlog.agents.codex.steps import json_words
from turnlog.errors import StartFailed

_TEXTS: Final = frozenset({"input_text", "text"})


def input_of(content: str | list[Any]) -> list[dict[str, Any]]:
    """The input of a turn: texts and images. Raises `StartFailed` for a part that Codex cannot be given.

    A lone surrogate becomes U+FFFD, as it does in a history: Codex takes nothing that has no UTF-8.
    """
    if isinstance(content, str):
        return [_text(content)]
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return _text(part["text"])
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image", "url": part["image_url"]}
    raise StartFailed(
        reason="start_failed", detail=f"Codex takes no part of type {json_words(kind)} with what this one holds"
    )


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": mended(text)}


def mended(value: Any) -> Any:
    """A JSON value without lone surrogates: each becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [mended(one) for one in value]
    if isinstance(value, dict):
        return {mended(name): mended(one) for name, one in value.items()}
    return value


class _Message(msgspec.Struct, omit_defaults=True):
    """A message whose content may be text and whose type may be left out, which endpoints take and Codex does not."""

    role: str
    content: str | list[msgspec.Raw]
    type: str = ""
    id: str | None = None


_message: Final = msgspec.json.Decoder(_Message)


def injected(raw: bytes) -> bytes:
    """An item of a history as Codex takes it: a message with its type and with parts; any other one as it is."""
    try:
        message = _message.decode(raw)
    except msgspec.DecodeError:
        return raw
    if message.type not in ("", "message") or (message.type and not isinstance(message.content, str)):
        return raw
    if isinstance(message.content, str):
        part = "output_text" if message.role == "assistant" else "input_text"
        message.content = [msgspec.Raw(msgspec.json.encode({"type": part, "text": message.content}))]
    message.type = "message"
    return msgspec.json.encode(message)
