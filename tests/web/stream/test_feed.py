"""What watchers of a thread are sent: each event once and in order, and each draft as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog.web.stream.feed
from tests.journal.stores import call, message, output, run, until
from tests.runner.running import open_log
from tests.web.frames import FrameReader
from tests.web.listening import Held, open_drafts
from turnlog.errors import StoreClosed
from turnlog.events.kinds import Event
from turnlog.journal import pending
from turnlog.journal.follow import Batch
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.web.stream.feed import ThreadFeed

HALF = "\ud83d"
NAMES = st.sampled_from(["c0", "c1", "m1"])
WRITES = st.one_of(
    st.tuples(st.just("draft"), st.sampled_from(["x", "é\U0001f600", HALF]), st.none(), st.just("text")),
    st.tuples(
        st.just("draft"),
        st.sampled_from(["x", HALF, "long " * 100]),
        st.sampled_from([None, "m1", "c0"]),
        st.sampled_from(["text", "reasoning", "args", "output"]),
    ),
    st.tuples(st.sampled_from(["message", "call", "output"]), NAMES),
    st.tuples(st.just("step"), NAMES, st.sampled_from(["running", "succeeded", None])),
    st.tuples(st.sampled_from(["drop", "settle"])),
)
WATCHERS = st.sampled_from(["a", "b", "c"])
READS = st.one_of(
    st.tuples(st.just("connect"), WATCHERS, st.sampled_from(["beginning", "cursor", "documents"])),
    st.tuples(st.just("leave"), WATCHERS),
    st.tuples(st.just("take"), WATCHERS, st.integers(1, 3)),
    st.tuples(st.just("catch up"), WATCHERS),
)
PIECE_BYTES = 500
"""What is sent at once in these tests: so little that a watcher needs several pieces for most things."""

PLAYS = st.lists(st.one_of(WRITES, READS), max_size=30)
KEPT_BYTES_MAX = 3_000
BOUNDS = st.tuples(st.integers(1, 4), st.sampled_from([1, 300, KEPT_BYTES_MAX]))
"""Pieces and bytes that a feed keeps: so few that every watcher falls behind."""


class Watcher:
    """One client of the feed: what it holds, and its connection while there is one."""

    def __init__(self, log: Log, feed: ThreadFeed) -> None:
        self._log = log
        self._feed = feed
        self._pieces: AsyncGenerator[bytes, None] | None = None
        self.held = Held()

    async def connect(self, how: str) -> None:
        """From the beginning, from where it was, or from documents that it fetches."""
        await self.leave()
        if how == "beginning":
            self.held = Held()
        elif how == "documents":
            self.held = Held(self._log.thread("t").head)
            self.held.drafts = open_drafts(self._log, "t")
        self._pieces = self._feed.frames(self.held.seq)

    async def leave(self) -> None:
        if self._pieces is not None:
            await self._pieces.aclose()
            self._pieces = None

    @property
    def behind(self) -> bool:
        return self._pieces is not None and not self.held.is_all_of(self._log, "t")

    async def take(self) -> None:
        """One piece: whatever it brings is in the store."""
        assert self._pieces is not None
        piece = await anext(self._pieces)
        assert b"\r" not in piece
        assert piece[:-2].rfind(b"\n\n") <= KEPT_BYTES_MAX  # what is sent at once, but for one frame
        for frame in FrameReader().feed(piece):
            self.held.take(frame)
        assert self.held.seq <= self._log.thread("t").head

    async def catch_up(self) -> None:
        while self.behind:
            await self.take()


class Writer:
    """Writes to one thread, turn after turn."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn: Turn | None = None

    async def write(self, action: tuple[Any, ...]) -> None:
        if self._turn is None:
            self._turn = await self._log.submit("t", "question")
            await self._turn.start(agent="a")
        turn = self._turn
        match action:
            case ("draft", text, target, kind):
                written = turn.draft(text, target=target, kind=kind)
                if text != HALF:  # which waits for the other half
                    await written
            case ("message", id_):
                await turn.item(message("final", id_))
            case ("call", call_id):
                await turn.item(call(call_id))
            case ("output", call_id):
                await turn.item(output(call_id))
            case ("step", id_, status):
                await turn.step(id_, kind="tool", status=status)
            case ("drop",):
                await turn.drop_attempt("retry")
            case _:
                await turn.interrupt("failed")
                self._turn = None

    async def end(self) -> None:
        if self._turn is not None:
            await self._turn.complete()


