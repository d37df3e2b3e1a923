"""Streams of frames: their form, their pings, and their ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from tests.runner.running import run, until
from tests.web.frames import Frame, FrameReader
from tests.web.listening import Stream
from turnlog.errors import StoreClosed, StoreUnavailable, UnknownTurn
from turnlog.limits import STREAM_BYE_S, STREAM_PING_S, STREAM_STALL_S
from turnlog.testing.clock import ManualClock
from turnlog.web.site import Site
from turnlog.web.stream.frames import frame
from turnlog.web.stream.sse import EventStream
from turnlog.web.work import Work


class Source:
    """A source that yields what it is told to, and tells whether it was closed."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.closed = False

    async def __call__(self) -> AsyncGenerator[bytes, None]:
        try:
            while piece := await self.pieces.get():
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed = True


class Stage:
    """A site, and streams of one source on it. No time passes but by `pass_s`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        log = turnlog.open("memory://")
        log.close()
        self.site = Site(log=log, work=Work(log, {}, agent=""), clock=self.clock)
        self.source = Source()

    def stream(self, method: str = "GET") -> Stream:
        return Stream(EventStream(self.site, self.source()), method=method)

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.site.streams.look()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
BYE = Frame("bye", None, '{"reason":"shutdown"}')


@given(TEXTS, st.sampled_from(["\n", "\r", "\r\n", " "]))
def test_frame_is_read_back(text: str, between: str) -> None:
    """What a reader that knows no line end but LF makes of a frame is what was framed, and no byte of it is a CR."""
    data = between.join(["[", json.dumps(text, ensure_ascii=False), "]"]).encode()
    written = frame("event", data, id="e.1") + frame("bye", b"{}")
    first, second = FrameReader().feed(written)
    assert b"\r" not in written
    assert (first.event, first.id, json.loads(first.data)) == ("event", "e.1", [text])
    assert second == Frame("bye", None, "{}")


def test_stream_has_its_headers_and_begins_at_once() -> None:
    """A stream is a stream by its headers, kept by nobody, and tells first when to come back."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream().opened() as client:
            stage.source.pieces.put_nowait(frame("event", b"1"))
            assert await client.frame() == Frame("event", None, "1")
        assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (client.headers["cache-control"], client.headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-length" not in client.headers
        assert client.body.startswith(b"retry: ")

    run(main())


def test_silent_stream_is_pinged() -> None:
    """A stream is pinged when nothing came for a while, and not while something comes."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream().opened() as client:
            stage.source.pieces.put_nowait(frame("event", b"1"))
            await client.frame()
            stage.pass_s(STREAM_PING_S - 1)
            stage.source.pieces.put_nowait(frame("event", b"2"))
            await client.frame()
            stage.pass_s(STREAM_PING_S - 1)
            stage.source.pieces.put_nowait(frame("event", b"3"))
            await client.frame()
            assert client.comments == []
            stage.pass_s(STREAM_PING_S)
            await client.take()
            assert client.comments == ["ping"]

    run(main())


def test_stopping_server_says_bye() -> None:
    """When the server stops, every stream ends whole, with a goodbye and its source closed."""

    async def main() -> None:
        stage = Stage()
        other = Stream(EventStream(stage.site, Source()()))
        async with stage.stream().opened() as client, other.opened():
            stage.source.pieces.put_nowait(frame("event", b"1"))
            await client.frame()
            assert len(stage.site.streams) == 2
            stage.site.stop.set()
            assert await client.rest() == [BYE]
            assert await other.rest() == [BYE]
        assert stage.source.closed
        assert len(stage.site.streams) == 0

    run(main())


def test_stream_on_a_stopping_server_ends() -> None:
    """Who connects while the server stops is told so at once."""

    async def main() -> None:
        stage = Stage()
        stage.site.stop.set()
        async with stage.stream().opened() as client:
            assert await client.rest() == [BYE]

    run(main())


@pytest.mark.parametrize(("error", "reason"), [(StoreClosed(), "shutdown"), (StoreUnavailable(), "store")])
def test_store_that_fails_ends_the_stream(error: Exception, reason: str) -> None:
    """A stream whose log was closed or whose store cannot be read ends with a goodbye that says which."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream().opened() as client:
            stage.source.pieces.put_nowait(error)
            assert await client.rest() == [Frame("bye", None, f'{{"reason":"{reason}"}}')]

    run(main())


def test_defect_of_a_source_is_not_hidden() -> None:
    """What else a source raises leaves the stream, which is then cut without a goodbye."""

    async def main() -> None:
        stage = Stage()
        client = stage.stream()

        async def connected() -> None:
            async with client.opened():
                stage.source.pieces.put_nowait(UnknownTurn(thread="t", turn="u"))
                await client.take()
                await client.take()
                await until(lambda: stage.source.closed)

        with pytest.raises(UnknownTurn):
            await connected()
        assert not client.ended
        assert len(stage.site.streams) == 0

    run(main())


def test_source_that_ends_ends_the_stream() -> None:
    """A stream whose source has no more to say ends whole, without a goodbye."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream().opened() as client:
            stage.source.pieces.put_nowait(frame("event", b"1"))
            stage.source.pieces.put_nowait(b"")
            assert await client.rest() == [Frame("event", None, "1")]

    run(main())


def test_client_that_goes_is_let_go() -> None:
    """When a client goes away its source is closed, also while it is being sent something."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream().opened() as client:
            await client.take()
            for number in range(5):
                stage.source.pieces.put_nowait(frame("event", b"%d" % number))
        assert stage.source.closed
        assert len(stage.site.streams) == 0

    run(main())


def test_client_that_takes_nothing_is_cut_off() -> None:
    """A client that takes nothing for the limit is cut off, and not before; another one on the same server stays."""

    async def main() -> None:
        stage = Stage()
        other = Source()
        async with (
            stage.stream().opened() as client,
            Stream(EventStream(stage.site, other())).opened() as quick,
        ):
            stage.source.pieces.put_nowait(frame("event", b"1"))
            stage.source.pieces.put_nowait(frame("event", b"2"))
            for either in (client, quick, client, quick):
                await either.take()
            await until(lambda: stage.source.pieces.empty())
            stage.pass_s(STREAM_STALL_S - 1)
            assert not client.was_cut_off()
            stage.pass_s(1)
            assert client.was_cut_off()
            await until(lambda: stage.source.closed)
            other.pieces.put_nowait(frame("event", b"1"))
            assert await quick.frame() == Frame("event", None, "1")
            assert not quick.was_cut_off()

    run(main())


def test_client_that_takes_again_is_kept() -> None:
    """The time that a client takes nothing is counted from the last piece it took."""

    async def main() -> None:
        stage = Stage()
        for number in range(3):
            stage.source.pieces.put_nowait(frame("event", b"%d" % number))
        async with stage.stream().opened() as client:
            for number in range(3):
                await until(lambda: len(stage.site.streams) == 1)
                stage.pass_s(STREAM_STALL_S - 1)
                assert (await client.frame()).data == str(number)
            assert not client.was_cut_off()

    run(main())


def test_client_that_takes_no_goodbye_does_not_hold_up_the_server() -> None:
    """A stopping server cuts off who does not take the goodbye, well within a second."""

    async def main() -> None:
        stage = Stage()
        stage.source.pieces.put_nowait(frame("event", b"1"))
        stage.source.pieces.put_nowait(frame("event", b"2"))
        async with stage.stream().opened() as client:
            await client.take()
            await client.take()
            await until(lambda: stage.source.pieces.empty())
            stage.site.stop.set()
            began = asyncio.get_running_loop().time()
            await until(lambda: client.was_cut_off())
            assert asyncio.get_running_loop().time() - began >= STREAM_BYE_S / 2
        assert stage.source.closed

    run(main())


def test_head_of_a_stream() -> None:
    """A HEAD request gets the headers of the stream, and no stream."""

    async def main() -> None:
        stage = Stage()
        async with stage.stream("HEAD").opened() as client:
            assert await client.rest() == []
        assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert len(stage.site.streams) == 0

    run(main())
