"""How entries of a timeline look on a terminal: their order, their lines, and how a turn's end is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from turnlog.cli.output import Output, Style
from turnlog.cli.store import Store
from turnlog.cli.words import duration, harmless, one_line, plural, shell_word
from turnlog.events.clock import rfc3339
from turnlog.events.kinds import StepStatus
from turnlog.folds.entries import FINAL, Entry, TimelineView
from turnlog.folds.notices import notice_text
from turnlog.folds.states import State
from turnlog.folds.turn import TurnView

STATUS_WORDS: Final[dict[StepStatus, str]] = {
    "running": "running",
    "waiting": "waiting for you",
    "succeeded": "done",
    "failed": "failed",
    "interrupted": "interrupted",
    "unknown": "outcome unknown",
}
STATUS_STYLES: Final[dict[StepStatus, Style]] = {
    "running": "dim",
    "waiting": "yellow",
    "succeeded": "green",
    "failed": "red",
    "interrupted": "yellow",
    "unknown": "yellow",
}
STATE_WORDS: Final[dict[State, str]] = {
    "submitted": "waiting",
    "worker_started": "running",
    "assistant_started": "running",
    "completed": "done",
    "interrupted": "interrupted",
}
STATE_STYLES: Final[dict[State, Style]] = {
    "submitted": "plain",
    "worker_started": "plain",
    "assistant_started": "plain",
    "completed": "green",
    "interrupted": "yellow",
}
_INDENT_MOST: Final = 12
_UNKNOWN_SHOWN: Final = 20


def in_order(entries: Iterable[Entry]) -> Iterator[tuple[Entry, int, bool]]:
    """(entry, depth, whether this is its end): children after their parent; only what may have children has an end."""
    children: dict[str | None, list[Entry]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry)
    waiting = [(entry, 0, False) for entry in reversed(children.get(None, []))]
    while waiting:
        entry, depth, ends = waiting.pop()
        yield entry, depth, ends
        inner = children.get(entry.id, [])
        if not ends and (inner or entry.kind == "subagent"):
            waiting.append((entry, depth, True))
            waiting += [(child, depth + 1, False) for child in reversed(inner)]


def is_text(entry: Entry) -> bool:
    """Whether the entry is text that somebody wrote, and not something that was done."""
    return entry.kind in ("message", "reasoning")


def is_over(entry: Entry) -> bool:
    """Whether the entry keeps its status."""
    return entry.status in FINAL


def says_the_end(entry: Entry) -> bool:
    """Whether the entry only repeats how the turn ended, which is told below it."""
    return entry.kind == "note" and entry.name == "interrupted" and entry.mark is None


def indent(depth: int) -> str:
    """The margin of an entry: what an agent does stands in by two columns, so that its answer stands out."""
    return "  " * (min(depth, _INDENT_MOST) + 1)


def label(entry: Entry) -> str:
    """What an entry is, on one line."""
    name = one_line(entry.title or entry.name or entry.kind)
    if entry.kind == "note" and entry.name == "interrupt_requested":
        name = f"Interrupt requested by {one_line(entry.title)}" if entry.title else "Interrupt requested"
    return f"{name} [{entry.mark}]" if entry.mark else name


def step_line(out: Output, entry: Entry, depth: int) -> None:
    """One thing that was done: what, its status in words, how long; a failure says why and what can be done."""
    margin = indent(depth)
    out.write(f"{margin}{label(entry)}")
    plain_note = entry.kind in ("note", "plan") and entry.status == "succeeded"
    if not plain_note:
        out.write(" · ", "dim")
        out.write(STATUS_WORDS[entry.status], STATUS_STYLES[entry.status])
    if entry.started_at is not None and entry.ended_at is not None and not plain_note:
        out.write(f" · {duration(entry.ended_at - entry.started_at)}", "dim")
    out.line()
    if entry.detail and entry.detail != entry.title:
        block(out, entry.detail, f"{margin}  ", "dim")
    if entry.failure is not None:
        block(out, entry.failure.reason, f"{margin}  ", "red")
        if entry.failure.next_step:
            block(out, f"Next: {entry.failure.next_step}", f"{margin}  ", "red")


def block(out: Output, text: str, margin: str, style: Style = "plain") -> None:
    """Text of several lines, each with a margin."""
    for line in harmless(text).rstrip("\n").split("\n"):
        out.line(f"{margin}{line}" if line else "", style)


def local_time(at_us: int) -> str:
    """A time for people, in the zone of their machine."""
    try:
        return f"{datetime.fromtimestamp(at_us // 1_000_000).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # no time of the calendar, or of this machine's
        return rfc3339(at_us)


def counts(view: TurnView) -> str:
    """What was done in a turn, in numbers that are not 0."""
    numbers = ((view.tools, "tool"), (view.subagents, "sub-agent"), (view.failures, "failure"))
    return "".join(f" · {plural(count, thing)}" for count, thing in numbers if count)


def tell_end(out: Output, store: Store, thread: str, view: TimelineView) -> None:
    """How a turn ended; after an interruption what is safe, what is unknown and what to do."""
    turn = view.turn
    took = duration(turn.settled_at - turn.submitted_at) if turn.settled_at is not None else None
    rest = f"{counts(turn)} · turn {shell_word(turn.turn)}"
    if turn.state == "completed":
        out.line(f"Done in {took}{rest}", "dim")
        return
    if turn.state != "interrupted":
        out.line(f"{STATE_WORDS[turn.state].capitalize()}{rest}", "yellow")
        out.line(notice_text("queued" if turn.state == "submitted" else "running", None, 0))
        out.line(f"Watch it: {store.command('tail', thread, options=('--follow',))}")
        return
    unknown = _unknown(view)
    out.write(f"Interrupted ({turn.reason or 'reason unreadable'})", "yellow")
    out.line(f" after {took}{rest}", "dim")
    out.line(notice_text("interrupted", turn.reason, len(unknown)))
    for entry in view.entries:
        if says_the_end(entry) and entry.text:
            block(out, entry.text, "  ", "dim")
    if any(entry.kind == "message" and entry.text for entry in view.entries):
        out.line("The text above is all that was shown; it is kept.")
    tell_unknown(out, view)
    out.line(f"Ask again: {retry_command(store, thread, turn.turn)}")


def tell_unknown(out: Output, view: TimelineView) -> None:
    """The calls that were begun and whose outcome nobody knows."""
    unknown = _unknown(view)
    for entry in unknown[:_UNKNOWN_SHOWN]:
        out.line(f"  outcome unknown: {label(entry)}", "yellow")
    if len(unknown) > _UNKNOWN_SHOWN:
        out.line(f"  and {len(unknown) - _UNKNOWN_SHOWN} more", "yellow")


def _unknown(view: TimelineView) -> list[Entry]:
    return [entry for entry in view.entries if entry.kind == "tool" and entry.status == "unknown"]


def retry_command(store: Store, thread: str, turn: str) -> str:
    """The command that runs an interrupted turn again."""
    return store.command("ask", thread, options=(f"--retry={turn}",))
