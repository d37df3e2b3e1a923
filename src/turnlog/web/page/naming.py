"""What the rows of a trace are called, and what tells one from another."""

from __future__ import annotations

import json
from typing import Any, Final, cast, get_args

import msgspec

from turnlog.events.kinds import Reason
from turnlog.folds.entries import Entry
from turnlog.folds.nodes import EntryKind
from turnlog.folds.summary import is_own_note
from turnlog.limits import LABEL_CHARS_MAX
from turnlog.web.page.endings import end_detail, end_words, request_words

KIND_WORDS: Final[dict[EntryKind, str]] = {
    "reasoning": "Thought",
    "message": "Text",
    "tool": "Tool",
    "subagent": "Sub-agent",
    "plan": "Plan",
    "note": "Note",
    "approval": "Approval",
}

_TARGETS: Final = (
    *("pattern", "query", "q", "words", "command", "cmd"),
    *("path", "file", "file_path", "filename", "url", "name"),
)
"""Arguments that name what a tool is used on, the most telling first."""

DECISIONS: Final = (("accept", "Approve"), ("decline", "Decline"))
"""The two plain decisions, (value, word), which every approval takes that can be answered by yes or no."""


def one_line(text: str, most: int = LABEL_CHARS_MAX) -> str:
    """The first words of a text on one line; what is cut ends in an ellipsis."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[: most - 1] + "…"


def label(entry: Entry, most: int = LABEL_CHARS_MAX) -> str:
    """What a row is about: its name or title; of an approval its title, as the name is the agent's own for it."""
    names = (entry.title, entry.name) if entry.kind == "approval" else (entry.name, entry.title)
    return one_line(next((name for name in names if name), KIND_WORDS[entry.kind]), most)


def target(entry: Entry) -> str:
    """What a tool was used on, or what else tells this row from others of its name; "" when nothing does."""
    named = label(entry)
    for told in (argument(entry.args), entry.title if entry.name else None, entry.detail):
        if told and one_line(told) not in named:
            return one_line(told)
    return one_line(entry.text) if entry.text and entry.kind in ("reasoning", "message") else ""


def remark(entry: Entry) -> str:
    """The detail of a row, where neither its name nor its target says it."""
    told = one_line(entry.detail or "")
    return "" if told in label(entry) or told == target(entry) else entry.detail or ""


def decisions(entry: Entry) -> list[tuple[str, str]]:
    """The decisions that can be made by a button, (value, word): those of the two plain ones that the entry takes.

    An approval takes both unless its arguments say otherwise: they may list what it takes as `decisions`, or have
    `questions`, which neither of the two would answer.
    """
    if entry.kind != "approval":
        return []
    try:
        given: Any = json.loads(entry.args or "null")
    except (ValueError, RecursionError):
        given = None
    asked = given if isinstance(given, dict) else {}
    listed = [] if asked.get("questions") else asked.get("decisions")
    return [(value, word) for value, word in DECISIONS if not isinstance(listed, list) or value in listed]


def argument(args: str | None) -> str | None:
    """The telling argument of a call, whose arguments are JSON or plain text."""
    if args is None or len(args) > 10_000:
        return None
    try:
        given: Any = json.loads(args)
    except (ValueError, RecursionError):
        return None if args.lstrip()[:1] in ("{", "[") else args
    if isinstance(given, dict):
        found = next((given[name] for name in _TARGETS if name in given), None)
        given = found if found is not None else next(iter(given.values()), None) if len(given) == 1 else None
    if isinstance(given, list):
        given = " ".join(part for part in given if isinstance(part, str))
    return given if isinstance(given, str) else None


# --- notes that turnlog itself makes of a turn's records ------------------------------------------------------------


def in_words(entry: Entry) -> Entry:
    """The entry with what a record is called in it replaced by what it means."""
    if is_own_note(entry, "interrupted"):
        reason = cast(Reason, entry.title) if entry.title in get_args(Reason) else None
        words, text = end_words(reason, entry.text), end_detail(reason, entry.text)
        return msgspec.structs.replace(entry, name=None, title=words, text=text, failure=None)
    if is_own_note(entry, "interrupt_requested"):
        return msgspec.structs.replace(entry, name=None, title=request_words(entry.title))
    if is_own_note(entry, "attempt_dropped"):
        return msgspec.structs.replace(entry, name="The agent began anew")
    if is_own_note(entry, "decision"):
        return msgspec.structs.replace(entry, name=None, title="Decided")
    if entry.kind == "note" and entry.id == f"#{entry.seq}" and entry.name and entry.title:
        title = entry.title[:1].upper() + entry.title[1:]
        return msgspec.structs.replace(entry, name=None, title=title)
    return entry
