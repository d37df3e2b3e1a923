"""While a sync is held, nobody outside is ahead of the disk; when it returns, everything comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreError
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Draft, Event
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn
from turnlog.runner import run_turn
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.testing.vfs import PowerVFS

from .recording import NAME

WAIT_S = 20.0
TURNS_OF_THE_LOOP = 200
"""Chances for a frame that is ahead of the disk to come out: everything it would need has happened by then."""

ITEM = b'{"type":"message","role":"assistant","content":[]}'


class Outside:
    """What the outside of a log can see: frames of a follower, and what a fresh look at the store shows."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._changed = asyncio.Event()
        self.frames: list[Event | Draft] = []

    async def follow(self) -> None:
        """Collect frames."""
        async for frame in self._log.follow("T"):
            self.frames.append(frame)
            self._changed.set()

    async def reach(self, count: int) -> None:
        """Return once so many frames came."""
        async with asyncio.timeout(WAIT_S):
            while len(self.frames) < count:
                self._changed.clear()
                await self._changed.wait()

    def look(self) -> tuple[int, list[str], list[str]]:
        """Frames, events and drafts that are there now."""
        known = [row.thread for row in self._log.threads().rows]
        events = [event.kind for event in self._log.events("T")] if "T" in known else []
        drafts = [draft.text for draft in self._log.drafts("T")] if "T" in known else []
        return len(self.frames), events, drafts


Begin = Callable[[Log], Coroutine[Any, Any, Turn | None]]


async def nobody(log: Log) -> None:
    """No turn yet; another thread has the lease made, so that the next sync is the one that is meant."""
    await log.append_message("other", {"n": 1})
    # Done between two batches: by then the writer is through with the first, whatever its receipt said.
    await asyncio.to_thread(log.recover)


async def submitted(log: Log) -> Turn:
    await nobody(log)
    return await log.submit("T", "hello")


async def started(log: Log) -> Turn:
    turn = await submitted(log)
    await turn.start()
    return turn


async def speaking(log: Log) -> Turn:
    turn = await started(log)
    await turn.draft("begun")
    return turn


CASES: list[tuple[str, Begin, Callable[[Log, Turn], Receipt[Any]]]] = [
    ("submit", nobody, lambda log, turn: log.submit("T", "hello")),
    ("start", submitted, lambda log, turn: turn.start()),
    ("first draft", started, lambda log, turn: turn.draft("said")),
    ("next draft", speaking, lambda log, turn: turn.draft("said")),
    ("item", speaking, lambda log, turn: turn.item(ITEM)),
    ("step", speaking, lambda log, turn: turn.step("s", kind="tool", status="running")),
    ("dropped attempt", speaking, lambda log, turn: turn.drop_attempt()),
    ("request", speaking, lambda log, turn: log.request("T", turn.id)),
    ("complete", speaking, lambda log, turn: turn.complete()),
    ("interrupt", speaking, lambda log, turn: turn.interrupt("failed")),
    ("item without a turn", nobody, lambda log, turn: log.append_message("T", {"n": 2})),
]


@pytest.mark.parametrize(("begin", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_nothing_is_ahead_of_a_held_sync(
    begin: Begin, act: Callable[[Log, Turn], Receipt[Any]], tmp_path: Path
) -> None:
    """P1, P2: no receipt is done, no frame published and no read shows a write while its sync is held."""

    async def scenario(vfs: PowerVFS) -> None:
        clock = SystemClock()
        engine = SqliteEngine(tmp_path / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0)
        async with Log(engine, clock=clock) as log:
            turn = await begin(log)
            outside = Outside(log)
            following = asyncio.create_task(outside.follow())
            before = outside.look()[1:]
            await outside.reach(len(before[0]) + len(before[1]))
            frames = len(outside.frames)
            with vfs.hold(part="wal") as hold:
                receipt = act(log, turn)  # type: ignore[arg-type]  # None only where it is not used
                await asyncio.to_thread(hold.wait_held)
                for _ in range(TURNS_OF_THE_LOOP):
                    await asyncio.sleep(0)
                assert not receipt.done()
                assert outside.look() == (frames, *before)
            async with asyncio.timeout(WAIT_S):
                await receipt
            await outside.reach(frames + 1)
            assert outside.look()[1:] != before
            following.cancel()

    with PowerVFS("held") as vfs:
        asyncio.run(scenario(vfs))


def test_no_agent_starts_ahead_of_a_held_sync(tmp_path: Path) -> None:
    """P1: an agent begins only when its turn's submission and start have been synced."""

    async def scenario(vfs: PowerVFS) -> None:
        clock = SystemClock()
        engine = SqliteEngine(tmp_path / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0)
        async with Log(engine, clock=clock) as log:
            await nobody(log)
            agent = ScriptedAgent()

            async def ask() -> None:
                await run_turn(await log.submit("T", "hello"), lambda: agent, log=log)

            submission, start = vfs.hold(k=1, part="wal"), vfs.hold(k=2, part="wal")
            asking = asyncio.create_task(ask())
            for hold in (submission, start):
                await asyncio.to_thread(hold.wait_held)
                for _ in range(TURNS_OF_THE_LOOP):
                    await asyncio.sleep(0)
                assert not agent.begun.is_set()
                hold.release()
            async with asyncio.timeout(WAIT_S):
                await agent.begun.wait()
                await asking

    with PowerVFS("held") as vfs:
        asyncio.run(scenario(vfs))


def test_recovery_is_not_ahead_of_a_held_sync(tmp_path: Path) -> None:
    """P1, P2, P8: at each sync of an opening that recovers, nothing is told of it and no reader sees what it wrote."""
    clock = SystemClock()

    def reopen(vfs: PowerVFS) -> Log:
        return Log(SqliteEngine(tmp_path / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0), clock=clock)

    def state(watcher: SqliteEngine) -> tuple[int, int]:
        (row,) = watcher.turns(thread="T", limit=1).rows
        return row.fence, watcher.tail("T", after=0, rev=0, limit=0).head

    with PowerVFS("held") as vfs, ThreadPoolExecutor(1) as pool:
        dead = SqliteEngine(tmp_path / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0)
        left = Log(dead, clock=clock)
        asyncio.run(speaking(left))
        watcher = SqliteEngine(tmp_path / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0)
        dead.close()
        fence, head = state(watcher)
        # The syncs of the engine's own proof, of the lease, of the claim, and of the settling.
        holds = [vfs.hold(k=k, part="wal") for k in (1, 2, 3, 4)]
        opening = pool.submit(reopen, vfs)
        for hold, claimed in zip(holds, (0, 0, 0, 1), strict=True):
            hold.wait_held()
            assert not opening.done()
            assert state(watcher) == (fence + claimed, head)
            hold.release()
        log = opening.result(WAIT_S)
        assert state(watcher) > (fence + 1, head)
        log.close()
        watcher.close()
        with suppress(StoreError):
            left.close()
