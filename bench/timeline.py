"""Opening a turn of very many steps: the first page of its trace, from its snapshot and without one, and the pages for
people that show it, settled and running; and what making the snapshot costs those who write meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from statistics import median
from typing import Final

import httpx

import turnlog
from bench.measure import TEXT, Rounds, percentile, times_us
from bench.table import Line
from turnlog.engines.open import open_engine
from turnlog.engines.protocol import Engine
from turnlog.events.clock import SystemClock
from turnlog.folds.timeline import Timeline
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.web.app import create_app
from turnlog.web.guard import Guard
from turnlog.web.page.live import LivePage, Pace
from turnlog.web.site import Site
from turnlog.web.work import Work

STEPS: Final = 50_000
CALLS: Final = 15
LARGE: Final = 60_000
SUBMITTERS: Final = 64
ROUNDS: Final = 3
WATCHED_S: Final = 1.0
STARTED_S: Final = 0.05
"""After which making the snapshot is under way: it begins when the writer has rested for a millisecond."""
TICK_S: Final = 0.001
PAGE_MS_MAX: Final = 200
PAGE_BYTES_MAX: Final = 1_000_000
PACE_MIN: Final = 0.5


def run(folder: Path) -> Iterator[Line]:
    """A settled turn is read as a server reads it; then its snapshot is made again while others write."""
    url = f"sqlite:///{folder / 'timeline.db'}"
    with turnlog.open(url) as log, closing(open_engine(url, SystemClock())) as engine:
        turn = _filled(log)
        began = time.monotonic()
        _until(lambda: engine.snapshot("t", "T") is not None)
        yield Line(f"a settled turn of {STEPS:,} steps: its snapshot after", f"{time.monotonic() - began:.1f} s")
        yield from asyncio.run(_reading(log))
        yield from _beside(log, turn, engine)
        _working(log, "running")
        yield from asyncio.run(_watching(log))


def _filled(log: Log) -> Turn:
    turn = _working(log, "t")
    turn.complete().result()
    return turn


def _working(log: Log, thread: str) -> Turn:
    turn = log.submit(thread, TEXT, turn="T").result()
    turn.start(agent="bench").result()
    for number in range(STEPS):
        receipt = turn.step(
            f"step-{number}",
            kind="tool",
            name="read",
            args={"path": f"src/file-{number}.py"},
            output="x" * LARGE if number == 0 else f"{number} lines, nothing of interest in them",
            status="succeeded",
        )
        if number % 1_000 == 0 or number == STEPS - 1:
            receipt.result()
    return turn


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


# --- reading -----------------------------------------------------------------------------------------------------


def _client(log: Log) -> httpx.AsyncClient:
    site = Site(log=log, work=Work(log, {"bench": ScriptedAgent}, agent="bench"), clock=SystemClock())
    app = create_app(site, guard=Guard(hosts=frozenset({"bench.test"})))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bench.test")


async def _reading(log: Log) -> list[Line]:
    async with _client(log) as client:
        api = "/api/threads/t/turns/T"
        cursor = None
        for _ in range(STEPS // 2 // 1_000):
            cursor = (await client.get(api, params={"limit": 1_000, **({"after": cursor} if cursor else {})})).json()[
                "next"
            ]
        folding = times_us([lambda: _folded(log)])[0] / 1e3
        return [
            await _page(client, "  first page of its trace over the API", api, beside=f"{folding:,.0f} ms to fold it"),
            await _page(client, "  a page from its middle", f"{api}?after={cursor}"),
            await _page(client, "  its trace opened in the page", "/t/t/turn/T/trace"),
            await _page(client, "  its own page", "/t/t/turn/T"),
            await _page(client, "  the page of its thread", "/t/t"),
            Line("  a live page of its thread begins", f"{await _begun(log, 't'):.0f} ms"),
        ]


async def _watching(log: Log) -> list[Line]:
    """A turn that runs has no snapshot: its events are folded."""
    async with _client(log) as client:
        found = [
            await _page(client, f"a running turn of {STEPS:,} steps: its own page", "/t/running/turn/T", bar=False),
            await _page(client, "  the page of its thread", "/t/running", bar=False),
        ]
    return [*found, Line("  a live page of its thread begins", f"{await _begun(log, 'running'):.0f} ms")]


async def _begun(log: Log, thread: str) -> float:
    """Milliseconds until somebody who watches a thread, as the first one, has what a page lacks."""
    began = time.perf_counter()
    live = LivePage(log, thread, Pace())
    try:
        async with aclosing(live.watch(log.thread(thread).head)) as pieces:
            await anext(pieces)
        return (time.perf_counter() - began) * 1e3
    finally:
        await live.aclose()


def _folded(log: Log) -> None:
    fold = Timeline("T")
    for event in log.events("t", turn="T"):
        fold.event(event)
    fold.view()


async def _page(client: httpx.AsyncClient, what: str, path: str, beside: str = "", *, bar: bool = True) -> Line:
    times, size = [], 0
    for _ in range(CALLS if bar else ROUNDS):
        began = time.perf_counter()
        answer = await client.get(path)
        times.append((time.perf_counter() - began) * 1e3)
        answer.raise_for_status()
        size = len(answer.content)
    took = median(times)
    shown = f"{took:.0f} ms, {size / 1_000:.0f} kB"
    if not bar:
        return Line(what, shown, beside)
    held = took < PAGE_MS_MAX and size < PAGE_BYTES_MAX
    return Line(what, shown, beside, "", f"< {PAGE_MS_MAX} ms, < 1 MB", held)


# --- writing meanwhile -------------------------------------------------------------------------------------------


def _beside(log: Log, turn: Turn, engine: Engine) -> Iterator[Line]:
    """Submitters, alternately alone and while the snapshot is made again, because something came late."""
    rounds, stalls = Rounds(), dict[str, list[float]](alone=[], beside=[])
    for number in range(ROUNDS):
        rounds.add("alone", asyncio.run(_submitting(log, f"alone-{number}", stalls["alone"])))
        seq = turn.step(f"late-{number}", kind="tool", name="read").result()
        time.sleep(STARTED_S)
        rounds.add("beside", asyncio.run(_submitting(log, f"beside-{number}", stalls["beside"])))
        _until(lambda seq=seq: getattr(engine.snapshot("t", "T"), "seq", 0) >= seq)  # type: ignore[misc]
    pace = rounds.ratio("beside", "alone")
    yield Line(
        f"  {SUBMITTERS} submitters while it is made",
        f"{rounds.of('beside'):,.0f} turns/s",
        f"{rounds.of('alone'):,.0f} turns/s alone",
        f"{pace:.2f}x",
        f">= {PACE_MIN}x",
        pace >= PACE_MIN,
    )
    stall, alone = percentile(stalls["beside"], 99), percentile(stalls["alone"], 99)
    yield Line("  event loop held up meanwhile, p99", f"{stall:.1f} ms", f"{alone:.1f} ms alone")


async def _submitting(log: Log, name: str, stalls: list[float]) -> float:
    """Turns a second. How late a timer of a millisecond comes is noted in `stalls`, in ms."""
    count = 0

    async def submitter(thread: str) -> None:
        nonlocal count
        while True:
            turn = await log.submit(thread, TEXT)
            await turn.interrupt("cancelled")
            count += 1

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(submitter(f"{name}-{number}")) for number in range(SUBMITTERS)]
        end = time.perf_counter() + WATCHED_S
        while (began := time.perf_counter()) < end:
            await asyncio.sleep(TICK_S)
            stalls.append((time.perf_counter() - began - TICK_S) * 1e3)
        for task in tasks:
            task.cancel()
    return count / WATCHED_S
