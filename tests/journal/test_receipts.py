"""Receipts: one kind for threads and for asyncio, known when the write is durable or refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.journal.stores import Store, eventually, kinds, run, together, until
from turnlog.errors import Busy
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt, settle
from turnlog.limits import BATCH_JOBS_QUICK_MAX


def test_a_receipt_is_known_only_when_durable(store: Store, log: Log) -> None:
    """P1: while the commit is under way no receipt is done, and afterwards it gives its value again and again."""
    with store.faults(log).hold("commit.before") as hold:
        receipt = log.append_message("t", {"a": 1})
        hold.wait_held()
        assert not receipt.done()
        with pytest.raises(TimeoutError):
            receipt.result(0.01)
        hold.release()
    assert [receipt.result(), receipt.result()] == [2, 2]
    assert receipt.done()


def test_a_refused_receipt_raises_each_time(log: Log) -> None:
    """A refusal is raised to everybody who asks, in threads and in loops."""
    log.submit("t", "one").result()
    receipt = log.submit("t", "two")
    for _ in range(2):
        with pytest.raises(Busy):
            receipt.result()

    async def ask() -> None:
        with pytest.raises(Busy):
            await receipt

    run(ask())
    assert repr(receipt) == "<Receipt refused>"


def test_many_wait_for_one_receipt(store: Store, log: Log) -> None:
    """Twenty threads and twenty tasks of two loops that wait for one receipt all get its value."""
    faults = store.faults(log)
    with faults.hold("commit.before") as hold:
        receipt = log.append_message("t", {"a": 1})
        hold.wait_held()

        async def many() -> list[int]:
            async def one() -> int:
                return await receipt

            return list(await asyncio.gather(*(one() for _ in range(20))))

        got: list[Any] = []
        loops = [threading.Thread(target=lambda: got.extend(run(many()))) for _ in range(2)]
        waiters = [threading.Thread(target=lambda: got.append(receipt.result(30))) for _ in range(20)]
        for thread in (*loops, *waiters):
            thread.start()
        eventually(lambda: len(receipt._gates or ()) == 20 and len(receipt._futures or ()) == 40)
        hold.release()
        for thread in (*loops, *waiters):
            thread.join(30)
    assert got == [2] * 60


def test_a_cancelled_waiter_does_not_cancel_the_write(store: Store, log: Log) -> None:
    """Cancelling a task that awaits a receipt leaves the write alone, and the receipt to others."""

    async def main() -> None:
        with store.faults(log).hold("commit.before") as hold:
            receipt = log.append_message("t", {"a": 1})

            async def wait() -> int:
                return await receipt

            gone, stays = asyncio.create_task(wait()), asyncio.create_task(wait())
            await asyncio.to_thread(hold.wait_held)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wait(), 0.01)
            hold.release()
            assert await stays == 2
        assert kinds(log) == ["thread_created", "thread_item"]

    run(main())


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often other threads wake it."""

    woken = 0

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **more)


def test_a_batch_wakes_a_loop_once(store: Store, log: Log) -> None:
    """However many receipts one commit settles, the loop that awaits them is woken once."""
    loop = CountingLoop()

    async def main() -> None:
        hold = store.faults(log).hold("commit.before")
        first = log.append_message("first", {"a": 1})
        while not hold._held.is_set():
            await asyncio.sleep(0.002)
        receipts = [log.append_message(f"t{n}", {"a": n}) for n in range(BATCH_JOBS_QUICK_MAX)]
        waiting = [asyncio.ensure_future(_value(receipt)) for receipt in receipts]
        await asyncio.sleep(0)
        before = loop.woken
        hold.release()
        assert await asyncio.gather(*waiting) == [2] * BATCH_JOBS_QUICK_MAX
        assert first.done()
        assert loop.woken - before == 1

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


async def _value(receipt: Receipt[int]) -> int:
    return await receipt


def test_a_closed_loop_harms_nobody(store: Store, log: Log) -> None:
    """Who waited in a loop that is closed now is forgotten; others in the same commit get their answer."""
    with store.faults(log).hold("commit.before") as hold:
        receipt, other = log.append_message("t", {"a": 1}), log.append_message("u", {"a": 1})
        loop = asyncio.new_event_loop()
        task = loop.create_task(_value(receipt))
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
        hold.release()
    assert (receipt.result(30), other.result(30)) == (2, 2)


def test_a_loop_that_closes_at_the_last_moment_harms_nobody() -> None:
    """A loop that closes between the look at it and the call leaves the settling thread unharmed."""

    class Closing(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *args: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
            self.close()
            return super().call_soon_threadsafe(*args, **more)

    receipt: Receipt[int] = Receipt()
    settle([(receipt, 7, None)], wake=[(Closing(), lambda: None)])
    assert receipt.result() == 7


def test_receipts_settle_across_threads_and_loops(log: Log) -> None:
    """Submissions from many threads and from a loop at once are all accepted, each with its own turn."""

    async def main() -> list[str]:
        turns = await asyncio.gather(*(_turn_id(log, f"loop{n}") for n in range(50)))
        return list(turns)

    results = together(
        9, lambda n: run(main()) if n == 0 else [log.submit(f"thread{n}-{i}", "x").result().id for i in range(10)]
    )
    ids = [id_ for ids in results if isinstance(ids, list) for id_ in ids]
    assert len(set(ids)) == 50 + 80


async def _turn_id(log: Log, thread: str) -> str:
    return (await log.submit(thread, "x")).id


def test_done_is_told_without_waiting(log: Log) -> None:
    """`done` turns true by itself once the write is durable, with nobody waiting for it."""

    async def main() -> None:
        receipt = log.append_message("t", {"a": 1})
        await until(receipt.done)
        assert repr(receipt) == "<Receipt durable>"

    run(main())
