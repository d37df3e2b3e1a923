"""Which threads changed: told after the commit, coalesced, from any process, never unsaid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from tests.journal.stores import Store, run, until
from turnlog.errors import StoreClosed
from turnlog.journal.log import Log


async def told(changes: AsyncGenerator[frozenset[str] | None, None], *threads: str) -> set[str]:
    """What is told until all of `threads` were; that everything may have changed tells of all of them."""
    found = set[str]()
    async for changed in changes:
        found |= set(threads) if changed is None else changed
        if found >= set(threads):
            return found
    raise AssertionError("it ended")


async def begun(log: Log) -> AsyncGenerator[frozenset[str] | None, None]:
    """Changes, from now on."""
    changes = log.changes()
    assert await anext(changes) is None
    return changes


@asynccontextmanager
async def named(log: Log) -> AsyncIterator[AsyncGenerator[frozenset[str] | None, None]]:
    """Changes, from a time on at which the log knows how far it has looked at other processes: each is named."""
    async with aclosing(await begun(log)):
        await until(lambda: log._writer._upkeep._position != b"")
        async with aclosing(await begun(log)) as changes:
            yield changes


def test_changes_are_told_once_they_are_durable(log: Log) -> None:
    """P2: a thread is told when it was written to, and what is read then has the change in it."""

    async def main() -> None:
        async with aclosing(await begun(log)) as changes:
            for number in range(3):
                seq = await log.append_message("t", {"n": number})
                assert await told(changes, "t") == {"t"}
                assert log.thread("t").head >= seq

    run(main())


def test_changes_of_other_processes_are_told(store: Store, log: Log) -> None:
    """P8: what another process writes is told too, also to who has just begun to listen, and drafts as well."""

    async def main() -> None:
        other = store.open()
        async with aclosing(await begun(log)) as changes:
            turn = await other.submit("t", "x")
            assert "t" in await told(changes, "t")
            await turn.start()
            await told(changes, "t")
            await turn.draft("text")
            assert await told(changes, "t") == {"t"}

    run(main())


def test_what_came_while_nobody_asked_is_told_together(log: Log) -> None:
    """P11: who is slow is told once of all that changed meanwhile, however often it did."""

    async def main() -> None:
        async with named(log) as changes:
            for number in range(20):
                await log.append_message(f"t{number % 3}", {})
            assert await anext(changes) == frozenset({"t0", "t1", "t2"})

    run(main())


def test_an_own_change_is_told_once(log: Log) -> None:
    """P11: what this log wrote is not told again when it looks at what other processes wrote."""

    async def main() -> None:
        async with named(log) as changes:
            await log.append_message("t", {})
            assert await anext(changes) == frozenset({"t"})
            before = log._writer._upkeep._position
            await until(lambda: log._writer._upkeep._position != before)
            await log.append_message("u", {})
            assert await anext(changes) == frozenset({"u"})

    run(main())


def test_changes_by_several_processes_are_all_told(store: Store, log: Log) -> None:
    """P4: what another process writes to a thread just after this one did is told, and not taken for the own write."""

    async def main() -> None:
        other = store.open()
        async with named(log) as changes:
            for number in range(5):
                await log.append_message("t", {"n": number})
                assert await anext(changes) == frozenset({"t"})
                last = await other.append_message("t", {"n": number})
                assert await anext(changes) == frozenset({"t"})
                assert log.thread("t").head == last

    run(main())


def test_more_changes_than_a_limit_are_told_as_everything(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11, P4: beyond the limit no thread is forgotten: everything may have changed, and later ones are named again."""
    monkeypatch.setattr("turnlog.journal.follow.CHANGES_PENDING_MAX", 3)

    async def main() -> None:
        async with named(log) as changes:
            for number in range(5):
                await log.append_message(f"t{number}", {})
            assert await anext(changes) is None
            await log.append_message("t9", {})
            assert (changed := await anext(changes)) is not None
            assert "t9" in changed

    run(main())


def test_every_listener_is_told(log: Log) -> None:
    """Two listeners are each told of every change, and one that has gone leaves the other alone."""

    async def main() -> None:
        first, second = await begun(log), await begun(log)
        await log.append_message("a", {})
        assert await told(first, "a")
        assert await told(second, "a")
        await first.aclose()
        await log.append_message("b", {})
        assert await told(second, "b")
        await second.aclose()
        assert not log._hub.watched

    run(main())


def test_closing_the_log_ends_listening(log: Log) -> None:
    """P8: who waits for a change when the log is closed is told so, and so is who comes later."""

    async def main() -> None:
        changes = await begun(log)

        async def listen() -> None:
            async for _ in changes:
                pass

        waiting = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await asyncio.to_thread(log.close)
        with pytest.raises(StoreClosed):
            await waiting
        with pytest.raises(StoreClosed):
            log.changes()

    run(main())
