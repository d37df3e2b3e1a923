"""Kinds of processes that share a store: an application, and a server with clients."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from pathlib import Path
from typing import Any, Final

from ..proof.facts import Fact
from ..web.followers import Follower, segment
from ..web.recording import ACCEPTED, OK, Answer, Client
from ..web.wire import Gone
from .known import DONE, LOST, Known
from .plan import Action
from .process import Process

HERE: Final = Path(__file__).parent
ANSWER_WAIT_S: Final = 60.0
"""Seconds for an answer. Who is stopped does not answer for some, and a stopped process may hold the store."""

Told = tuple[str, Any]
"""What became of an action: `done`, `lost` or a refusal; and what was told of it."""


class Facts(list[Fact]):
    """Where a client of a server puts its facts."""

    def __init__(self, known: Known, name: str) -> None:
        super().__init__()
        self._known, self._name = known, name

    def append(self, fact: Fact) -> None:
        """See `list`."""
        super().append(fact)
        self._known.take(fact, by=self._name)


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

    async def start(self, threads: list[str]) -> None:
        """Begin a process, and follow these threads with it."""
        raise NotImplementedError

    async def do(self, action: Action) -> None:
        """Do an action, and note what became of it."""
        async with asyncio.timeout(ANSWER_WAIT_S):
            await self.ready.wait()
        name = "" if self.process is None else self.process.name
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                by, (outcome, value) = await self._do(action, name)
        except TimeoutError:
            by, (outcome, value) = name, ("timeout", None)
        self._known.done(action, by, outcome, value)

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


class Server(Role):
    """A server, with clients that follow its threads from where they were, and ask."""

    name = "server"

    def __init__(self, known: Known, folder: Path) -> None:
        super().__init__(known, folder)
        self.followers: dict[str, Follower] = {}
        self._client: Client | None = None

    async def start(self, threads: list[str]) -> None:
        """See `Role`."""
        begun = asyncio.Event()
        told: dict[str, Any] = {}
        name = f"{self.name} {next(self._lived)}"

        def ready(line: bytes) -> None:
            told.update(json.loads(line))
            begun.set()

        arguments = ["--json", "--store", f"sqlite:///{self._folder / 'store.db'}", "--port", "0"]
        self.process = await Process.start(
            name,
            HERE / "server.py",
            [*arguments, "--workspace", str(self._folder)],
            self._folder,
            reported=lambda line: self._known.report(name, line),
            printed=ready,
        )
        await either(begun, self.process)
        if begun.is_set():
            port = int(told["url"].rstrip("/").rpartition(":")[2])
            self._client = await Client(port, Facts(self._known, name)).__aenter__()
            self.ready.set()
            for thread in {*threads, *self.followers}:
                await self.listen(thread)

    async def listen(self, thread: str) -> None:
        """See `Role`. Who was told to begin again does."""
        if self._client is None:
            return
        if thread not in self.followers:
            self.followers[thread] = Follower(thread, f"follower of {thread}")
            self.followers[thread].facts = Facts(self._known, "")
        if not self._client.follows(self.followers[thread]):
            self._client.follow(self.followers[thread])

    async def _do(self, action: Action, name: str) -> tuple[str, Told]:
        assert self._client is not None
        try:
            return name, _told(await self._ask(self._client, action), action)
        except Gone:
            return name, (LOST, None)

    async def _ask(self, client: Client, action: Action) -> Answer:
        thread, turn = action.thread, action.turn
        path = f"/api/threads/{segment(thread)}"
        match action.what:
            case "submit" | "again" | "conflict":
                body = {"content": action.content, "key": action.key, "when_busy": action.when_busy}
                return await client.ask("POST", f"{path}/turns", body)
            case "retry":
                return await client.ask("POST", f"{path}/turns/{segment(turn)}/retry", {"when_busy": "queue"})
            case "interrupt":
                return await client.turn_action(thread, turn, "interrupt")
            case "decide":
                decision = f"{path}/turns/{segment(turn)}/decisions/{segment(action.text)}"
                return await client.ask("POST", decision, {"value": action.value})
            case "read":
                answer = await client.ask("GET", f"{path}/transcript")
                if answer.status != OK:
                    return answer
                await client.transcript(thread)
                for row in (await client.turns(thread))[:3]:
                    await client.timeline(thread, row["turn"])
                return Answer(ACCEPTED, {}, {})
            case "repair":
                return await self._repair(client, thread)
        raise AssertionError(f"nothing is known of {action}")

    async def _repair(self, client: Client, thread: str) -> Answer:
        """Look at the plan, and have it carried out."""
        planned = await client.ask("POST", "/api/repair", {"thread": thread})
        if planned.status != OK:
            return planned
        done = await client.ask("POST", "/api/repair", {"thread": thread, "apply": planned.value["plan"]})
        return Answer(ACCEPTED, repaired(done.value), {}) if done.status == OK else done

    async def kill(self) -> None:
        """See `Role`."""
        await super().kill()
        await self._leave()

    async def stop_well(self) -> None:
        """See `Role`."""
        self.ready.clear()
        assert self.process is not None
        self.process.signal(signal.SIGTERM)
        await self.process.end()
        self.check_end(self.process)
        await self._leave()

    async def _leave(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
        self._client = None


def _told(answer: Answer, action: Action) -> Told:
    if answer.status != ACCEPTED:
        return str(answer.value["type"]).rpartition(":")[2], answer.value
    return DONE, answer.value


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
    await asyncio.wait({wanted, ended}, return_when="FIRST_COMPLETED")
    ended.cancel()
    process.check()
    if isinstance(what, asyncio.Event):
        wanted.cancel()
