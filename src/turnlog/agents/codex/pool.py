"""The Codex processes of one event loop: one a thread, not too many, none for ever."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from turnlog.agents.codex.connection import Woken
from turnlog.agents.codex.jsonrpc import Asked, Told
from turnlog.agents.codex.link import Link
from turnlog.agents.codex.process import Program
from turnlog.agents.protocol import Emit, StepSignal, Task
from turnlog.errors import TooLarge
from turnlog.limits import CODEX_IDLE_S, CODEX_PROCESSES_MAX

_PLACE: Final = "codex-place"
_WAITING: Final = "Waiting for a free Codex process"


class _Resting:
    """A link between two turns: it is listened to, and closed when nobody wants it in time."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.wanted = False
        self.listening = asyncio.create_task(self._listen(), name="codex resting")

    async def fits(self, task: Task, version: str) -> bool:
        """Listen no more; whether the link can take the task."""
        self.wanted = True
        self.link.process.connection.wake()
        await asyncio.wait({self.listening})
        return self.link.process.alive and await self.link.fits(task, version)

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
            if not self.wanted:  # when the event loop ends, it waits for this
                await self.link.process.close()


class CodexPool:
    """Gives each turn a link. Use it in one event loop; when that ends, its processes do."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._resting: OrderedDict[str, _Resting] = OrderedDict()
        self._closing: dict[str, set[asyncio.Task[None]]] = {}
        self._places = asyncio.Semaphore(CODEX_PROCESSES_MAX)
        self._waiting = 0

    async def take(self, task: Task, emit: Emit, version: str) -> Link:
        """The thread's link, if it has one of this version that stands where the task begins; else a new one.

        Waits while `CODEX_PROCESSES_MAX` processes are at work, and says so by a step. Raises what `Link.open` and
        `emit` raise.
        """
        resting = self._resting.pop(task.thread, None)
        if resting is not None and await self._wake(resting, task, version):
            return resting.link
        if closing := self._closing.get(task.thread):
            await asyncio.wait(closing)  # the commands of a turn that was interrupted end before the next turn begins
        waited = await self._take_place(emit)
        try:
            if waited:
                await emit(StepSignal(id=_PLACE, status="succeeded"))
            return await Link.open(self._program, task)
        except BaseException:
            self._places.release()
            raise

    async def _wake(self, resting: _Resting, task: Task, version: str) -> bool:
        fits = False
        try:
            fits = await resting.fits(task, version)
        finally:
            if not fits:
                self.drop(task.thread, resting.link)
        return fits

    def keep(self, thread: str, link: Link) -> None:
        """The turn ended well: the next one of the thread may go on here."""
        resting = self._resting[thread] = _Resting(link)
        resting.listening.add_done_callback(lambda _: self._rested(thread, resting))
        if self._waiting:
            self._evict()

    def drop(self, thread: str, link: Link) -> None:
        """Close a link, and its process with it. It is done in the background."""
        closing = link.process.begin_close()
        self._closing.setdefault(thread, set()).add(closing)
        closing.add_done_callback(lambda _: self._closed(thread, closing))

    async def _take_place(self, emit: Emit) -> bool:
        """Take a place for a process; whether it had to be waited for. Who waits is shown as waiting, not as silent."""
        self._waiting += 1
        try:
            waited = self._places.locked()
            if waited:
                self._evict()
                await emit(StepSignal(id=_PLACE, step="phase", name="place", title=_WAITING, status="waiting"))
            await self._places.acquire()
        finally:
            self._waiting -= 1
        return waited

    def _evict(self) -> None:
        """Close the link that has rested longest."""
        if self._resting:
            self._resting.popitem(last=False)[1].listening.cancel()

    def _rested(self, thread: str, resting: _Resting) -> None:
        """It is listened to no more. Its task may have ended before its first step, and closed nothing."""
        if self._resting.get(thread) is resting:
            del self._resting[thread]
        if not resting.wanted:
            self.drop(thread, resting.link)

    def _closed(self, thread: str, closing: asyncio.Task[None]) -> None:
        self._places.release()
        self._closing[thread].discard(closing)
        if not self._closing[thread]:
            del self._closing[thread]
