"""What must hold of threads that were truncated, forked, renamed and pinned: worked out of the raw events alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..proof.stored import Stored, StoredEvent, StoredThread
from .known import DONE, Known
from .left import Left, View
from .plan import Action

RECOVERED: Final = ("process_died", "not_started", "recovery_exhausted")
"""How a turn ends that another process has ended."""

SETTINGS: Final = {"rename": ("thread_renamed", "title", "text"), "pin": ("thread_settings", "pinned", "value")}
"""What is not always acknowledged with a seq: its event's kind, and which of its fields is which of the action's."""


def wrong_threads(left: Left, known: Known) -> Iterator[str]:
    """All that is wrong with what happened to whole threads."""
    for name, thread in left.stored.threads.items():
        yield from _wrong_fork(left.stored, thread)
        yield from _wrong_ends(thread)
        if name in left.views:
            yield from (f"{name}: {problem}" for problem in _wrong_view(thread, left.views[name]))
    for deed in known.deeds:
        if deed.outcome != DONE:
            continue
        if deed.action.what == "truncate":
            hidden = hidden_in(left.stored.threads[deed.action.thread])
            shown = [turn for turn in (deed.action.turn, *deed.value["hidden"]) if hidden.get(turn) is None]
            yield from (f"C12: {turn} is shown again after {deed}" for turn in shown)
        elif deed.action.what == "fork":
            fork = own_fork(left.stored.threads.get(deed.action.text))
            if fork is None or fork.fields["of"] != deed.action.thread:
                yield f"the fork is gone: {deed}"
        elif deed.action.what in SETTINGS and not _is_set(left.stored.threads[deed.action.thread], deed.action):
            yield f"what was acknowledged is gone: {deed}"


def _is_set(thread: StoredThread, action: Action) -> bool:
    """Whether a thread was once as it was acknowledged to be; nothing is written of one that is not pinned anyway."""
    kind, name, given = SETTINGS[action.what]
    value = getattr(action, given)
    return value is False or any(event.kind == kind and event.fields.get(name) == value for event in thread.events)


def hidden_in(thread: StoredThread) -> dict[str, int | None]:
    """By turn the first truncation that hides it: one whose range has the turn's submission."""
    ranges = [(event.fields["after"], event.seq) for event in thread.events if event.kind == "thread_truncated"]
    firsts = {event.turn: event.seq for event in thread.events if event.kind == "submitted"}
    return {
        str(turn): next((seq for after, seq in ranges if after < first < seq), None) for turn, first in firsts.items()
    }


def own_fork(thread: StoredThread | None) -> StoredEvent | None:
    """The event that ends the copy; what was copied may have one too."""
    forks = [event for event in (thread.events if thread else ()) if event.kind == "thread_forked"]
    return forks[-1] if forks else None


def copied(thread: StoredThread) -> int:
    """The last seq that was copied, 0 in a thread that is no fork."""
    fork = own_fork(thread)
    return 0 if fork is None else int(fork.fields["seq"])


def _wrong_fork(stored: Stored, thread: StoredThread) -> Iterator[str]:
    """A fork is its source, up to a place where no turn of it was open."""
    fork = own_fork(thread)
    if fork is None:
        return
    source, end = stored.threads[fork.fields["of"]], fork.fields["seq"]
    if fork.seq != end + 1 or thread.events[:end] != source.events[:end]:
        yield f"{thread.name} is not what its source {source.name} was up to {end}"
    begun = [event.turn for event in thread.events[:end] if event.kind == "submitted"]
    ended = [event.turn for event in thread.events[:end] if event.kind in ("completed", "interrupted")]
    if set(begun) != set(ended):
        yield f"{thread.name} was forked while {set(begun) - set(ended)} was open"


def _wrong_ends(thread: StoredThread) -> Iterator[str]:
    """P5, P7: nobody undoes what is open, and who was taken over adds nothing, not even late."""
    ends = {event.turn: event for event in thread.events if event.kind in ("completed", "interrupted")}
    firsts = {event.turn: event.seq for event in thread.events if event.kind == "submitted"}
    for event in thread.events:
        if event.kind == "thread_truncated" and event.fields["why"] == "undo":
            hidden = [turn for turn, first in firsts.items() if event.fields["after"] < first < event.seq]
            if running := [turn for turn in hidden if turn not in ends or ends[turn].seq > event.seq]:
                yield f"C12: {thread.name}: {running} were undone while they were open"
        elif event.kind == "thread_late" and ends[event.fields["of"]].fields.get("reason") in RECOVERED:
            yield f"P7: {thread.name}: seq {event.seq} is of a writer that was taken over"


def _wrong_view(thread: StoredThread, view: View) -> Iterator[str]:
    hidden = hidden_in(thread)
    for turn, by in hidden.items():
        if (view.hidden_by.get(turn) is None) is not (by is None):
            yield f"C12: {turn} is hidden by {by}, and its row tells {view.hidden_by.get(turn, 'nothing')}"
        if by is not None and view.shown[turn]:
            yield f"C12: the transcript shows {turn}, which {by} hides"
        if not view.hidden[turn] + view.shown[turn]:
            yield f"P4: no message of {turn} can be read"
    retried = {event.fields.get("retry_of") for event in thread.events if event.kind == "submitted"}
    if gone := [turn for turn, by in hidden.items() if by is None and turn not in retried and not view.shown[turn]]:
        yield f"the transcript does not show {gone}"
    titles = [event.fields["title"] for event in thread.events if event.kind == "thread_renamed"]
    if titles and view.title != titles[-1]:
        yield f"was named {titles[-1]!r}, and is {view.title!r}"
    pins = [event.fields["pinned"] for event in thread.events if event.kind == "thread_settings"]
    if view.pinned is not (pins[-1] if pins else False):
        yield f"was pinned {pins}, and is {view.pinned}"
