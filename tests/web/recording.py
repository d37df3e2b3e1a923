"""A client of the server that keeps everything it was shown: frames of threads and pages, and answers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from ..proof.facts import Accepted, Ended, Fact, ShownDraft, ShownMessage
from .followers import TERMINAL, Follower, PageFollower, segment
from .frames import Frame, FrameReader
from .wire import Gone, exchange

WAIT_S: Final = 60.0
"""Seconds to wait for anything here; a healthy server needs a second or two in all, on a busy machine ten."""

OK: Final = 200
ACCEPTED: Final = 202


class Answer(NamedTuple):
    """The answer to a request; `value` is its JSON document, or its text."""

    status: int
    value: Any
    headers: dict[str, str]


class Client:
    """Talks to one server until it goes away. Everything it learns is in `facts`, or in its followers."""

    def __init__(self, port: int, facts: list[Fact]) -> None:
        self.facts = facts
        self.gone = False
        self._news = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._followers: list[Follower | PageFollower] = []
        self.port = port

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # --- waiting ------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._news.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Return once `wanted` is true of what the followers have; raises `Gone` when the server is."""
        end = asyncio.get_running_loop().time() + WAIT_S
        while not wanted():
            if self.gone:
                raise Gone
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), end - asyncio.get_running_loop().time())
            except TimeoutError:
                raise AssertionError(f"never came: {inspect.getsource(wanted).strip()}\n{self.describe()}") from None

    def describe(self) -> str:
        """The last that each follower has, for who reads of a failure."""
        return "\n".join(f"{one.name} at {one.cursor}: {one.last}" for one in self._followers)

    def lost(self) -> None:
        """The server is gone: whoever waits is told."""
        self.gone = True
        self._tell()

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request. Raises `Gone`."""
        if body is None:
            return await self._exchange(method, path, headers)
        return await self._exchange(
            method, path, {"content-type": "application/json", **headers}, json.dumps(body).encode()
        )

    async def raw(self, path: str) -> bytes:
        """The bytes of an answer."""
        async with asyncio.timeout(WAIT_S), exchange(self.port, "GET", path, {}) as request:
            return await request.body()

    async def until_there(self, path: str) -> None:
        """Return once there is something at this path."""
        async with asyncio.timeout(WAIT_S):
            while (await self.ask("GET", path)).status != OK:
                pass

    async def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        try:
            async with asyncio.timeout(WAIT_S), exchange(self.port, method, path, headers, body) as request:
                text = (await request.body()).decode()
        except Gone:
            self.lost()
            raise
        status, fields = request.head
        return Answer(status, json.loads(text) if "json" in fields.get("content-type", "") else text, fields)

    async def submit(
        self, thread: str, content: str, *, key: str | None = None, when_busy: str = "refuse", by_page: bool = False
    ) -> Answer:
        """Submit a message; what is acknowledged is a fact."""
        body = {"content": content, "key": key, "when_busy": when_busy}
        if by_page:
            answer = await self._submit_form(thread, {name: value or "" for name, value in body.items()})
        else:
            answer = await self.ask("POST", f"/api/threads/{segment(thread)}/turns", body)
        if answer.status == ACCEPTED:
            self.facts.append(Accepted(thread=thread, turn=answer.value["turn"], content=content, key=key))
        return answer

    async def _submit_form(self, thread: str, fields: Mapping[str, str]) -> Answer:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        return await self._exchange("POST", f"/t/{segment(thread)}/turns", headers, urlencode(fields).encode())

    async def turn_action(self, thread: str, turn: str, what: str) -> Answer:
        """Interrupt a turn, or retry it."""
        return await self.ask("POST", f"/api/threads/{segment(thread)}/turns/{segment(turn)}/{what}")

    async def timeline(self, thread: str, turn: str) -> Any:
        """A turn's timeline; what it shows is evidence."""
        answer = await self.ask("GET", f"/api/threads/{segment(thread)}/turns/{segment(turn)}")
        to = f"timeline {len(self.facts)}"
        for entry in answer.value["entries"]:
            if entry["kind"] in ("message", "reasoning") and entry["draft"]:
                self._shown(thread, turn, to, entry["id"], entry["seq"], entry["text"])
            elif entry["kind"] == "message" and entry["item"] is not None:
                self.facts.append(ShownMessage(thread=thread, turn=turn, seq=entry["item"], text=entry["text"]))
        self._row(thread, answer.value["turn"])
        return answer.value

    async def transcript(self, thread: str) -> Any:
        """A thread's transcript, likewise."""
        answer = await self.ask("GET", f"/api/threads/{segment(thread)}/transcript")
        to = f"transcript {len(self.facts)}"
        for message in answer.value["messages"]:
            turn, seq, text = message["turn"], message["seq"], message["text"]
            if message["draft"] is None:
                self.facts.append(ShownMessage(thread=thread, turn=turn, seq=seq, text=text))
            else:
                self._shown(thread, turn, to, message["draft"], seq, text)
        return answer.value

    async def turns(self, thread: str) -> list[Any]:
        """The rows of a thread's turns, newest first, likewise."""
        answer = await self.ask("GET", f"/api/threads/{segment(thread)}/turns?limit=1000")
        for row in answer.value["turns"]:
            self._row(thread, row)
        rows: list[Any] = answer.value["turns"]
        return rows

    def _shown(self, thread: str, turn: str, to: str, draft: str, after: int, text: str) -> None:
        self.facts.append(
            ShownDraft(to=to, thread=thread, turn=turn, draft=draft, after=after, rev=None, offset=0, text=text)
        )

    def _row(self, thread: str, row: Any) -> None:
        if row["state"] in TERMINAL:
            self.facts.append(Ended(thread=thread, turn=row["turn"], state=row["state"]))

    # --- following ----------------------------------------------------------------------------------------------

    async def load(self, page: PageFollower) -> None:
        """Load a page."""
        answer = await self.ask("GET", page.page, accept="text/html")
        assert answer.status == OK, answer
        page.load(answer.value)

    def follow(self, follower: Follower | PageFollower) -> asyncio.Task[None]:
        """Follow from the follower's cursor on until the connection ends; cancelling the task drops it."""
        task = asyncio.create_task(self._follow(follower))
        self._tasks[id(follower)] = task
        self._followers.append(follower)
        return task

    def follows(self, follower: Follower | PageFollower) -> bool:
        """Whether the follower has a connection."""
        task = self._tasks.get(id(follower))
        return task is not None and not task.done()

    async def over(self, *followers: Follower | PageFollower) -> None:
        """Return once the connections of these followers have ended."""
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait([self._tasks[id(follower)] for follower in followers])

    async def _follow(self, follower: Follower | PageFollower) -> None:
        end = "cut"
        try:
            async with aclosing(self._frames(follower)) as frames:
                async for frame in frames:
                    follower.take(frame)
                    if frame.event in ("bye", "reset"):
                        end = frame.event
                    self._tell()
        except Gone:
            pass
        except asyncio.CancelledError:
            end = "dropped"
            raise
        finally:
            follower.ends.append(end)
            if end != "dropped":
                self.lost() if end != "reset" else self._tell()

    async def _frames(self, follower: Follower | PageFollower) -> AsyncGenerator[Frame, None]:
        headers = {"accept": "text/event-stream"}
        if follower.cursor is not None:
            headers["last-event-id"] = follower.cursor
        async with exchange(self.port, "GET", follower.url, headers) as request:
            if request.head.status != OK:
                follower.wrong.append(f"{follower.name}: {request.head} {(await request.body())!r}")
                return
            reader = FrameReader()
            async for piece in request.pieces():
                for frame in reader.feed(piece):
                    yield frame


@asynccontextmanager
async def following(client: Client, follower: Follower | PageFollower) -> AsyncIterator[None]:
    """Follow for the time of an `async with`, then drop the connection."""
    task = client.follow(follower)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
