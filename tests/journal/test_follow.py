"""Following a thread: from any cursor, once, in order, never ahead of the disk."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random

import pytest

from tests.journal.seen import Seen
from tests.journal.stores import Store, call, drafts, events, message, output, run, take, until
from turnlog.errors import CursorUnprovable, InvalidInput, StoreClosed
from turnlog.events.kinds import Draft
from turnlog.journal.log import Log
from turnlog.limits import READ_EVENTS_MAX


async def watch(log: Log, seen: Seen, after: int | str = 0, thread: str = "t") -> None:
    """Follow until cancelled, or until the log is closed."""
    async with aclosing(log.follow(thread, after)) as frames:
        async for frame in frames:
            seen.take(frame)


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def speak(log: Log, thread: str = "t") -> str:
    """A turn with text, thinking and a call, every write awaited; it stays open with a draft."""
    turn = await log.submit(thread, "question")
    await turn.start()
    for word in ("I ", "look 😀", "."):
        await turn.draft(word)
    await turn.item(call("c1"))
    await turn.draft("hm", kind="reasoning")
    await turn.item(output("c1"))
    await turn.draft("so ")
    await turn.draft("it is")
    return turn.id


def test_every_cursor_gives_what_comes_after_it_once(log: Log) -> None:
    """C39, P9: from each seq the events after it come once and in order, then every open draft whole."""

    async def main() -> None:
        await speak(log)
        all_ = events(log)
        for seq in range(all_[-1].seq + 1):
            for cursor in (seq, f"{log.epoch}.{seq}"):
                seen = Seen()
                task = asyncio.create_task(watch(log, seen, cursor))
                await until(lambda seen=seen: len(seen.drafts) == 3)  # type: ignore[misc]
                await stop(task)
                assert seen.events == all_[seq:]
                assert seen.drafts == drafts(log)
                assert [frame.offset for frame in seen.frames if isinstance(frame, Draft)] == [0, 0, 0]

    run(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_that_drops_and_comes_back(log: Log, seed: int) -> None:
    """C39, C40: a reader that drops at random instants, and goes on from its last event, misses and doubles nothing."""

    async def main() -> None:
        random = Random(seed)
        seen, whole = Seen(), Seen()
        steady = asyncio.create_task(watch(log, whole))
        writing = asyncio.create_task(write())
        while not writing.done():
            part = Seen()
            part.drafts = dict(seen.drafts)
            cursor = f"{log.epoch}.{seen.seqs[-1]}" if seen.events else 0
            task = asyncio.create_task(watch(log, part, cursor))
            await asyncio.sleep(random.uniform(0, 0.02))
            await stop(task)
            for frame in part.frames:
                seen.take(frame)
        await writing
        last = asyncio.create_task(watch(log, seen, seen.seqs[-1] if seen.events else 0))
        head = events(log)[-1].seq
        await until(lambda: seen.seqs[-1:] == whole.seqs[-1:] == [head])
        await stop(steady, last)
        assert seen.events == whole.events == events(log)
        assert seen.drafts == whole.drafts == {}

    async def write() -> None:
        for _ in range(2):
            async with log.turn("t", "question") as turn:
                for n in range(8):
                    await turn.draft(f"{n} ")
                    await asyncio.sleep(0)
                await turn.item(message("done"))

    run(main())


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ("0123456789abcdef.1", "epoch"),
        (99, "future"),
        (-1, "malformed"),
        ("EPOCH.99", "future"),
        ("EPOCH.", "malformed"),
        ("EPOCH.x", "malformed"),
        ("EPOCH.-1", "malformed"),
        ("EPOCH.١", "malformed"),
        ("1", "malformed"),
        ("", "malformed"),
    ],
)
def test_an_unprovable_cursor_is_refused(log: Log, cursor: int | str, reason: str) -> None:
    """C40: a cursor of another store, of the future, or of no shape raises at once, with the head to go on from."""
    log.append_message("t", {"a": 1}).result()
    given = cursor.replace("EPOCH", log.epoch) if isinstance(cursor, str) else cursor
    with pytest.raises(CursorUnprovable) as caught:
        log.follow("t", given)
    assert (caught.value.reason, caught.value.head, caught.value.thread) == (reason, f"{log.epoch}.2", "t")


def test_a_bad_thread_is_refused(log: Log) -> None:
    """Following a thread whose id is none raises from the call."""
    with pytest.raises(InvalidInput):
        log.follow("")


def test_a_cursor_survives_a_restart(store: Store, log: Log) -> None:
    """C40: cursors stay valid after the store was closed and opened, and mean the same."""
    log.append_message("t", {"a": 1}).result()
    cursor = f"{log.epoch}.1"
    store.kill(log)
    other = store.open()

    async def main() -> None:
        async with aclosing(other.follow("t", cursor)) as frames:
            (frame,) = await take(frames, lambda _: True)
            assert not isinstance(frame, Draft)
            assert (frame.seq, frame.kind) == (2, "thread_item")

    run(main())


def test_nothing_is_shown_before_it_is_durable(store: Store, log: Log) -> None:
    """P2: while a commit is held, no follower is given anything of it; afterwards all of it."""

    async def main() -> None:
        turn = await log.submit("t", "question")
        await turn.start()
        seen = Seen()
        task = asyncio.create_task(watch(log, seen))
        await until(lambda: len(seen.events) == 3)
        with store.faults(log).hold("commit.before") as hold:
            draft, item = turn.draft("Hel"), turn.item(call("c1"))
            await asyncio.to_thread(hold.wait_held)
            for _ in range(20):
                await asyncio.sleep(0)
            assert (len(seen.frames), draft.done(), item.done()) == (3, False, False)
            hold.release()
        await item
        await until(lambda: len(seen.events) == 5)
        await stop(task)
        assert seen.drafts == {"0/~0/text/0": "Hel"}

    run(main())


def test_a_chunk_is_given_once(log: Log) -> None:
    """C39: a follower that is up to date is given each new chunk alone, with its offset, and none a second time."""

    async def main() -> None:
        turn = await log.submit("t", "question")
        await turn.start()
        seen = Seen()
        task = asyncio.create_task(watch(log, seen))
        for text in ("a", "ab", "abc"):
            await turn.draft(text[-1])
            await until(lambda text=text: seen.drafts == {"0/~0/text/0": text})  # type: ignore[misc]
        await turn.item(call("c1"))
        await until(lambda: seen.events[-1].kind == "item")
        await stop(task)
        chunks = [(frame.offset, frame.text) for frame in seen.frames if isinstance(frame, Draft)]
        assert chunks == [(0, "a"), (1, "b"), (2, "c")]

    run(main())


def test_a_slow_follower_catches_up(log: Log) -> None:
    """C40, P11: a follower that read nothing while thousands of events were written gets them all, in order."""

    async def main() -> None:
        async with aclosing(log.follow("t")) as frames:
            log.append_message("t", {"n": 0})
            first = await take(frames, lambda _: True)
            count = 2 * READ_EVENTS_MAX + 7
            await asyncio.gather(*(_done(log, n) for n in range(1, count)))
            rest = await take(frames, lambda frame: not isinstance(frame, Draft) and frame.seq == count + 1)
            seqs = [frame.seq for frame in [*first, *rest] if not isinstance(frame, Draft)]
            assert seqs == list(range(1, count + 2))

    run(main())


async def _done(log: Log, n: int) -> None:
    await log.append_message("t", {"n": n})


def test_drafts_wait_for_the_events_before_them(log: Log) -> None:
    """P9: a reader far behind gets all pages of events first, and only then the drafts that belong to the head."""

    async def main() -> None:
        for n in range(READ_EVENTS_MAX + 10):
            log.append_message("t", {"n": n})
        turn = await log.submit("t", "question")
        await turn.start()
        await turn.draft("open")
        async with aclosing(log.follow("t")) as frames:
            taken = await take(frames, lambda frame: isinstance(frame, Draft))
        assert [isinstance(frame, Draft) for frame in taken] == [False] * (len(taken) - 1) + [True]
        assert len(taken) - 1 == events(log)[-1].seq

    run(main())


def test_many_followers_are_independent(log: Log) -> None:
    """C40: fifty followers of one thread, from different cursors, each get what comes after theirs."""

    async def main() -> None:
        for n in range(10):
            await log.append_message("t", {"n": n})
        readers = [(n % 11, Seen()) for n in range(50)]
        tasks = [asyncio.create_task(watch(log, seen, after)) for after, seen in readers]
        await asyncio.sleep(0)
        await speak(log)
        whole = drafts(log)
        await until(lambda: all(seen.drafts == whole for _, seen in readers))
        await stop(*tasks)
        for after, seen in readers:
            assert seen.events == events(log)[after:]

    run(main())


def test_a_thread_that_is_not_there_yet_is_waited_for(log: Log) -> None:
    """A follower of an unknown thread gets its events from the first one on, as soon as there are any."""

    async def main() -> None:
        seen = Seen()
        task = asyncio.create_task(watch(log, seen, thread="new"))
        await asyncio.sleep(0.01)
        await log.submit("other", "x")
        await log.submit("new", "x")
        await until(lambda: seen.seqs == [1, 2])
        await stop(task)

    run(main())


def test_a_follower_sees_what_another_process_writes(store: Store, log: Log) -> None:
    """P9: a follower in one process is given what another one writes, drafts too, without asking for it."""
    other = store.open()

    async def main() -> None:
        seen = Seen()
        task = asyncio.create_task(watch(log, seen))
        await asyncio.sleep(0)
        await speak(other)
        await until(lambda: seen.drafts == drafts(log))
        await stop(task)
        assert len(seen.drafts) == 3
        assert seen.events == events(log)

    run(main())


def test_a_follower_sees_a_recovery(store: Store, log: Log) -> None:
    """P8: a follower is shown that the turn it watches was settled because its writer died."""

    async def main() -> None:
        turn = await log.submit("t", "question")
        await turn.start()
        await turn.draft("Hel")
        other = store.open()
        seen = Seen()
        task = asyncio.create_task(watch(other, seen))
        await until(lambda: seen.drafts == {"0/~0/text/0": "Hel"})
        await asyncio.to_thread(store.kill, log)
        await asyncio.to_thread(other.recover)
        await until(lambda: bool(seen.events) and seen.events[-1].kind == "interrupted")
        await stop(task)
        assert seen.drafts == {}

    run(main())


def test_closing_the_log_ends_followers(log: Log) -> None:
    """Closing ends a follower that waits and one that is busy with its last frame, both with `StoreClosed`."""

    async def main() -> None:
        log.append_message("t", {"a": 1}).result()
        waiting, seen = log.follow("t"), Seen()
        task = asyncio.create_task(_until_closed(waiting, seen))
        await until(lambda: len(seen.events) == 2)
        busy = log.follow("t")
        await anext(busy)
        await asyncio.to_thread(log.close)
        with pytest.raises(StoreClosed):
            async for _ in busy:
                pass
        await task
        with pytest.raises(StoreClosed):
            log.follow("t")

    async def _until_closed(frames: object, seen: Seen) -> None:
        with pytest.raises(StoreClosed):
            async for frame in frames:  # type: ignore[attr-defined]
                seen.take(frame)

    run(main())


def test_a_bell_silenced_by_a_busy_reader_is_not_missed() -> None:
    """A reader that was told of the closing while it read does not wait for a second ring."""
    from turnlog.journal.follow import Hub

    async def main() -> None:
        hub = Hub()
        with hub.subscribe("t") as follower:
            for _, ring in hub.close():
                ring()
            follower.listen()
            with pytest.raises(StoreClosed):
                await follower.wait()

    run(main())


def test_a_follower_that_leaves_is_forgotten(log: Log) -> None:
    """P11: nothing is kept of a follower that was closed."""

    async def main() -> None:
        await log.append_message("t", {"a": 1})
        for _ in range(10):
            async with aclosing(log.follow("t")) as frames:
                await take(frames, lambda _: True)
        assert not log._hub.watched

    run(main())
