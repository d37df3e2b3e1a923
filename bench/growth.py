"""Whether the cost of a submission depends on how long its thread is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import turnlog
from bench.measure import TEXT, Rounds, times_us
from bench.table import Line
from turnlog.journal.log import Log

TURNS = (10, 1_000, 10_000)
ROUNDS = 20
CALLS = 20
TOLERANCE = 0.2


def run(folder: Path) -> Iterator[Line]:
    """Threads of several lengths in one log, measured in turn."""
    with turnlog.open(f"sqlite:///{folder}/growth.db") as log:
        for turns in TURNS:
            for number in range(turns):
                _turn(log, turns, f"before-{number}")
        rounds = Rounds()
        for number in range(ROUNDS):
            for turns in TURNS:
                rounds.add(str(turns), median(_times(log, turns, number)))
    shortest = str(TURNS[0])
    for turns in TURNS[1:]:
        ratio = rounds.ratio(str(turns), shortest)
        beside = f"{rounds.of(shortest):.0f} us in one of {shortest}"
        held = abs(ratio - 1) <= TOLERANCE
        what = f"submit in a thread of {turns:,} turns, p50"
        yield Line(what, f"{rounds.of(str(turns)):.0f} us", beside, f"{ratio:.2f}x", f"1 +-{TOLERANCE}", held)


def _times(log: Log, turns: int, number: int) -> list[float]:
    times = []
    for call in range(CALLS):
        key = f"measured-{number}-{call}"
        times += times_us([lambda key=key: log.submit(str(turns), TEXT, key=key).result()])  # type: ignore[misc]
        _turn(log, turns, key)
    return times


def _turn(log: Log, turns: int, key: str) -> None:
    """Submit, unless the key is known, and end the turn."""
    log.submit(str(turns), TEXT, key=key).result().interrupt("cancelled").result()
