"""A client of one stream, in the process: it takes what it is sent piece by piece, or stops taking, or goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message

from tests.web.frames import Frame, FrameReader
from turnlog.events.kinds import Draft
from turnlog.journal.log import Log


class Stream:
    """What a client of `app` sees of the answer to one GET. Its connection holds one piece that is not taken."""

    def __init__(
        self, app: ASGIApp, path: str = "/", headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> None:
        path, _, query = path.partition("?")
        given = {"host": "turnlog.test", "accept": "text/event-stream", **(headers or {})}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("turnlog.test", 80),
            "extensions": {"turnlog.abort": self.cut_off},
        }
        self._app = app
        self._asked = False
        self._gone = asyncio.Event()
        self._wire: asyncio.Queue[Message] = asyncio.Queue(1)
        self._reader = FrameReader()
        self._frames: list[Frame] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._cut_off = False

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        while not self._gone.is_set() and self._wire.full():
            waiting = [asyncio.create_task(self._gone.wait()), asyncio.create_task(self._wire.join())]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.wait(waiting)
        if not self._gone.is_set():
            self._wire.put_nowait(message)

    def go(self) -> None:
        """Go away."""
        self._gone.set()

    def cut_off(self) -> None:
        """What the server does to a client that takes nothing."""
        self._cut_off = True
        self._gone.set()

    def was_cut_off(self) -> bool:
        """Whether the server did."""
        return self._cut_off

    async def take(self) -> bool:
        """Take the next piece; False at the end."""
        if self.ended:
            return False
        message = await self._wire.get()
        self._wire.task_done()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)
            if self.headers.get("content-type", "").startswith("text/event-stream"):
                self._frames += self._reader.feed(message.get("body", b""))
        return not self.ended

    async def frame(self) -> Frame:
        """The next frame."""
        while not self._frames:
            if not await self.take() and not self._frames:
                raise EOFError
        return self._frames.pop(0)

    async def frames(self, count: int) -> list[Frame]:
        """The next frames."""
        return [await self.frame() for _ in range(count)]

    async def rest(self) -> list[Frame]:
        """All frames up to the end of the stream."""
        while await self.take():
            pass
        rest, self._frames = self._frames, []
        return rest

    @property
    def comments(self) -> list[str]:
        """The comments that came."""
        return self._reader.comments

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Stream]:
        """The client connects, and goes away at the end; the server then has nothing left to do for it."""

        async def serve() -> None:
            await self._app(self._scope, self._receive, self._send)

        task = asyncio.create_task(serve())
        try:
            yield self
        finally:
            self.go()
            await task


class Held:
    """What a client holds of a thread. `take` raises `AssertionError` for what leaves a gap or comes twice."""

    def __init__(self, seq: int = 0) -> None:
        self.seq = seq
        self.events: list[dict[str, Any]] = []
        self.drafts: dict[tuple[str, str], str] = {}

    def take(self, frame: Frame) -> None:
        data = json.loads(frame.data)
        if frame.event == "draft":
            key = data["turn"], data["draft"]
            text = self.drafts.get(key, "")
            assert data["offset"] <= len(text), f"a gap in a draft: {data} after {text!r}"
            self.drafts[key] = text[: data["offset"]] + data["text"]
            return
        assert frame.event == "event", frame
        assert data["seq"] == self.seq + 1, f"event {data['seq']} after {self.seq}"
        assert frame.id is not None and frame.id.endswith(f".{data['seq']}")
        self.seq = data["seq"]
        self.events.append(data)
        for closed in data["body"].get("closes", ()):
            self.drafts.pop((data["turn"], closed["draft"]), None)

    def is_all_of(self, log: Log, thread: str) -> bool:
        """Whether it is what the log holds now."""
        return self.seq == log.thread(thread).head and self.drafts == open_drafts(log, thread)


def open_drafts(log: Log, thread: str) -> dict[tuple[str, str], str]:
    """The drafts that no event has closed, each whole."""

    def keyed(draft: Draft) -> tuple[tuple[str, str], str]:
        return (draft.turn, draft.draft), draft.text

    return dict(map(keyed, log.drafts(thread)))
