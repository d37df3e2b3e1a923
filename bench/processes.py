"""Several processes on one store, each of which commits in a loop: the longest that one commit waits, and all a second.

Beside it the same without the turnstile, where SQLite's own lock is all there is.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from unittest import mock

from bench.measure import TEXT, Rounds, percentile
from bench.table import Line
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.engines.sqlite.turnstile import Turnstile
from turnlog.events.clock import SystemClock
from turnlog.testing import writes

PROCESSES = (1, 2, 4, 8)
ROUNDS = 3
SECONDS = 2.0
"""How long a round lasts: the unfair way makes somebody wait for half a second once or twice in it."""

BAR_MS = 100.0
JUDGED = 8


def run(folder: Path) -> Iterator[Line]:
    """All numbers of processes, sides alternating."""
    for processes in PROCESSES:
        rounds = Rounds()
        for number in range(ROUNDS):
            for side in ("fair", "unfair"):
                path = folder / f"{processes}-{number}-{side}.db"
                taken = _measure(path, processes, fair=side == "fair")
                rounds.add(f"{side} rate", len(taken) / SECONDS)
                rounds.add(f"{side} p50", percentile(taken, 50))
                rounds.add(f"{side} longest", max(taken))
        yield from _report(processes, rounds)


def _report(processes: int, rounds: Rounds) -> Iterator[Line]:
    name = f"{processes} process{'es' if processes > 1 else ''} committing in a loop"
    longest, judged = rounds.of("fair longest"), processes == JUDGED
    yield Line(
        f"{name}, longest wait of one",
        f"{longest:.1f} ms",
        f"{rounds.of('unfair longest'):.1f} ms by SQLite's lock alone",
        f"{rounds.ratio('fair longest', 'unfair longest'):.2f}x",
        f"< {BAR_MS:.0f} ms" if judged else "",
        longest < BAR_MS if judged else None,
    )
    for what, unit in (("p50", "ms"), ("rate", "/s")):
        digits = 2 if what == "p50" else 0
        fair, unfair = (f"{rounds.of(f'{side} {what}'):,.{digits}f} {unit}" for side in ("fair", "unfair"))
        yield Line(f"  {what} of all", fair, unfair, f"{rounds.ratio(f'fair {what}', f'unfair {what}'):.2f}x")


def _measure(path: Path, processes: int, *, fair: bool) -> list[float]:
    """How long each commit of all processes took, in ms."""
    SqliteEngine(path, SystemClock()).close()
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(processes), context.SimpleQueue()
    children = [
        context.Process(target=_committing, args=(path, number, fair, gate, results)) for number in range(processes)
    ]
    for child in children:
        child.start()
    times = [taken for _ in children for taken in results.get()]
    for child in children:
        child.join()
    return times


def _committing(
    path: Path, number: int, fair: bool, gate: Barrier, results: multiprocessing.queues.SimpleQueue[list[float]]
) -> None:
    """One process: a thread of its own, an event a commit."""
    with mock.patch.object(Turnstile, "passed", Turnstile.passed if fair else _nobody_waits):
        engine = SqliteEngine(path, SystemClock())
        times, body = list[float](), TEXT.encode()
        gate.wait()
        end = time.perf_counter() + SECONDS
        while (began := time.perf_counter()) < end:
            engine.commit([writes.note(f"T{number}", base=len(times), body=body)])
            times.append((time.perf_counter() - began) * 1e3)
        results.put(times)
        gate.wait()
        engine.close()


@contextmanager
def _nobody_waits(_turnstile: Turnstile) -> Iterator[None]:
    yield
