"""What the page says: names, times, counts and states in plain words."""

from __future__ import annotations

import json
from typing import Any, Final

from turnlog.events.clock import rfc3339
from turnlog.events.kinds import StepStatus
from turnlog.folds.entries import Entry
from turnlog.folds.nodes import EntryKind
from turnlog.folds.states import State
from turnlog.folds.turn import TurnView
from turnlog.web.page.view import Steps

STATE_WORDS: Final[dict[State, str]] = {
    "submitted": "Waiting",
    "worker_started": "Answering",
    "assistant_started": "Answering",
    "completed": "Answered",
    "interrupted": "Interrupted",
}

STATUS_WORDS: Final[dict[StepStatus, str]] = {
    "running": "Running",
    "waiting": "Awaiting you",
    "succeeded": "Done",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "unknown": "Outcome unknown",
}

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

_LABEL_CHARS: Final = 120


def one_line(text: str, most: int = _LABEL_CHARS) -> str:
    """The first words of a text on one line; what is cut ends in an ellipsis."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[: most - 1] + "…"


def label(entry: Entry) -> str:
    """What a row is about: its name or title."""
    return one_line(entry.name or entry.title or KIND_WORDS[entry.kind])


def target(entry: Entry) -> str:
    """What a tool was used on, or what else tells this row from others of its name; "" when nothing does."""
    for told in (argument(entry.args), entry.title if entry.name else None, entry.detail):
        if told and told != entry.name:
            return one_line(told)
    return one_line(entry.text) if entry.text and entry.kind in ("reasoning", "message") else ""


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


def duration(start_us: int | None, end_us: int | None) -> str:
    """The time between two readings of a clock; "" when one is missing or the clock was set back."""
    if start_us is None or end_us is None or end_us < start_us:
        return ""
    milliseconds = (end_us - start_us) // 1_000
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {seconds} s"


def moment(at_us: int) -> str:
    """A time for people, in UTC: a browser shows its own."""
    text = rfc3339(at_us)
    return f"{text[:10]} {text[11:16]} UTC" if text.endswith("Z") else text


def amount(number: int, one: str, many: str | None = None) -> str:
    """A count and its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def summary(steps: Steps, view: TurnView) -> str:
    """One line for a whole trace."""
    parts = [amount(steps.steps, "step")]
    parts += [amount(steps.tools, "tool")] if steps.tools else []
    parts += [amount(steps.subagents, "sub-agent")] if steps.subagents else []
    parts += [f"{steps.failures:,} failed"] if steps.failures else []
    lasted = duration(view.started_at, view.settled_at)
    return " · ".join([*parts, lasted] if lasted else parts)


def queue_words(place: int) -> str:
    """Where a waiting turn stands: `place` open turns come before it."""
    if place == 0:
        return "About to start"
    if place == 1:
        return "Waiting, next in line"
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"Waiting, {place}{ending} in line"


def usage_words(usage: dict[str, Any] | None) -> str:
    """Tokens, as far as the agent told them."""
    told = usage or {}
    counts = [
        (told.get(f"{side}_tokens", told.get(old)), word)
        for side, old, word in (("input", "prompt_tokens", "in"), ("output", "completion_tokens", "out"))
    ]
    parts = [f"{count:,} {word}" for count, word in counts if type(count) is int]
    return f"{' · '.join(parts)} tokens" if parts else ""
