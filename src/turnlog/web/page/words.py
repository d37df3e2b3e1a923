"""What the page says: names, times, counts and states in plain words."""

from __future__ import annotations

from typing import Any, Final

from turnlog.events.clock import rfc3339
from turnlog.events.kinds import StepStatus
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
    parts = [amount(steps.steps, "step")] if steps.steps else []
    parts += [amount(steps.tools, "tool")] if steps.tools else []
    parts += [amount(steps.subagents, "sub-agent")] if steps.subagents else []
    parts += [f"{steps.failures:,} failed"] if steps.failures else []
    lasted = duration(view.started_at, view.settled_at)
    return " · ".join([*parts, lasted] if lasted else parts) or "Trace"


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
