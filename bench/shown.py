"""How long after it is durable an event that one process writes is shown by another that follows the thread."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.queues
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import turnlog
from bench.measure import percentile
from bench.table import Line
from turnlog.journal.log import Log

EVENTS = 200
PAUSE_S = 0.06
"""The longest pause between two events: longer than a look at other processes' writes takes to come."""

BAR_MS = 100.0


def run(folder: Path) -> Iterator[Line]:
    """One process writes, this one follows."""
    url = f"sqlite:///{folder}/shown.db"
    context = multiprocessing.get_context("spawn")
    written = context.SimpleQueue()
    with turnlog.open(url) as log:
        log.append_message("t", {}).result()
        writer = context.Process(target=_write, args=(url, written))
        writer.start()
        shown = asyncio.run(_follow(log))
        writer.join()
    durable = dict(written.get() for _ in range(EVENTS))
    late = [(shown[seq] - at) * 1e3 for seq, at in durable.items()]
    worst = percentile(late, 99)
    yield Line(
        "shown by another process after it is durable, p99",
        f"{worst:.1f} ms",
        f"{percentile(late, 50):.1f} ms p50, {max(late):.1f} ms the longest",
        "",
        f"< {BAR_MS:.0f} ms",
        worst < BAR_MS,
    )


def _write(url: str, written: multiprocessing.queues.SimpleQueue[tuple[int, float]]) -> None:
    random = Random(1)
    with turnlog.open(url) as log:
        for _ in range(EVENTS):
            time.sleep(random.uniform(0, PAUSE_S))
            seq = log.append_message("t", {"type": "message"}).result()
            written.put((seq, time.monotonic()))


async def _follow(log: Log) -> dict[int, float]:
    """When each event was shown, by seq."""
    shown: dict[int, float] = {}
    async for batch in log.watch("t", 2):
        shown.update({event.seq: time.monotonic() for event in batch.events})
        if len(shown) == EVENTS:
            break
    return shown
