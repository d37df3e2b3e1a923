"""The Codex processes of one event loop: one a thread, not too many, none for ever."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from turnlog.agents.codex.connection import Woken
from turnlog.agents.codex.jsonrpc import Asked, Told
from turnlog.agents.codex.link import Link
from turnlog.agents.codex.process import Program
from turnlog.agents.protocol import Task
from turnlog.errors import TooLarge
from turnlog.limits import CODEX_IDLE_S, CODEX_PROCESSES_MAX


class _Resting:
    """A link between two turns: it is listened to, and closed when nobody wants it in time."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.wanted = False
        self.listening = asyncio.create_task(self._listen(), name="codex resting")

    async def take(self) -> Link | None:
        """The link, unless it has ended meanwhile."""
        self.wanted = True
        self.link.process.connection.wake()
        await asyncio.wait({self.listening})
        return self.link if self.link.process.alive else None

    async def _listen(self) -> None:
        connection = self.link.process.connection
        try:
            async with asyncio.timeout(CODEX_IDLE_S):
                while not self.wanted and (message := await connection.next()) is not None:
                    if isinstance(message, Told):
                        await self.link.tell_late(message)
                    elif isinstance(message, Asked):
                        await connection.refuse(message)
                    elif isinstance(message, Woken):
                        return
        except (TimeoutError, TooLarge):
            self.link.known = None
        finally:
            if not self.wanted:
                await self.link.process.close()


class CodexPool:
    """Gives each turn a link. Use it in one event loop; when that ends, its processes do."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._resting: OrderedDict[str, _Resting] = OrderedDict()
        self._closing: dict[str, set[asyncio.Task[None]]] = {}
        self._places = asyncio.Semaphore(CODEX_PROCESSES_MAX)
        self._waiting = 0

    async def take(self, task: Task) -> Link:
        """The link of the task's thread, if there is one and it stands where the task begins; else a new one.

        Waits while `CODEX_PROCESSES_MAX` processes are at work. Raises what `Link.open` raises.
        """
        resting = self._resting.pop(task.thread, None)
        if resting is not None and (link := await self._wake(resting, task)) is not None:
            return link
        if closing := self._closing.get(task.thread):
            await asyncio.wait(closing)  # the commands of a turn that was interrupted end before the next turn begins
        await self._take_place()
        try:
            return await Link.open(self._program, task)
        except BaseException:
            self._places.release()
            raise

    async def _wake(self, resting: _Resting, task: Task) -> Link | None:
        link = await resting.take()
        if link is None:
            self._places.release()
        elif await self._fits(link, task):
            return link
        return None

    async def _fits(self, link: Link, task: Task) -> bool:
        fits = False
        try:
            fits = await link.fits(task)
        finally:
            if not fits:
                self.drop(task.thread, link)
        return fits

    def keep(self, thread: str, link: Link) -> None:
        """The turn ended well: the next one of the thread may go on here."""
        resting = self._resting[thread] = _Resting(link)
        resting.listening.add_done_callback(lambda _: self._rested(thread, resting))
        if self._waiting:
            self._evict()

    def drop(self, thread: str, link: Link) -> None:
        """Close a link, and its process with it. It is done in the background."""
        closing = asyncio.create_task(self._close(link), name="codex dropping")
        self._closing.setdefault(thread, set()).add(closing)
        closing.add_done_callback(lambda _: self._closed(thread, closing))

    async def _take_place(self) -> None:
        self._waiting += 1
        try:
            if self._places.locked():
                self._evict()
            await self._places.acquire()
        finally:
            self._waiting -= 1

    def _evict(self) -> None:
        """Close the link that has rested longest."""
        if self._resting:
            self._resting.popitem(last=False)[1].listening.cancel()

    def _rested(self, thread: str, resting: _Resting) -> None:
        if self._resting.get(thread) is resting:
            del self._resting[thread]
        if not resting.wanted:
            self._places.release()

    async def _close(self, link: Link) -> None:
        await link.process.close()

    def _closed(self, thread: str, closing: asyncio.Task[None]) -> None:
        self._places.release()
        self._closing[thread].discard(closing)
        if not self._closing[thread]:
            del self._closing[thread]
