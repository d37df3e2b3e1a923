"""The stream of a thread's events over HTTP: cursors, and what follows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.journal.stores import message
from tests.runner.running import open_log, run, until
from tests.web.listening import Held, Stream
from tests.web.sites import GUARD, HOST, site_of
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.web.app import create_app
from turnlog.web.site import Site

PATH = "/api/threads/t/events"
CHUNKS = 20


class Stage:
    """A log on disk with one turn that is being answered, and a server of it."""

    def __init__(self, log: Log, turn: Turn) -> None:
        self.log, self.turn = log, turn
        self.site: Site = site_of(log)
        self.app = create_app(self.site, guard=GUARD)

    def stream(self, query: str = "", **headers: str) -> Stream:
        given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return Stream(self.app, f"{PATH}{query}", given)

    def cursor(self, seq: int) -> str:
        return f"{self.log.epoch}.{seq}"

    @property
    def head(self) -> int:
        return self.log.thread("t").head

    async def caught_up(self, client: Stream, held: Held) -> None:
        """Let a client read until it holds what the log holds."""
        while not held.is_all_of(self.log, "t"):
            held.take(await client.frame())

    async def ask(self, query: str = "", **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.get(
                f"{PATH}{query}", headers={name.replace("_", "-"): it for name, it in headers.items()}
            )


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    with open_log("sqlite", folder) as log:
        turn = await log.submit("t", "question")
        await turn.start(agent="a")
        yield Stage(log, turn)


async def answer(stage: Stage) -> None:
    """Some text, and some of it final."""
    await stage.turn.draft("First half, ")
    await stage.turn.item(message("First half, done."))
    await stage.turn.draft("second ")


def test_reader_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    """C39: dropped at every point of an answer and back with its cursor or with none, a client holds the whole answer,
    each part of it once."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            kept, cursor = Held(), "0"
            for number in range(CHUNKS):
                await (stage.turn.draft("word ") if number % 4 else stage.turn.item(message(f"part {number}")))
                async with stage.stream(last_event_id=cursor).opened() as again, stage.stream().opened() as anew:
                    await stage.caught_up(again, kept)
                    fresh = Held()
                    await stage.caught_up(anew, fresh)
                    cursor = stage.cursor(kept.seq)
                    assert fresh.drafts == kept.drafts
                    assert fresh.events == kept.events

    run(main())


def test_readers_are_independent(tmp_path: Path) -> None:
    """C40: one reader that takes nothing holds up no other, and gets everything when it reads again."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            slow, quick = Held(), Held()
            async with stage.stream().opened() as slow_client, stage.stream().opened() as quick_client:
                for number in range(200):
                    await stage.turn.item(message(f"part {number} " + "long " * 200))
                    await stage.caught_up(quick_client, quick)
                await stage.caught_up(slow_client, slow)
                assert slow.events == quick.events

    run(main())


@pytest.mark.parametrize(("cursor", "reason"), [("elsewhere.2", "epoch"), ("{epoch}.99", "future"), ("99", "future")])
def test_cursor_that_proves_nothing_is_reset(tmp_path: Path, cursor: str, reason: str) -> None:
    """C40: after a cursor of another store or of the future, a `reset` names the head, and the stream goes on from it
    with the open drafts and what comes."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            await answer(stage)
            given = cursor.format(epoch=stage.log.epoch)
            async with stage.stream(f"?after={given}").opened() as client:
                reset, draft = await client.frames(2)
                assert (reset.event, reset.id) == ("reset", None)
                assert reset.data == f'{{"reason":"{reason}","head":"{stage.cursor(stage.head)}"}}'
                assert draft.event == "draft"
                await stage.turn.complete()
                assert (await client.frame()).id == stage.cursor(stage.head - 1)

    run(main())


@pytest.mark.parametrize("cursor", ["", "x", "-1", ".5", "a.b", "1.", "1e3", "9" * 30, "%00", "1.2.x"])
def test_malformed_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    """What does not look like a cursor is answered 400, with the field named, and no stream begins."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            refused = await stage.ask(f"?after={cursor}", accept="text/event-stream")
            assert (refused.status_code, refused.json()["field"]) == (400, "after")

    run(main())


def test_header_goes_before_the_address(tmp_path: Path) -> None:
    """A reader that comes back repeats its address: the cursor in `Last-Event-ID` is the later one, and counts."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            async with stage.stream("?after=1", last_event_id=stage.cursor(2)).opened() as client:
                assert (await client.frame()).id == stage.cursor(3)
            async with stage.stream("?after=1").opened() as client:
                assert (await client.frame()).id == stage.cursor(2)

    run(main())


@pytest.mark.parametrize(("path", "status"), [("/api/threads/none/events", 404), (f"{PATH}?since=1", 400)])
def test_stream_of_nothing_is_refused(tmp_path: Path, path: str, status: int) -> None:
    """A thread that does not exist and a parameter that nobody knows are answered with a problem, not with a stream."""

    async def main() -> None:
        async with staged(tmp_path) as stage, Stream(stage.app, path, {"host": HOST}).opened() as client:
            await client.rest()
            assert client.status == status
            assert client.headers["content-type"] == "application/problem+json"

    run(main())


def test_page_of_json_for_who_asks_for_no_stream(tmp_path: Path) -> None:
    """The same address gives one document to a client that does not accept a stream."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            page = (await stage.ask(accept="application/json")).json()
            assert [event["seq"] for event in page["events"]] == list(range(1, stage.head + 1))
            assert page["at"] == stage.cursor(stage.head)

    run(main())


def test_ids_are_the_same_after_a_restart(tmp_path: Path) -> None:
    """P9, C40: what was the cursor of an event is its cursor after a restart, and a reader goes on from it."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            await answer(stage)
            held = Held()
            async with stage.stream().opened() as client:
                await stage.caught_up(client, held)
            cursor = stage.cursor(held.seq)
        with open_log("sqlite", tmp_path) as log:
            again = Stage(log, stage.turn)
            assert again.cursor(held.seq) == cursor
            async with again.stream(last_event_id=cursor).opened() as client:
                await again.caught_up(client, held)
            stored: list[Any] = [event.seq for event in log.events("t")]
            assert [event["seq"] for event in held.events] == stored
            assert held.events[-1]["kind"] == "interrupted"

    run(main())


def test_nothing_is_read_for_nobody(tmp_path: Path) -> None:
    """P11: when the last reader of a thread has gone, the server reads the thread no more."""

    async def main() -> None:
        async with staged(tmp_path) as stage:
            async with stage.stream().opened() as one, stage.stream().opened() as two:
                await one.frame()
                await two.frame()
                assert stage.log._hub.threads() == ["t"]
            await until(lambda: not stage.log._hub.watched)

    run(main())
