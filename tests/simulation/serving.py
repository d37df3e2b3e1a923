"""A server that shares a store with others, its clients, and the pages that people have open."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any, Final

from ..proof.facts import Fact
from ..web.followers import Follower, segment
from ..web.recording import OK, Answer, Client
from ..web.wire import Gone
from .known import DONE, LOST, Known
from .pages import OpenPages
from .plan import Action
from .process import Process
from .roles import HERE, Role, Told, either, repaired

REFUSED: Final = 300
"""The least status of what was not done."""

FOLLOWED: Final = 8
"""Threads that nobody talks in any more, and that are followed by the next server nevertheless."""


class Facts(list[Fact]):
    """Where a client of a server puts its facts."""

    def __init__(self, known: Known, name: str) -> None:
        super().__init__()
        self._known, self._name = known, name

    def append(self, fact: Fact) -> None:
        """See `list`. The place is counted on, the facts are elsewhere."""
        super().append(fact)
        self._known.take(fact, by=self._name)


class Server(Role):
    """A server, with clients that follow its threads from where they were, and ask."""

    name = "server"

    def __init__(self, known: Known, folder: Path) -> None:
        super().__init__(known, folder)
        self.followers: dict[str, Follower] = {}
        self.pages = OpenPages(known, folder)
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
            for thread in {*threads, *list(self.followers)[-FOLLOWED:]}:
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
        self.pages.open(self._client, thread)

    async def compare(self, threads: list[str]) -> None:
        """P9: a page that was followed shows what one shows that is loaded now, of threads in which nothing happens."""
        if self._client is not None:
            await self.pages.compare(self._client, threads)

    async def _do(self, action: Action, name: str) -> tuple[str, Told]:
        assert self._client is not None
        try:
            answer = await ask(self._client, action)
        except Gone:
            return name, (LOST, None)
        if answer.status >= REFUSED:
            return name, (str(answer.value["type"]).rpartition(":")[2], answer.value)
        return name, (DONE, answer.value)

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
        await self.pages.leave()
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
        self._client = None


async def ask(client: Client, action: Action) -> Answer:
    """Do an action by HTTP."""
    thread, turn = action.thread, action.turn
    path = f"/api/threads/{segment(thread)}"
    of_turn = f"{path}/turns/{segment(turn)}"
    match action.what:
        case "submit" | "again" | "conflict" | "edit":
            body = {"content": action.content, "key": action.key, "when_busy": action.when_busy}
            edited = {"edit_of": turn} if action.what == "edit" else {}
            return await client.ask("POST", f"{path}/turns", body | edited)
        case "retry":
            return await client.ask("POST", f"{of_turn}/retry", {"when_busy": "queue"})
        case "interrupt":
            return await client.turn_action(thread, turn, "interrupt")
        case "decide":
            return await client.ask("POST", f"{of_turn}/decisions/{segment(action.text)}", {"value": action.value})
        case "read":
            return await _read(client, thread)
        case "truncate":
            return await client.ask("POST", f"{path}/truncate", {"turn": turn})
        case "fork":
            return await client.ask("POST", f"{path}/fork", {"to": action.text, "turn": turn or None})
        case "rename":
            return await client.ask("PATCH", path, {"title": action.text})
        case "pin":
            return await client.ask("PATCH", path, {"pinned": bool(action.value)})
        case "compact":
            return await client.ask("POST", f"{path}/compact", {"summary": action.text})
        case "repair":
            return await _repair(client, thread)
    raise AssertionError(f"nothing is known of {action}")


async def _read(client: Client, thread: str) -> Answer:
    """What is shown is evidence."""
    answer = await client.ask("GET", f"/api/threads/{segment(thread)}/transcript")
    if answer.status != OK:
        return answer
    await client.transcript(thread)
    for row in (await client.turns(thread))[:3]:
        await client.timeline(thread, row["turn"])
    return Answer(OK, {}, {})


async def _repair(client: Client, thread: str) -> Answer:
    """Look at the plan, and have it carried out."""
    planned = await client.ask("POST", "/api/repair", {"thread": thread})
    if planned.status != OK:
        return planned
    done = await client.ask("POST", "/api/repair", {"thread": thread, "apply": planned.value["plan"]})
    return Answer(OK, repaired(done.value), {}) if done.status == OK else done
