"""Live pages: one fold and one rendering of a thread, whatever the number of its watchers.

A watcher is a version, not a queue: when it is ready for more it gets what is newer, once, however much happened
meanwhile. Frames come as soon as something is durable, and then at most `FRAMES_PER_S` a second; fewer when rendering
takes long, so that all live pages together leave the machine to those who write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from anyio.to_thread import run_sync

from turnlog.journal.follow import Batch
from turnlog.journal.log import Log
from turnlog.limits import FRAMES_PER_S, PAGES_CPU_SHARE
from turnlog.web.page.thread_view import ThreadPage, load
from turnlog.web.page.versions import Versions, frames
from turnlog.web.stream.frames import reset
from turnlog.web.stream.sharing import Bell

T = TypeVar("T")

_LONG_S: Final = 0.01
"""Seconds of a core for a rendering that the event loop would notice: the next one is made beside it."""


class Pace:
    """How many live pages share the machine."""

    def __init__(self) -> None:
        self.pages = 0

    def interval(self, cost: float) -> float:
        """Seconds from the beginning of a rendering that took `cost` seconds of a core to that of the next."""
        return max(1 / FRAMES_PER_S, cost * self.pages / PAGES_CPU_SHARE)


class LivePage:
    """The newest page of one thread. Made in an event loop, where it follows the log until `aclose`."""

    def __init__(self, log: Log, thread: str, pace: Pace) -> None:
        self._log = log
        self._thread = thread
        self._pace = pace
        self._page: ThreadPage
        self._versions = Versions()
        self._head = self._rev = -1
        self._cost = 0.0
        self._bell = Bell()
        self._hurry = asyncio.Event()
        self._error: Exception | None = None
        self._made: dict[int, bytes] = {}
        self._pace.pages += 1
        self._follower = asyncio.create_task(self._follow(), name=f"turnlog-page {thread}")

    async def aclose(self) -> None:
        """Stop following."""
        self._pace.pages -= 1
        self._follower.cancel()
        await asyncio.wait([self._follower])

    # --- following -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        try:
            self._page = await run_sync(load, self._log, self._thread)
            news = await run_sync(self._log.watch, self._thread, self._page.head)
            async with aclosing(news) as batches:
                async for batch in batches:
                    began = asyncio.get_running_loop().time()
                    await self._take(batch)
                    took = asyncio.get_running_loop().time() - began
                    await self._rest(self._pace.interval(self._cost) - took)
        except Exception as error:  # it is the answer of everyone who watches
            self._error = error
            self._bell.ring()

    async def _take(self, batch: Batch) -> None:
        for event in batch.events:
            self._page.event(event)
        for draft in batch.drafts:
            self._page.draft(draft)
        if self._page.earlier is None:
            await run_sync(self._page.find_earlier, self._log)
        if self._cost > _LONG_S:
            elements, cost = await run_sync(costing, self._page.elements)
        else:
            elements, cost = costing(self._page.elements)
        _, more = costing(lambda: self._versions.update(elements))
        self._cost = cost + more
        self._made.clear()
        self._head, self._rev = self._page.head, batch.rev
        self._bell.ring()

    async def _rest(self, seconds: float) -> None:
        """Let time pass, or less when somebody waits for what is durable now."""
        self._hurry.clear()
        try:
            await asyncio.wait_for(self._hurry.wait(), seconds)
        except TimeoutError:
            return

    # --- watching ------------------------------------------------------------------------------------------------

    async def watch(self, after: int) -> AsyncGenerator[bytes, None]:
        """Frames that bring a page of the seq `after` up to date and keep it so.

        A page that shows none of today's turns is told to fetch itself again; then the stream ends.
        """
        await self._reach(*await run_sync(self._now))
        if after < self._page.first - 1 and self._page.earlier:
            yield reset("behind", self._at)
            return
        version = self._versions.version
        yield frames(self._versions.whole(self._page.since(after)), self._at)
        while True:
            await self._newer(version)
            piece, version = self._since(version), self._versions.version
            if piece:
                yield piece

    def _now(self) -> tuple[int, int]:
        """What a page that was fetched until now may show: (head, revision of the drafts that are open)."""
        drafts = self._log.drafts(self._thread)
        head = self._log.thread(self._thread).head
        return head, max((draft.chunk_rev for draft in drafts), default=0)

    async def _reach(self, head: int, rev: int) -> None:
        while self._head < head or self._rev < rev:
            self._hurry.set()
            await self._ring()

    async def _newer(self, version: int) -> None:
        while self._versions.version == version:
            await self._ring()

    async def _ring(self) -> None:
        if self._error is None:
            await self._bell.wait()
        if self._error is not None:
            raise self._error

    def _since(self, version: int) -> bytes:
        """The frames from `version` on, made once for all who hold it."""
        made = self._made.get(version)
        if made is None:
            made = self._made[version] = frames(self._versions.since(version), self._at)
        return made

    @property
    def _at(self) -> str:
        return f"{self._log.epoch}.{self._head}"


def costing(work: Callable[[], T]) -> tuple[T, float]:
    """What the work gives, and the seconds of a core it took. Time for which others had the core is no cost of it: on a
    busy machine all pages would slow down for that, and come many seconds late."""
    began = time.thread_time()
    return work(), time.thread_time() - began