async def play(log: Log, actions: list[tuple[Any, ...]], bounds: tuple[int, int]) -> None:
    await log.append_message("t", message("hello"))
    feed = ThreadFeed(log, "t", pieces_max=bounds[0], bytes_max=bounds[1])
    writer, watchers = Writer(log), {name: Watcher(log, feed) for name in "abc"}
    for action in actions:
        match action:
            case ("connect", name, how):
                await watchers[name].connect(how)
            case ("leave", name):
                await watchers[name].leave()
            case ("take", name, count):
                for _ in range(count):
                    if watchers[name].behind:
                        await watchers[name].take()
            case ("catch up", name):
                await watchers[name].catch_up()
            case _:
                await writer.write(action)
    for how in ("beginning", "cursor", "documents"):
        newcomer = Watcher(log, feed)
        await newcomer.connect(how)
        await newcomer.catch_up()
        await newcomer.leave()
    await writer.end()
    stored = [event_document(event) for event in log.events("t")]
    for watcher in watchers.values():
        await watcher.catch_up()
        if watcher.held.events:
            first = watcher.held.events[0]["seq"]
            assert [(event["seq"], event["turn"], event["kind"]) for event in watcher.held.events] == [
                event for event in stored[: watcher.held.seq] if event[0] >= first
            ]
        await watcher.leave()
    await feed.aclose()


def event_document(event: Event) -> tuple[int, str | None, str]:
    return event.seq, event.turn, event.kind


@pytest.fixture(scope="module", autouse=True)
def small_and_prompt() -> Iterator[None]:
    """Little is sent at once, and drafts are written at once, so that many plays take little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turnlog.web.stream.feed, "STREAM_PIECE_BYTES", PIECE_BYTES)
        patch.setattr(pending, "DRAFT_DELAY_S", 0.0)
        yield


@settings(max_examples=100)
@given(PLAYS, BOUNDS)
def test_watchers_hold_what_the_log_holds(actions: list[tuple[Any, ...]], bounds: tuple[int, int]) -> None:
    """P9, C39, C40, C41: watchers that come, go, come back at a cursor or with documents, and are slow, each hold every
    event once and in order, and every draft as the log has it."""
    with open_log("memory", Path()) as log:
        run(play(log, actions, bounds))


@settings(max_examples=20)
@given(PLAYS, BOUNDS)
def test_watchers_hold_what_the_disk_holds(actions: list[tuple[Any, ...]], bounds: tuple[int, int]) -> None:
    """P2, P9, C39, C40, C41: the same, of a store on disk."""
    with TemporaryDirectory() as folder, open_log("sqlite", Path(folder)) as log:
        run(play(log, actions, bounds))


class Lagging:
    """A log that lets a feed read one batch for each permit, as on a loaded machine."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.permits = asyncio.Semaphore(0)
        self.watches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def watch(self, thread: str, after: int) -> AsyncGenerator[Batch, None]:
        self.watches += 1
        async with aclosing(self._log.watch(thread, after)) as batches:
            async for batch in batches:
                await self.permits.acquire()
                yield batch


def lagging(log: Log) -> Any:
    return Lagging(log)


def test_watcher_ahead_of_its_feed_gets_nothing_twice(tmp_path: Path) -> None:
    """P9, C41: a client that knows more of the log than the feed has read is sent none of it again."""

    async def main(log: Log) -> None:
        await log.append_message("t", message("one"))
        slow = lagging(log)
        feed = ThreadFeed(slow, "t")
        await until(lambda: slow.watches == 1)
        await log.append_message("t", message("two"))
        watcher = Watcher(log, feed)
        await watcher.connect("documents")
        reading = asyncio.create_task(watcher.take())
        for _ in range(3):
            slow.permits.release()
        await until(lambda: slow.permits.locked())
        await log.append_message("t", message("three"))
        slow.permits.release()
        await reading
        assert [event["seq"] for event in watcher.held.events] == [log.thread("t").head]
        await watcher.leave()
        await feed.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_watcher_that_falls_behind_in_the_middle_misses_nothing(tmp_path: Path) -> None:
    """C40: a watcher that has taken some of what a feed keeps, and is then overtaken, goes on where it was."""

    async def main(log: Log) -> None:
        await log.append_message("t", message("one"))
        feed = ThreadFeed(log, "t", pieces_max=3)
        slow, quick = Watcher(log, feed), Watcher(log, feed)
        for watcher in (slow, quick):
            await watcher.connect("beginning")
            await watcher.catch_up()
        await log.append_message("t", message("two"))
        for watcher in (slow, quick):
            await watcher.catch_up()
        for number in range(6):
            await log.append_message("t", message("word " * 50))
            await quick.catch_up()
            if number == 2:
                await slow.take()
        await slow.catch_up()
        assert slow.held.events == quick.held.events
        for watcher in (slow, quick):
            await watcher.leave()
        await feed.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_one_reader_serves_all_watchers(tmp_path: Path) -> None:
    """P11: a thread is read once, however many watch it, and each piece is encoded once for all of them."""

    async def main(log: Log) -> None:
        await log.append_message("t", message("one"))
        counted = lagging(log)
        for _ in range(100):
            counted.permits.release()
        feed = ThreadFeed(counted, "t")
        watchers = [feed.frames(log.thread("t").head) for _ in range(20)]
        reading = [asyncio.create_task(anext(watcher)) for watcher in watchers]
        await until(lambda: counted.permits._value == 99)
        await log.append_message("t", message("two"))
        pieces = await asyncio.gather(*reading)
        assert counted.watches == 1
        assert len({id(piece) for piece in pieces}) == 1
        for watcher in watchers:
            await watcher.aclose()
        await feed.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))


