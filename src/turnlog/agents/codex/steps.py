"""Codex's thread items as steps of a timeline: pure, and content with any shape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from turnlog.agents.protocol import StepSignal
from turnlog.events.kinds import Failure, StepKind, StepStatus
from turnlog.limits import CODEX_STEP_TEXT_BYTES, NAME_BYTES_MAX

Item: TypeAlias = Mapping[str, Any]

TOLD_BY_RAW_ITEMS: Final = frozenset({"userMessage", "agentMessage", "reasoning", "functionCallOutput"})
"""Items whose raw form and drafts are an entry already."""

_STATUS: Final[dict[str, StepStatus]] = {
    "inProgress": "running",
    "completed": "succeeded",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "interrupted",
    "errored": "failed",
}
_TITLE_CHARS: Final = 200
_NAME_CHARS: Final = 160
"""Of which each has six bytes at most as JSON: a name fits NAME_BYTES_MAX."""


def step_of(item: Item, *, over: bool, at_us: int | None) -> StepSignal:
    """The step that an item is, as it begins or once it is `over`, at this time."""
    kind = text_of(item.get("type"))
    told = _TELLERS.get(kind, _unknown)(item)
    status: StepStatus = _STATUS.get(text_of(item.get("status")), "succeeded") if over else "running"
    failure = told.failure
    if over and item.get("status") == "declined":
        failure = Failure(reason="declined")
    if over and status == "succeeded" and failure is not None:
        status = "failed"
    if over and status == "running":
        status = "unknown"
    # A sub-agent that was started well is not over: its own turn says when.
    begun = told.step == "subagent" and status == "succeeded"
    return StepSignal(
        id=id_of(item.get("id")),
        step=told.step,
        call_id=id_of(item.get("id")) or None,
        name=told.name[:_NAME_CHARS] or None,
        title=told.title[:_TITLE_CHARS] or None,
        status=None if begun else status,
        args=bounded(told.args),
        output=shortened(told.output),
        text=shortened(told.text),
        failure=failure if over else None,
        started_at=None if over else at_us,
        ended_at=at_us if over and not begun else None,
        extra=told.extra or None,
    )


def step_inside(item: Item, *, over: bool, at_us: int | None, thread: str, parent: str) -> StepSignal | None:
    """The same for an item of a sub-agent, whose ids are its own thread's. What it said is told once it is said."""
    kind, id_ = text_of(item.get("type")), id_of(item.get("id"))
    if not id_ or (kind in TOLD_BY_RAW_ITEMS and not (over and kind == "agentMessage")):
        return None
    step = step_of(item, over=over, at_us=at_us)
    if kind == "agentMessage":
        text = shortened(item.get("text"))
        step = StepSignal(id=id_, step="note", name="message", status="succeeded", text=text, ended_at=at_us)
    return replace(step, id=id_of(f"{thread}/{id_}"), call_id=None, parent=parent, worker_thread=id_of(thread))


class _Told(msgspec.Struct, kw_only=True):
    """What an item says of itself."""

    name: str
    title: str = ""
    step: StepKind = "tool"
    args: Any = None
    output: str | None = None
    text: str | None = None
    failure: Failure | None = None
    extra: dict[str, Any] = {}


def _command(item: Item) -> _Told:
    code = item.get("exitCode")
    return _Told(
        name="command",
        title=text_of(item.get("command")),
        args=_present(item, "command", "cwd"),
        output=item.get("aggregatedOutput"),
        failure=Failure(reason=f"exit code {code}") if isinstance(code, int) and code else None,
        extra=_named(item, exit_code="exitCode", duration_ms="durationMs", process_id="processId", source="source"),
    )


def _file_change(item: Item) -> _Told:
    changes = item.get("changes")
    listed = changes if isinstance(changes, list) else []
    paths = [text_of(change.get("path")) for change in listed if isinstance(change, dict)]
    return _Told(name="file_change", title=", ".join(paths), args={"changes": changes})


def _mcp(item: Item) -> _Told:
    name = f"{text_of(item.get('server'))}.{text_of(item.get('tool'))}"
    return _called(item, name, item.get("result"))


def _dynamic(item: Item) -> _Told:
    told = _called(item, text_of(item.get("tool")), item.get("contentItems"))
    if item.get("success") is False and told.failure is None:
        told.failure = Failure(reason="the tool failed")
    return told


def _called(item: Item, name: str, result: Any) -> _Told:
    error = item.get("error")
    reason = error.get("message") if isinstance(error, dict) else error
    return _Told(
        name=name,
        title=name,
        args=item.get("arguments"),
        output=None if result is None else json_words(result),
        failure=None if error is None else Failure(reason=json_words(reason)[:_TITLE_CHARS]),
        extra=_named(item, duration_ms="durationMs"),
    )


def _web_search(item: Item) -> _Told:
    return _Told(name="web_search", title=text_of(item.get("query")), args=_present(item, "query", "action"))


def _subagent(item: Item) -> _Told:
    tool = text_of(item.get("tool"))
    return _Told(
        step="subagent" if tool == "spawnAgent" else "tool",
        name=tool,
        title=text_of(item.get("prompt")) or tool,
        args=_present(item, "prompt", "receiverThreadIds", "model"),
        output=json_words(item["agentsStates"]) if item.get("agentsStates") else None,
    )


def _plan(item: Item) -> _Told:
    return _Told(step="plan", name="plan", text=item.get("text"))


def _image(item: Item) -> _Told:
    return _Told(name="view_image", title=text_of(item.get("path")), args=_present(item, "path"))


def _unknown(item: Item) -> _Told:
    """An item of a kind that is not known here is told as it is."""
    kind = text_of(item.get("type"))
    return _Told(step="note", name=kind, title=kind, args=dict(item))


_TELLERS: Final[dict[str, Callable[[Item], _Told]]] = {
    "commandExecution": _command,
    "fileChange": _file_change,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _dynamic,
    "webSearch": _web_search,
    "collabAgentToolCall": _subagent,
    "plan": _plan,
    "imageView": _image,
}


# --- shapes ----------------------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""


def id_of(value: Any) -> str:
    """An id, or nothing; for one that the log does not take a digest of it, which is as good a name."""
    text = text_of(value)
    if _json_bytes(text) - 2 <= NAME_BYTES_MAX and not text.startswith("~"):
        return text
    return f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"


def json_words(value: Any) -> str:
    """Text itself, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shortened(text: Any) -> str | None:
    """A text that fits a step; one that was cut says so. The raw items hold what the model was told."""
    if not isinstance(text, str):
        return None
    size = _json_bytes(text)
    if size <= CODEX_STEP_TEXT_BYTES:
        return text
    kept = text[: len(text) * CODEX_STEP_TEXT_BYTES // size]
    while _json_bytes(kept) > CODEX_STEP_TEXT_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    return f"{kept}\n[cut here, after {len(kept)} of {len(text)} characters]"


def bounded(value: Any) -> Any:
    """Arguments that fit a step; too large ones become the beginning of their JSON."""
    return value if _json_bytes(value) <= CODEX_STEP_TEXT_BYTES else shortened(json_words(value))


def _json_bytes(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _present(item: Item, *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name) is not None}


def _named(item: Item, **names: str) -> dict[str, Any]:
    return {ours: item[theirs] for ours, theirs in names.items() if item.get(theirs) is not None}
