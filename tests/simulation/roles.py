"""Kinds of processes that share a store: what they have in common, and an application."""

from __future__ import annotations

import asyncio
import itertools
import signal
from pathlib import Path
from typing import Any, Final

from .known import DONE, LOST, Known
from .plan import Action
from .process import Process

HERE: Final = Path(__file__).parent
ANSWER_WAIT_S: Final = 60.0
"""Seconds for an answer. Who is stopped does not answer for some, and a stopped process may hold the store."""

Told = tuple[str, Any]
"""What became of an action: `done`, `lost` or a refusal; and what was told of it."""


class Role:
    """One of the three. `process` is the one that runs now; `ready` is set while it takes actions."""

    name = ""

    def __init__(self, known: Known, folder: Path) -> None:
        self._known = known
        self._folder = folder
        self._numbers = itertools.count(1)
        self._lived = itertools.count(1)
        self.ready = asyncio.Event()
        self.process: Process | None = None

    @property
    def busy(self) -> bool:
        """Whether so much is asked that nothing more may be."""
        return False

    @property
    def processes(self) -> list[Process]:
        """All that run now."""
        return [] if self.process is None else [self.process]

    async def start(self, threads: list[str]) -> None:
        """Begin a process, and follow these threads with it."""
        raise NotImplementedError

    async def do(self, action: Action) -> str:
        """Do an action, and note what became of it: the outcome."""
        async with asyncio.timeout(ANSWER_WAIT_S):
            await self.ready.wait()
        name = "" if self.process is None else self.process.name
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                by, (outcome, value) = await self._do(action, name)
        except TimeoutError:
            by, (outcome, value) = name, ("timeout", None)
        self._known.done(action, by, outcome, value)
        return outcome

    async def _do(self, action: Action, name: str) -> tuple[str, Told]:
        raise NotImplementedError

    async def listen(self, thread: str) -> None:
        """Follow a thread that is there, unless that goes on already."""
        raise NotImplementedError

    async def kill(self) -> None:
        """Kill what runs."""
        self.ready.clear()
        if self.process is not None:
            await self.process.kill()

    async def stop_well(self) -> None:
        """Let what runs end in good order."""
        raise NotImplementedError

    def check_end(self, process: Process) -> None:
        """A process that nobody killed ends with 0."""
        if process.code not in (0, -signal.SIGKILL):
            self._known.wrong.append(f"{process.name} ended with {process.code}: {process.last_words()}")


class Library(Role):
    """An application. It reports all that it is told by itself."""

    name = "library"

    async def start(self, threads: list[str]) -> None:
        """See `Role`."""
        begun = asyncio.Event()
        waiting: dict[int, asyncio.Future[Any]] = {}
        name = f"{self.name} {next(self._lived)}"

        def take(line: Any) -> None:
            if isinstance(line, str):
                self._known.report(name, line)
            elif "ready" in line:
                begun.set()
            elif "number" in line:
                future = waiting.pop(line["number"])
                if not future.done():
                    future.set_result(line)
            elif "left" in line:
                self._known.counts[f"{self.name}: left by {line['why']}"] += 1
            else:
                self._known.wrong.append(f"{name}: {line}")

        self._waiting = waiting
        self._heard = set[str]()
        self.process = await Process.start(
            name, HERE / "library.py", (), self._folder, reported=take, printed=lambda _: None
        )
        await either(begun, self.process)
        self.ready.set()
        for thread in threads:
            await self.listen(thread)

    async def _do(self, action: Action, name: str) -> tuple[str, Told]:
        assert self.process is not None
        process = self.process
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        process.send([number, _plain(action)])
        await either(future, process)
        if not future.done():
            return process.name, (LOST, None)
        line = future.result()
        if "refused" in line:
            return process.name, (line["refused"], line["why"])
        return process.name, (DONE, line["done"])

    async def listen(self, thread: str) -> None:
        """See `Role`."""
        assert self.process is not None
        if thread in self._heard:
            return
        self._heard.add(thread)
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.process.send([number, {"what": "listen", "thread": thread}])

    async def stop_well(self) -> None:
        """See `Role`."""
        self.ready.clear()
        assert self.process is not None
        self.process.close_input()
        await self.process.end()
        self.check_end(self.process)


def repaired(document: Any) -> Any:
    """The document of a repair, as the library's children tell of theirs."""
    found = [*document["left"], *(one for step in document["steps"] for one in step["findings"])]
    steps = [(step["action"], step["outcome"], step["detail"]) for step in document["done"]]
    return {"findings": found, "steps": steps}


def _plain(action: Action) -> Any:
    return {name: getattr(action, name) for name in action.__struct_fields__}


async def either(what: asyncio.Event | asyncio.Future[Any], process: Process) -> None:
    """Wait for something of a process, or for its end."""
    wanted = asyncio.ensure_future(what.wait()) if isinstance(what, asyncio.Event) else what
    ended = asyncio.create_task(process.ended.wait())
    try:
        await asyncio.wait({wanted, ended}, return_when="FIRST_COMPLETED")
    finally:
        ended.cancel()
        if isinstance(what, asyncio.Event):
            wanted.cancel()
    process.check()