def test_long_thread_is_sent_in_bounded_pieces(tmp_path: Path) -> None:
    """P11: a client that begins at the beginning of a long thread gets it in pieces of bounded size, and all of it."""

    async def main(log: Log) -> None:
        for _ in range(5):
            receipts = [log.append_message("t", message("word " * 200)) for _ in range(500)]
            await receipts[-1]
        feed, watcher_sizes = ThreadFeed(log, "t"), []
        held = Held()
        async with aclosing(feed.frames(0)) as pieces:
            async for piece in pieces:
                watcher_sizes.append(len(piece))
                for frame in FrameReader().feed(piece):
                    held.take(frame)
                if held.seq == log.thread("t").head:
                    break
        assert max(watcher_sizes) <= 2_000
        assert len(watcher_sizes) > 10
        await feed.aclose()

    with open_log("memory", tmp_path) as log:
        run(main(log))


def test_reader_that_stops_in_the_middle_holds_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a client that is far behind and takes nothing more has made the server read no more than a few pieces."""

    async def main(log: Log) -> None:
        for _ in range(100):
            await log.append_message("t", message("word " * 1_000))
        sizes: list[int] = []
        read = log._engine.read

        def counted(*args: Any, **kwargs: Any) -> Any:
            page = read(*args, **kwargs)
            sizes.append(sum(len(record.body) for record in page.rows))
            return page

        monkeypatch.setattr(log._engine, "read", counted)
        feed = ThreadFeed(log, "t")
        watcher = Watcher(log, feed)
        await watcher.connect("beginning")
        await watcher.take()
        assert 0 < sum(sizes) < 20_000
        await watcher.catch_up()
        await watcher.leave()
        await feed.aclose()

    with open_log("memory", tmp_path) as log:
        run(main(log))


def test_piece_larger_than_the_memory_of_a_feed_is_read_from_the_log(tmp_path: Path) -> None:
    """P11: what becomes durable at once and is more than a feed keeps is kept by no feed, and reaches every watcher."""

    async def main(log: Log) -> None:
        await log.append_message("t", message("one"))
        slow = lagging(log)
        slow.permits.release()
        feed = ThreadFeed(slow, "t", bytes_max=2_000)
        watcher = Watcher(log, feed)
        await watcher.connect("beginning")
        await watcher.catch_up()
        for _ in range(100):
            await log.append_message("t", message("word " * 50))
        slow.permits.release()
        await watcher.take()  # the first of them, which was read alone
        for _ in range(100):
            slow.permits.release()
        await watcher.catch_up()
        assert len(watcher.held.events) == log.thread("t").head
        await watcher.leave()
        await feed.aclose()

    with open_log("memory", tmp_path) as log:
        run(main(log))


def test_closed_log_is_told_to_every_watcher(tmp_path: Path) -> None:
    """A watcher of a log that is closed gets what was durable, and then `StoreClosed`."""

    async def main() -> None:
        log = open_log("sqlite", tmp_path)
        turn = await log.submit("t", "question")
        await turn.start(agent="a")
        feed = ThreadFeed(log, "t")
        held = Held()

        async def watch() -> None:
            async with aclosing(feed.frames(0)) as pieces:
                async for piece in pieces:
                    for frame in FrameReader().feed(piece):
                        held.take(frame)

        watching = asyncio.create_task(watch())
        await until(lambda: held.seq == log.thread("t").head)
        await asyncio.to_thread(log.close)
        with pytest.raises(StoreClosed):
            await watching
        await feed.aclose()

    run(main())


def test_frames_are_what_the_documents_say(tmp_path: Path) -> None:
    """A frame's data is the event or chunk itself, and its id is the cursor behind it, which a draft has not."""

    async def main(log: Log) -> None:
        turn = await log.submit("t", "question", turn="one")
        await turn.start(agent="a")
        await turn.draft("Half a")
        feed = ThreadFeed(log, "t")
        taken: list[Any] = []
        async with aclosing(feed.frames(0)) as pieces:
            async for piece in pieces:
                taken += FrameReader().feed(piece)
                if taken[-1].event == "draft":
                    break
        *events, draft = taken
        assert [frame.id for frame in events] == [f"{log.epoch}.{seq}" for seq in range(1, len(events) + 1)]
        assert [json.loads(frame.data)["kind"] for frame in events][-1] == "assistant_started"
        assert draft.id is None
        assert json.loads(draft.data) == {
            "turn": "one",
            "draft": "0/~0/text/0",
            "item": None,
            "kind": "text",
            "after": len(events),
            "offset": 0,
            "text": "Half a",
        }
        await feed.aclose()

    with open_log("sqlite", tmp_path) as log:
        run(main(log))
