"""A trace in numbers: what is shown of a settled turn before anybody opens its trace."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnlog.folds.entries import Brief, Entry
from turnlog.limits import CALLS_SHOWN, SAID_EVENTS_MAX


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a trace has. Messages of the answer are no steps; nor is what came late, or tells how the turn ended.

    `unknown` counts calls of unknown outcome, `named` are the numbers of the first `CALLS_SHOWN` of these entries.
    `said` are seqs of events, in no order: with the turn's first and last one, and those that came late, they are all
    that a transcript needs of a settled turn, and some that it does not. None stands for more than `SAID_EVENTS_MAX`.
    """

    steps: int = 0
    tools: int = 0
    subagents: int = 0
    failures: int = 0
    unknown: int = 0
    named: tuple[int, ...] = ()
    said: tuple[int, ...] | None = ()


class Counting:
    """Makes the summary of entries that come one after the other."""

    def __init__(self) -> None:
        self._number = 0
        self._steps = self._tools = self._subagents = self._failures = self._unknown = 0
        self._named: list[int] = []
        self._said: list[int] = []

    def add(self, entry: Entry) -> None:
        """Count the next entry."""
        if is_step(entry):
            self._steps += 1
            self._tools += entry.kind == "tool"
            self._subagents += entry.kind == "subagent"
            self._failures += entry.status == "failed"
        if is_unknown_call(entry):
            self._unknown += 1
            if len(self._named) < CALLS_SHOWN:
                self._named.append(self._number)
        said = _said_by(entry)
        if said is not None and len(self._said) <= SAID_EVENTS_MAX:
            self._said.append(said)
        self._number += 1

    def summary(self) -> Summary:
        """What was counted."""
        return Summary(
            steps=self._steps,
            tools=self._tools,
            subagents=self._subagents,
            failures=self._failures,
            unknown=self._unknown,
            named=tuple(self._named),
            said=tuple(self._said) if len(self._said) <= SAID_EVENTS_MAX else None,
        )


def summary_of(entries: Iterable[Entry]) -> Summary:
    """The summary of a whole trace."""
    counting = Counting()
    for entry in entries:
        counting.add(entry)
    return counting.summary()


def is_row(entry: Entry | Brief) -> bool:
    """Whether an entry stands in the trace: all but the answer's own messages, which stand below it."""
    return entry.kind != "message" or entry.parent is not None or entry.mark is not None


def is_step(entry: Entry) -> bool:
    """Whether an entry counts as a step: a row, but none that came late or tells how the turn ended."""
    return is_row(entry) and entry.mark != "late" and not is_own_note(entry, "interrupted", "interrupt_requested")


def is_own_note(entry: Entry, *names: str) -> bool:
    """Whether it is a note of one of these `names` that no agent wrote."""
    return _is_of_record(entry) and entry.mark != "late" and entry.name in names


def is_unknown_call(entry: Entry) -> bool:
    """Whether it is a call of which nobody knows what it has done."""
    return entry.kind == "tool" and entry.status == "unknown"


def _is_of_record(entry: Entry) -> bool:
    """Whether a record of the log is a note of its own, as damaged ones are, and of unknown kinds."""
    return entry.kind == "note" and entry.id == f"#{entry.seq}"


def _said_by(entry: Entry) -> int | None:
    """The seq of the event that a transcript may read a message or a notice from, if the entry is of such a one."""
    if entry.kind in ("message", "note") and entry.item is not None:
        return entry.item
    return entry.seq if _is_of_record(entry) and entry.mark != "late" else None
