"""The filter of host context: marks decide, an allow-list keeps, and tags are only the fallback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnlog.protocols.codex_context import context_kind

ENVIRONMENT = "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>"


def message(role: str, *texts: str, kinds: Any = None) -> bytes:
    part = "output_text" if role == "assistant" else "input_text"
    item: dict[str, Any] = {"type": "message", "role": role, "content": [{"type": part, "text": t} for t in texts]}
    if kinds is not None:
        item["internal_chat_message_metadata_passthrough"] = {"turn_id": "U", "content_item_kinds": kinds}
    return json.dumps(item).encode()


@pytest.mark.parametrize(
    "kind",
    [
        "host_skills.instructions",
        "permissions.instructions",
        "environments.environment_context",
        "agents_md.instructions",
        "generic.developer_instructions",
        "skills.selected_skill_instructions",
        "collaboration_mode.instructions",
        "model_switch.instructions",
        "model.base_instructions",
        "multi_agent.role_instructions",
        "generic.turn_aborted",
        "shell.user_command",
        "additional_content.KEY",
        "a.kind_of_next_year",
    ],
)
@pytest.mark.parametrize("role", ["user", "developer"])
def test_a_kind_nobody_said_is_context(kind: str, role: str) -> None:
    """Whatever is not marked as somebody's words is host context, kinds that nobody knows yet too (trap 8)."""
    assert context_kind(message(role, "no tag at all", kinds=[kind])) == kind


def test_items_of_mixed_kinds_are_context_only_as_a_whole() -> None:
    """Several kinds of context in one item are named; one part that a person said keeps the whole item."""
    mixed = ["agents_md.instructions", "environments.environment_context"]
    assert context_kind(message("user", "a", "b", kinds=mixed)) == ", ".join(mixed)
    assert context_kind(message("user", "a", "b", kinds=["agents_md.instructions", "user.text"])) is None


@pytest.mark.parametrize("kind", ["user.text", "user.image", "user.audio", "unknown"])
def test_what_somebody_said_is_kept(kind: str) -> None:
    """The person's words and the model's are kept, even when the person typed the very tags of a host (trap 8)."""
    assert context_kind(message("user", ENVIRONMENT, kinds=[kind])) is None
    assert context_kind(message("assistant", "fine", kinds=["unknown"])) is None


@pytest.mark.parametrize("role", ["developer", "system"])
@pytest.mark.parametrize("kinds", [None, ["unknown"], ["user.text"]])
def test_a_hosts_role_is_context_always(role: str, kinds: Any) -> None:
    """Only a host speaks as developer or system."""
    assert context_kind(message(role, "do this", kinds=kinds)) is not None


@pytest.mark.parametrize(
    "text",
    [
        ENVIRONMENT,
        f"\n {ENVIRONMENT} \n",
        "<permissions instructions>\nx</permissions instructions>",
        "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>",
        "<skills_instructions>\n## Skills\n</skills_instructions>",
        "<skill>\n<name>x</name></skill>",
        "<turn_aborted>\nx\n</turn_aborted>",
        "<user_shell_command>\n<command>ls</command></user_shell_command>",
    ],
)
@pytest.mark.parametrize("kinds", [None, [], ["a", "b"], "user.text", [1]])
def test_without_usable_marks_a_whole_wrapper_is_context(text: str, kinds: Any) -> None:
    """Old files have no marks: there a user message that is wholly one known wrapper is context."""
    assert context_kind(message("user", text, kinds=kinds)) is not None
    assert context_kind(message("user", text, ENVIRONMENT)) is not None


@pytest.mark.parametrize(
    "texts",
    [
        ["hello"],
        [f"look: {ENVIRONMENT}"],
        [f"{ENVIRONMENT} is what I got"],
        [f"{ENVIRONMENT} and {ENVIRONMENT}"],
        ["<environment_context>"],
        ["<unknown_tag>x</unknown_tag>"],
        [ENVIRONMENT, "hello"],
        [""],
        [],
    ],
)
def test_without_marks_what_is_not_wholly_a_wrapper_is_kept(texts: list[str]) -> None:
    """A message that only quotes a wrapper, or has one part of another text, is the person's."""
    assert context_kind(message("user", *texts)) is None


def test_the_models_words_are_never_told_by_tags() -> None:
    """An assistant that answers with a host's tags has answered."""
    assert context_kind(message("assistant", ENVIRONMENT)) is None


@pytest.mark.parametrize("kind", ["additional_tools", "configuration_update", "compaction_trigger", "other"])
def test_types_that_carry_no_words_are_context(kind: str) -> None:
    """Lists of tools and the like are context by their type: they have no tags at all."""
    assert context_kind(json.dumps({"type": kind, "role": "developer", "tools": []}).encode()) == kind


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": ENVIRONMENT},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "reasoning", "summary": []},
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "of next year"},
        {"type": ["strange"]},
        {"type": "message", "role": "user", "content": "text"},
        {"type": "message", "role": "user", "content": [None, 7]},
        {"type": "message", "role": 7, "content": None, "internal_chat_message_metadata_passthrough": 1},
        {},
    ],
)
def test_everything_else_is_kept(item: dict[str, Any]) -> None:
    """Calls, outputs, thoughts and shapes that nobody knows are no context."""
    assert context_kind(json.dumps(item).encode()) is None


def test_an_output_that_belongs_to_no_call_is_context() -> None:
    """A function output without a call id is how untrusted context comes."""
    item = {"type": "function_call_output", "name": "KEY", "namespace": "agent", "output": "x"}
    assert context_kind(json.dumps(item).encode()) == "function_call_output without a call"


@pytest.mark.parametrize("raw", [b"no json", b"[]", b'"text"', b"\xff", b"[" * 3_000])
def test_what_cannot_be_read_is_kept(raw: bytes) -> None:
    """Bytes that are no item are not dropped here: what becomes of them is for others to say."""
    assert context_kind(raw) is None
