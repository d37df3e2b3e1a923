"""Many submitters: durable events a second, the process's CPU, and how long the event loop is kept busy meanwhile.

Each submitter has a thread of the log and goes from submission to end to next submission, two durable events a turn on
both sides: asyncio tasks here, operating system threads for the first ancestor's way.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import turnlog
from bench.measure import TEXT, Rounds, percentile, stretch
from bench.rivals import LineJournal
from bench.table import Line
from turnlog.journal.log import Log

SUBMITTERS = (16, 64, 256, 1024)
JUDGED = 256
ROUNDS = {JUDGED: 5}
EVENTS = 8_192
"""Durable events of each side in a round."""

BAR = 5.0
STALL_BAR_MS = 5.0
_TICK_S = 0.001


def run(folder: Path) -> Iterator[Line]:
    """All numbers of submitters, sides alternating."""
    for submitters in SUBMITTERS:
        rounds, stalls = Rounds(), list[float]()
        for number in range(ROUNDS.get(submitters, 2)):
            name, turns = f"{submitters}-{number}", EVENTS // submitters // 2
            _count(rounds, "lines", _lines(folder / f"lines-{name}", submitters, turns))
            _count(rounds, "once", _lines(folder / f"once-{name}", submitters, turns, folder_once=True))
            with turnlog.open(f"sqlite:///{folder}/together-{name}.db") as log:
                _count(rounds, "turnlog", asyncio.run(_submitting(log, submitters, turns, stalls)))
        yield from _report(submitters, rounds, stalls)


def _count(rounds: Rounds, side: str, seconds: tuple[float, float]) -> None:
    rounds.add(side, EVENTS / seconds[0])
    rounds.add(f"{side} cpu", seconds[1] / EVENTS * 1e6)


def _report(submitters: int, rounds: Rounds, stalls: list[float]) -> Iterator[Line]:
    ratio, judged = rounds.ratio("turnlog", "lines"), submitters == JUDGED
    yield Line(
        f"{submitters} submitters, durable events",
        _rate(rounds, "turnlog"),
        f"{_rate(rounds, 'lines')} the first ancestor's way",
        f"{ratio:.2f}x",
        f">= {BAR:.0f}x" if judged else "",
        ratio >= BAR if judged else None,
    )
    if judged:
        once = f"{_rate(rounds, 'once')} its folder synced for new files only"
        yield Line("  the same", "", once, f"{rounds.ratio('turnlog', 'once'):.2f}x")
        stall = percentile(stalls, 99)
        held = stall < STALL_BAR_MS
        yield Line("  event loop held up, p99", f"{stall:.1f} ms", "", "", f"< {STALL_BAR_MS:.0f} ms", held)


def _rate(rounds: Rounds, side: str) -> str:
    return f"{rounds.of(side):,.0f}/s, {rounds.of(f'{side} cpu'):.0f} us CPU"


def _lines(folder: Path, submitters: int, turns: int, *, folder_once: bool = False) -> tuple[float, float]:
    """Wall and CPU seconds of the first ancestor's way."""
    journal, gate = LineJournal(folder, folder_once=folder_once), threading.Barrier(submitters + 1)

    def submitter(session: str) -> None:
        gate.wait()
        for _ in range(turns):
            journal.turn(session, TEXT)

    threads = [threading.Thread(target=submitter, args=(f"s-{number}",)) for number in range(submitters)]
    for thread in threads:
        thread.start()
    with stretch() as taken:
        gate.wait()
        for thread in threads:
            thread.join()
    return taken.wall_s, taken.cpu_s


async def _submitting(log: Log, submitters: int, turns: int, stalls: list[float]) -> tuple[float, float]:
    """Wall and CPU seconds of turnlog. `stalls` gets how late the loop was, in ms, at each tick."""
    ticker = asyncio.create_task(_ticking(stalls))
    with stretch() as taken:
        await asyncio.gather(*(_submitter(log, f"s-{number}", turns) for number in range(submitters)))
    ticker.cancel()
    return taken.wall_s, taken.cpu_s


async def _submitter(log: Log, thread: str, turns: int) -> None:
    for number in range(turns):
        turn = await log.submit(thread, TEXT, key=f"k-{number}")
        await turn.interrupt("cancelled")


async def _ticking(stalls: list[float]) -> None:
    while True:
        due = time.perf_counter() + _TICK_S
        await asyncio.sleep(_TICK_S)
        stalls.append((time.perf_counter() - due) * 1e3)
