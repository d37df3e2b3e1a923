"""The heart of the folds: at every position, live, batched and refolded views are equal (P9)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from hypothesis import given
from hypothesis import strategies as st

from tests.folds.simulate import Frame, Simulator, events_of, threads, whole_drafts
from turnlog.errors import RecordDamaged
from turnlog.events.codec import decode_body
from turnlog.events.kinds import Draft, Event
from turnlog.folds.timeline import Timeline
from turnlog.folds.transcript import Transcript


class Fold(Protocol):
    def event(self, event: Event) -> None: ...
    def draft(self, chunk: Draft) -> None: ...
    def view(self) -> object: ...


def feed(fold: Fold, frames: Sequence[Frame]) -> None:
    for frame in frames:
        if isinstance(frame, Draft):
            fold.draft(frame)
        else:
            fold.event(frame)


def seen(fold: Fold) -> object:
    try:
        return fold.view()
    except RecordDamaged:
        return None


def refolded(fold: Fold, frames: Sequence[Frame], seed: int) -> object:
    """What a fresh reader sees: the events, then each open draft whole, in any order."""
    drafts = whole_drafts(frames)
    random.Random(seed).shuffle(drafts)
    feed(fold, [*events_of(frames), *drafts])
    return seen(fold)


def folds(simulator: Simulator) -> list[type[Transcript] | str]:
    return [Transcript, *[f"turn-{number + 1}" for number in range(simulator.turns)]]


def fresh(what: type[Transcript] | str) -> Fold:
    return Timeline(what) if isinstance(what, str) else Transcript()


@given(threads(), st.integers(0, 2**32))
def test_live_equals_refolded_at_every_position(simulator: Simulator, seed: int) -> None:
    """Applied one by one, a fold shows at every (seq, rev) what folding again from the start shows (P9, C22, C23)."""
    for what in folds(simulator):
        live = fresh(what)
        for position, frame in enumerate(simulator.frames, 1):
            feed(live, [frame])
            assert seen(live) == refolded(fresh(what), simulator.frames[:position], seed)


@given(threads(), st.lists(st.integers(1, 9)))
def test_live_equals_batched(simulator: Simulator, sizes: list[int]) -> None:
    """Viewing after each frame or only after batches makes no difference (P9)."""
    for what in folds(simulator):
        live, batched, position = fresh(what), fresh(what), 0
        for size in [*sizes, len(simulator.frames)]:
            batch = simulator.frames[position : position + size]
            for frame in batch:
                feed(live, [frame])
                seen(live)
            feed(batched, batch)
            position += size
            assert seen(live) == seen(batched)


@given(threads())
def test_stored_bytes_fold_equally(simulator: Simulator) -> None:
    """Events decoded from their stored bytes give the view of the events as they were written (P9)."""
    events = events_of(simulator.frames)
    decoded = [
        Event(
            thread=event.thread,
            seq=event.seq,
            turn=event.turn,
            at=event.at,
            kind=event.kind,
            body=decode_body(event.kind, event.v, event.data),
            data=event.data,
        )
        for event in events
    ]
    for what in folds(simulator):
        written, read = fresh(what), fresh(what)
        feed(written, events)
        feed(read, decoded)
        assert seen(written) == seen(read)
