"""Settled turns in short: what is shown of them while their trace is closed, read from their snapshots.

A gist stands for all events of its turn, so that a page of turns with long traces reads few of them. Who is given
none folds the events, which gives the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from turnlog.engines.protocol import Engine, TurnRow
from turnlog.events.kinds import KINDS, Event
from turnlog.folds.entries import Entry
from turnlog.folds.states import TERMINAL
from turnlog.folds.summary import Summary
from turnlog.folds.turn import TurnView
from turnlog.journal.records import read_events
from turnlog.journal.traces import Trace, covered
from turnlog.limits import READ_EVENTS_MAX


class Gist(msgspec.Struct, frozen=True, kw_only=True):
    """A settled turn in short.

    `view` is its row as it settled: without what came late. `unknown` are the calls that its `summary` names. `events`
    are those that a transcript needs of it, in order, late ones too; all it has up to the seq `covers` is told.
    """

    view: TurnView
    summary: Summary
    unknown: tuple[Entry, ...]
    events: tuple[Event, ...]
    covers: int


Told: TypeAlias = Event | Gist

_LOOSE: Final = frozenset(kind for kind in KINDS if kind.startswith("thread_"))


def gist_of(engine: Engine, row: TurnRow, view: TurnView, trace: Trace) -> Gist | None:
    """A settled turn's gist; None for one that says too much, and where the store is not as it should be: it is then
    to be folded, which shows all that there is. Raises `SnapshotGone`."""
    turn, summary = trace.summary()
    if summary.said is None or turn.illegal or turn.collisions:
        return None
    events = []
    for seq in sorted({row.seq_first, row.seq_last, *summary.said, *view.late}):
        event = next(read_events(engine, row.thread, seq - 1, before=seq + 1), None)
        if event is None or (event.turn != row.turn and seq not in view.late):
            return None
        if seq == row.seq_last and event.kind not in TERMINAL:
            return None
        events.append(event)
    return Gist(
        view=replace(turn, late=[]),
        summary=summary,
        unknown=tuple(trace.numbered(summary.named)),
        events=tuple(events),
        covers=covered(row, view),
    )


def told_events(
    engine: Engine, thread: str, after: int, gists: Sequence[Gist], turns: Collection[str]
) -> Iterator[Told]:
    """The events after a seq in order; instead of those of a turn that has a gist, the gist, where it begins.

    `turns` are other turns that may have events between those; what is not found by them is read with all the others.
    """
    for stretch in _stretches(gists):
        yield from read_events(engine, thread, after, before=stretch.first)
        beside = _beside(engine, thread, stretch, turns)
        if beside is None:
            yield from read_events(engine, thread, stretch.first - 1, before=stretch.last + 1)
        else:
            told: list[Told] = [*beside, *stretch.gists]
            yield from sorted(told, key=_seq_of)
        after = stretch.last
    yield from read_events(engine, thread, after)


def _seq_of(told: Told) -> int:
    return told.view.seq_first if isinstance(told, Gist) else told.seq


class _Stretch(NamedTuple):
    """Turns that overlap, from the first seq of them to the last."""

    first: int
    last: int
    gists: list[Gist]


def _stretches(gists: Sequence[Gist]) -> Iterator[_Stretch]:
    """Stretches in order, with no turn in two of them."""
    known: list[Gist] = []
    last = 0
    for gist in sorted(gists, key=_seq_of):
        if known and gist.view.seq_first > last:
            yield _Stretch(known[0].view.seq_first, last, known)
            known = []
        known.append(gist)
        last = max(last, gist.view.seq_last)
    if known:
        yield _Stretch(known[0].view.seq_first, last, known)


def _beside(engine: Engine, thread: str, stretch: _Stretch, turns: Collection[str]) -> list[Event] | None:
    """What lies between the events of these turns; None where it is much, or not all found: all is then to be read."""
    first, last, gists = stretch
    count = last - first + 1 - sum(gist.view.events for gist in gists)
    found: list[Event] = []
    if not 0 <= count <= READ_EVENTS_MAX:
        return None
    for turn in turns:
        if len(found) < count:
            found += read_events(engine, thread, first - 1, before=last + 1, turn=turn)
    if len(found) < count:
        found += read_events(engine, thread, first - 1, before=last + 1, kinds=_LOOSE)
    seqs = {event.seq for event in found}
    return found if len(seqs) == len(found) == count else None
