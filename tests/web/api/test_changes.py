"""The stream of threads that change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.journal.stores import message, run
from tests.runner.running import open_log
from tests.web.frames import Frame, FrameReader
from tests.web.listening import Stream
from tests.web.sites import GUARD, HOST, site_of
from turnlog.errors import StoreClosed
from turnlog.journal.log import Log
from turnlog.limits import PAGE_ROWS_MAX, STREAM_PIECE_BYTES
from turnlog.web.app import create_app
from turnlog.web.stream.changing import ChangeFeed

START = Frame("reset", None, '{"reason":"start","head":null}')


class Client:
    """A client that keeps the list of threads: it reads the list at a `reset`, and takes each `change` in."""

    def __init__(self, log: Log, feed: ChangeFeed) -> None:
        self._log = log
        self.pieces = feed.frames()
        self._frames: list[Frame] = []
        self.sizes: list[int] = []
        self.resets: list[str] = []
        self.told: list[str] = []
        self.heads: dict[str, int] = {}

    async def take(self) -> None:
        """The next frame."""
        while not self._frames:
            piece = await anext(self.pieces)
            self.sizes.append(len(piece))
            self._frames = FrameReader().feed(piece)
        frame = self._frames.pop(0)
        data = json.loads(frame.data)
        if frame.event == "reset":
            self.resets.append(data["reason"])
            self.heads = listed(self._log)
        else:
            self.told += [row["thread"] for row in data["threads"]]
            self.heads.update({row["thread"]: row["head"] for row in data["threads"]})

    async def catch_up(self) -> None:
        while self.heads != listed(self._log):
            await self.take()

    async def begin(self) -> None:
        """Read until changes are told: the reader of the log has looked at it then."""
        await self.take()
        number = 0
        while not self.told:
            await self._log.append_message("begin", message(str(number)))
            number += 1
            await self.catch_up()


def listed(log: Log) -> dict[str, int]:
    return {row.thread: row.head for row in log.threads(limit=PAGE_ROWS_MAX).rows}


@asynccontextmanager
async def watched(log: Log, **bounds: Any) -> AsyncIterator[ChangeFeed]:
    feed = ChangeFeed(log, **{"pause_s": 0.0, **bounds})
    try:
        yield feed
    finally:
        await feed.aclose()


def test_change_is_told_over_http(tmp_path: Path) -> None:
    """A stream of changes begins with a `reset`, upon which the list is read, and then has the row of what changes."""

    async def main(log: Log) -> None:
        await log.append_message("old", message("hello"))
        app = create_app(site_of(log), guard=GUARD)
        async with Stream(app, "/api/changes", {"host": HOST}).opened() as client:
            assert await client.frame() == START
            rows: list[Any] = []
            while not rows:
                await log.append_message("new", message("hello"))
                rows = json.loads((await client.frame()).data).get("threads", [])
            assert [row["thread"] for row in rows] == ["new"]
            assert rows[0]["updated_at"].endswith("Z")
        async with Stream(app, "/api/changes?x=1", {"host": HOST}).opened() as client:
            await client.rest()
            assert client.status == 400

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_list_is_kept_by_the_stream(tmp_path: Path) -> None:
    """Who reads the list at each `reset` and takes each `change` in has the list as it is, whatever is written when."""

    async def main(log: Log) -> None:
        async with watched(log) as feed:
            client = Client(log, feed)
            for number in range(50):
                await log.append_message(f"t{number % 7}", message("hello"))
                if number % 5 == 0:
                    await client.catch_up()
            await client.catch_up()
            assert client.resets[0] == "start"
            await client.pieces.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_other_processes_are_told_of(tmp_path: Path) -> None:
    """What another process writes is told like what this one writes."""

    async def main(log: Log, other: Log) -> None:
        async with watched(log) as feed:
            client = Client(log, feed)
            await client.begin()
            await other.append_message("theirs", message("hello"))
            await client.catch_up()
            assert "theirs" in client.heads
            await client.pieces.aclose()

    with open_log("sqlite", tmp_path) as log, open_log("sqlite", tmp_path) as other:
        run(main(log, other))


def test_draft_changes_no_row(tmp_path: Path) -> None:
    """Text still being written changes no row of the list, so it is not told."""

    async def main(log: Log) -> None:
        async with watched(log) as feed:
            client = Client(log, feed)
            await client.begin()
            turn = await log.submit("t", "question")
            await turn.start(agent="a")
            await turn.draft("One ")
            await client.catch_up()
            await log.append_message("between", message("hello"))
            await client.catch_up()
            client.told.clear()
            for _ in range(3):
                await turn.draft("more ")
            await log.append_message("other", message("hello"))
            await client.catch_up()
            assert client.told == ["other"]
            await client.pieces.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_watcher_that_is_too_far_behind_is_reset(tmp_path: Path) -> None:
    """P11: the rows kept for slow watchers are bounded, and who is slower is told to read the list again."""

    async def main(log: Log) -> None:
        async with watched(log, kept_max=3) as feed:
            slow, quick = Client(log, feed), Client(log, feed)
            await slow.begin()
            await quick.take()
            slow.resets.clear()
            for number in range(10):
                await log.append_message(f"t{number}", message("hello"))
                await quick.catch_up()
            await slow.catch_up()
            assert slow.resets == ["behind"]
            assert "behind" not in quick.resets
            for client in (slow, quick):
                await client.pieces.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_many_changes_come_in_bounded_pieces(tmp_path: Path) -> None:
    """P11: however many threads change at once, no piece of the stream is large."""

    async def main(log: Log) -> None:
        async with watched(log, pause_s=0.1) as feed:
            client = Client(log, feed)
            await client.begin()
            receipts = [log.append_message(f"{number} " + "long " * 190, message("hello")) for number in range(200)]
            for receipt in receipts:
                await receipt
            await client.catch_up()
            assert sum(client.sizes) > 2 * STREAM_PIECE_BYTES
            assert max(client.sizes) <= STREAM_PIECE_BYTES + 4_096
            await client.pieces.aclose()

    with open_log("memory", tmp_path) as log:
        run(main(log))


def test_closed_log_ends_the_changes(tmp_path: Path) -> None:
    """A watcher of a log that is closed gets `StoreClosed`."""

    async def main() -> None:
        log = open_log("sqlite", tmp_path)
        async with watched(log) as feed:
            pieces = feed.frames()
            await anext(pieces)
            waiting = asyncio.ensure_future(anext(pieces))
            await asyncio.to_thread(log.close)
            with pytest.raises(StoreClosed):
                await waiting

    run(main())
