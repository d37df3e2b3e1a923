"""A client of the server that keeps everything it was shown: frames of threads and pages, and answers."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from ..proof.facts import Accepted, Ended, Fact, ShownDraft, ShownJson, ShownMessage
from .frames import Frame, FrameReader
from .page.dom import Node, Page, parse
from .wire import Gone, exchange

WAIT_S: Final = 60.0
"""Seconds to wait for anything here; a healthy server needs a second or two in all, on a busy machine ten."""

OK: Final = 200
ACCEPTED: Final = 202
TERMINAL: Final = ("completed", "interrupted")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def segment(id_: str) -> str:
    """An id as a segment of a path, as docs/api.md says it."""
    if _PLAIN.fullmatch(id_) and id_ != "latest":
        return id_
    return "~" + base64.urlsafe_b64encode(id_.encode("utf-8", "surrogatepass")).decode().rstrip("=")


class Seen(NamedTuple):
    """A text that a page showed; `place` is the ids of what it stands in and of itself."""

    to: str
    place: str
    text: str


class Answer(NamedTuple):
    """The answer to a request; `value` is its JSON document, or its text."""

    status: int
    value: Any
    headers: dict[str, str]


@dataclass
class Follower:
    """A client's view of one thread, made of frames alone. It lives longer than a connection, and than a server.

    `cursor` is the last id it saw. `ends` says how each connection ended: `bye`, `reset`, `dropped` (by the client) or
    `cut`. `wrong` is what a stream must not do.
    """

    thread: str
    name: str = "follower"
    cursor: str | None = None
    events: dict[int, Any] = field(default_factory=dict)
    drafts: dict[tuple[str, str], str] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    resets: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the stream is."""
        return f"/api/threads/{segment(self.thread)}/events"

    def take(self, frame: Frame) -> None:
        """Take a frame in, as a client would."""
        value = json.loads(frame.data)
        match frame.event:
            case "event":
                self._event(frame, value)
            case "draft":
                self._draft(frame, value)
            case "reset":
                self.resets.append(value)
                self.cursor, self.events, self.drafts = value["head"], {}, {}
            case "bye":
                pass
            case _:
                self.wrong.append(f"{self.name}: an unknown frame {frame}")

    def _event(self, frame: Frame, value: Any) -> None:
        seq, turn = value["seq"], value["turn"] or ""
        before = 0 if self.cursor is None else int(self.cursor.rpartition(".")[2])
        if seq != before + 1 or frame.id is None or not frame.id.endswith(f".{seq}"):
            self.wrong.append(f"{self.name}: seq {seq} with id {frame.id} after {self.cursor}")
        self.cursor = frame.id
        self.events[seq] = value
        for closed in value["body"].get("closes", ()):
            self.drafts.pop((turn, closed["draft"]), None)
        shown = ShownJson(thread=self.thread, turn=turn, seq=seq, kind=value["kind"], body=value["body"])
        self.facts.append(shown)

    def _draft(self, frame: Frame, value: Any) -> None:
        name = (value["turn"], value["draft"])
        before = self.drafts.get(name, "")
        if frame.id is not None or value["offset"] > len(before):
            self.wrong.append(f"{self.name}: {frame} after {len(before)} characters")
        self.drafts[name] = before[: value["offset"]] + value["text"]
        self.facts.append(
            ShownDraft(
                to=f"{self.name} {len(self.ends)}",
                thread=self.thread,
                turn=value["turn"],
                draft=value["draft"],
                after=value["after"],
                rev=None,
                offset=value["offset"],
                text=value["text"],
            )
        )

    @property
    def last(self) -> str:
        """What it was shown last, for who reads of a failure."""
        return "\n  ".join(map(str, self.facts[-20:]))

    def state(self, turn: str) -> str | None:
        """How a turn has ended, as far as this client knows."""
        ends = [event["kind"] for event in self.events.values() if event["turn"] == turn and event["kind"] in TERMINAL]
        return ends[0] if ends else None


@dataclass
class PageFollower:
    """A page of one thread as a browser has it: the document that was loaded, and what its stream made of it."""

    thread: str
    name: str = "page"
    shown: Page | None = None
    cursor: str | None = None
    seen: list[Seen] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    @property
    def page(self) -> str:
        """Where the page is."""
        return f"/t/{segment(self.thread)}"

    @property
    def url(self) -> str:
        """Where its stream is."""
        return f"{self.page}/stream"

    @property
    def last(self) -> str:
        """The end of what it shows, likewise."""
        return "" if self.shown is None else " ".join(self.shown.thread.text.split())[-2_000:]

    @property
    def content(self) -> object:
        """What the page shows of its thread, to be compared with another page."""
        assert self.shown is not None
        return [child.shown() if isinstance(child, Node) else child for child in self.shown.thread.children]

    def load(self, document: str) -> None:
        """The page was loaded."""
        self.shown = Page(document)
        self.cursor = self.shown.thread.attributes["data-at"]
        for turn in self.shown.thread.children:
            if isinstance(turn, Node):
                self._see("", turn)

    def take(self, frame: Frame) -> None:
        """Take a frame of the page's stream."""
        match frame.event:
            case "frag":
                self._apply(frame)
            case "reset":
                self.shown = self.cursor = None
            case "bye":
                pass
            case _:
                self.wrong.append(f"{self.name}: an unknown frame {frame}")

    def _apply(self, frame: Frame) -> None:
        assert self.shown is not None
        id_ = "" if frame.id is None else f"id: {frame.id}\n"
        try:
            self.shown.apply(f"{id_}event: frag\ndata: {frame.data}\n\n".encode())
        except AssertionError as error:
            self.wrong.append(f"{self.name}: {error} by {frame}")
        self.cursor = frame.id or self.cursor
        for verb, parent, *rest in json.loads(frame.data):
            if verb == "put":
                self._see(parent, parse(rest[1]))

    def _see(self, parent: str, node: Node) -> None:
        ids = [one.id for one in node.walk() if one.id is not None]
        text = " ".join(child for one in node.walk() for child in one.children if isinstance(child, str))
        self.seen.append(Seen(f"{self.name} {len(self.ends)}", f"{parent} {ids[0] if ids else ''}", text))


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
