"""Taking times: of single calls, and of a whole process over a stretch of work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

TEXT = "Compare the two offers in the folder, name what each leaves out, and say which one I should take. " * 6
"""What each submission says: about 600 bytes, the size the storage was measured with."""


def times_us(calls: Iterable[Callable[[], Any]]) -> list[float]:
    """Run each call and return how long it took, in microseconds."""
    times = []
    for call in calls:
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e6)
    return times


@dataclass
class Stretch:
    """Some work of the whole process: wall and CPU seconds, set when the stretch ends."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def stretch() -> Any:
    """Measure the block of a `with`."""
    taken, wall, cpu = Stretch(), time.perf_counter(), time.process_time()
    yield taken
    taken.wall_s, taken.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of all do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


@dataclass
class Rounds:
    """One figure for each side and round. Sides alternate, so that what disturbs the machine disturbs all of them."""

    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, side: str, figure: float) -> None:
        """Take in a side's figure of this round."""
        self.figures.setdefault(side, []).append(figure)

    def of(self, side: str) -> float:
        """The median over the rounds."""
        return median(self.figures[side])

    def ratio(self, side: str, other: str) -> float:
        """The median over the rounds of one side's figure as a multiple of the other's."""
        return median(a / b for a, b in zip(self.figures[side], self.figures[other], strict=True))
