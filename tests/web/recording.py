"""A client of the server that keeps everything it was shown: frames of threads and pages, and answers."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import httpx

from ..proof.facts import Accepted, Ended, Fact, ShownDraft, ShownJson, ShownMessage
from .frames import Frame, FrameReader

WAIT_S: Final = 30.0
"""Seconds to wait for anything here; a healthy server needs a second or two in all."""

ACCEPTED: Final = 202
TERMINAL: Final = ("completed", "interrupted")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_AT: Final = re.compile(r'data-at="([^"]*)"')
_ID: Final = re.compile(r'\sid="([^"]*)"')
_TURN: Final = re.compile(r'(?=<\w+ [^>]*\sid="turn-)')


class Gone(Exception):
    """The server went away."""


def segment(id_: str) -> str:
    """An id as a segment of a path, as docs/api.md says it."""
    if _PLAIN.fullmatch(id_) and id_ != "latest":
        return id_
    return "~" + base64.urlsafe_b64encode(id_.encode("utf-8", "surrogatepass")).decode().rstrip("=")


class Seen(NamedTuple):
    """A piece of HTML that a client was shown; `place` is the ids of what it stands in and of itself."""

    to: str
    place: str
    html: str


class Answer(NamedTuple):
    """The answer to a request; `value` is its JSON document, or its text."""

    status: int
    value: Any
    headers: httpx.Headers


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

    def state(self, turn: str) -> str | None:
        """How a turn has ended, as far as this client knows."""
        ends = [event["kind"] for event in self.events.values() if event["turn"] == turn and event["kind"] in TERMINAL]
        return ends[0] if ends else None


@dataclass
class PageFollower:
    """A page of one thread: the document that was loaded, and the frames of its stream since then."""

    thread: str
    name: str = "page"
    document: str = ""
    cursor: str | None = None
    frames: list[Frame] = field(default_factory=list)
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

    def load(self, document: str) -> None:
        """The page was loaded, and nothing has come since."""
        self.document, self.frames = document, []
        (self.cursor,) = set(_AT.findall(document))
        for section in _TURN.split(document):
            self._see("", section)

    def take(self, frame: Frame) -> None:
        """Take a frame of the page's stream."""
        if frame.event == "frag":
            for operation in json.loads(frame.data):
                if operation[0] == "put":
                    self._see(operation[1], operation[3])
        elif frame.event not in ("reset", "bye"):
            self.wrong.append(f"{self.name}: an unknown frame {frame}")
        self.frames.append(frame)
        self.cursor = frame.id or self.cursor

    def _see(self, parent: str, html: str) -> None:
        own = _ID.search(html)
        self.seen.append(Seen(f"{self.name} {len(self.ends)}", f"{parent} {own[1] if own else ''}", html))


class Client:
    """Talks to one server until it goes away. Everything it learns is in `facts`, or in its followers."""

    def __init__(self, port: int, facts: list[Fact]) -> None:
        self.facts = facts
        self.gone = False
        self._news = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S, limits=limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.http.aclose()

    # --- waiting ------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._news.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Return once `wanted` is true of what the followers have; raises `Gone` when the server is."""
        async with asyncio.timeout(WAIT_S):
            while not wanted():
                if self.gone:
                    raise Gone
                self._news.clear()
                await self._news.wait()

    def lost(self) -> None:
        """The server is gone: whoever waits is told."""
        self.gone = True
        self._tell()

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request. Raises `Gone`."""
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers = {"content-type": "application/json", **headers}
        try:
            answer = await self.http.request(method, path, content=content, headers=headers)
        except httpx.TransportError as error:
            self.lost()
            raise Gone from error
        value = answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
        return Answer(answer.status_code, value, answer.headers)

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

    async def _submit_form(self, thread: str, fields: dict[str, str]) -> Answer:
        try:
            answer = await self.http.post(
                f"/t/{segment(thread)}/turns", data=fields, headers={"accept": "application/json"}
            )
        except httpx.TransportError as error:
            self.lost()
            raise Gone from error
        return Answer(answer.status_code, answer.json(), answer.headers)

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
        assert answer.status == httpx.codes.OK, answer
        page.load(answer.value)

    def follow(self, follower: Follower | PageFollower) -> asyncio.Task[None]:
        """Follow from the follower's cursor on until the connection ends; cancelling the task drops it."""
        task = asyncio.create_task(self._follow(follower))
        self._tasks[id(follower)] = task
        return task

    def follows(self, follower: Follower | PageFollower) -> bool:
        """Whether the follower has a connection."""
        task = self._tasks.get(id(follower))
        return task is not None and not task.done()

    async def _follow(self, follower: Follower | PageFollower) -> None:
        end = "cut"
        try:
            async with aclosing(self._frames(follower)) as frames:
                async for frame in frames:
                    follower.take(frame)
                    if frame.event in ("bye", "reset"):
                        end = frame.event
                    self._tell()
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
        with suppress(httpx.TransportError):
            async with self.http.stream("GET", follower.url, headers=headers, timeout=WAIT_S) as answer:
                if answer.status_code != httpx.codes.OK:
                    follower.wrong.append(f"{follower.name}: {answer.status_code} {await answer.aread()!r}")
                    return
                reader = FrameReader()
                async for piece in answer.aiter_raw():
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
