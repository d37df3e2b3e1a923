"""Which raw items of Codex are host context: what its host told the model, and nobody said.

Codex marks each part of a message with a kind. Only kinds that are known to be somebody's words are kept, because new
kinds of context keep coming. Marks decide where there are any: a person may really have typed an
`<environment_context>`. Without marks, as in old files, a message is context by its role, or when every part of it is
wholly one of the known wrappers.

Today only the live agent asks here; the reading of old files, which is what the rules without marks are for, comes with
their importers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_CONTEXT_TYPES: Final = frozenset({"additional_tools", "configuration_update", "compaction_trigger", "other"})
"""Types of items that carry no words of anybody."""

_HOST_ROLES: Final = frozenset({"developer", "system"})

_WRAPPERS: Final = (
    ("<environment_context>", "</environment_context>"),
    ("<permissions instructions>", "</permissions instructions>"),
    ("<skills_instructions>", "</skills_instructions>"),
    ("<skill>", "</skill>"),
    ("<user_instructions>", "</user_instructions>"),
    ("# AGENTS.md instructions for ", "</INSTRUCTIONS>"),
    ("<collaboration_mode>", "</collaboration_mode>"),
    ("<model_switch>", "</model_switch>"),
    ("<multi_agent_role>", "</multi_agent_role>"),
    ("<multi_agent_mode>", "</multi_agent_mode>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<user_shell_command>", "</user_shell_command>"),
)


class _Item(msgspec.Struct):
    type: Any = None
    role: Any = None
    content: Any = None
    call_id: Any = None
    internal_chat_message_metadata_passthrough: Any = None


_decoder: Final = msgspec.json.Decoder(_Item)


def context_kind(raw: bytes) -> str | None:
    """What kind of host context an item is, in words for a note; None when it is to be kept.

    An item that cannot be read, or is of a shape nobody knows, is kept.
    """
    try:
        item = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(item.type, str) and item.type in _CONTEXT_TYPES:
        return item.type
    if item.type == "function_call_output" and not item.call_id:
        return "function_call_output without a call"
    if item.type != "message":
        return None
    return _message_kind(item)


def _kinds(item: _Item) -> tuple[str, ...]:
    marks = item.internal_chat_message_metadata_passthrough
    kinds = marks.get("content_item_kinds") if isinstance(marks, dict) else None
    usable = (
        isinstance(kinds, list)
        and isinstance(item.content, list)
        and len(kinds) == len(item.content) > 0
        and all(isinstance(kind, str) for kind in kinds)
    )
    return tuple(kinds) if usable and kinds is not None else ()


def _message_kind(item: _Item) -> str | None:
    kinds = _kinds(item)
    if item.role in _HOST_ROLES:
        return ", ".join(kinds) or f"{item.role} message"
    if kinds:
        said = any(kind.startswith("user.") or kind == "unknown" for kind in kinds)
        return None if said else ", ".join(kinds)
    if item.role == "user" and isinstance(item.content, list) and item.content:
        wrappers = [_wrapper(part) for part in item.content]
        if all(wrappers):
            return ", ".join(wrapper for wrapper in wrappers if wrapper)
    return None


def _wrapper(part: Any) -> str | None:
    """The wrapper that a part is wholly, from its first character to its last."""
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        return None
    text = text.strip()
    for begin, end in _WRAPPERS:
        if text.startswith(begin) and text.endswith(end) and text.index(end) == len(text) - len(end):
            return begin.strip("<># ")
    return None
