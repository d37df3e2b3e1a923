"""Queues and memory: bounded, refused by name, and nothing that was taken is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from tests.journal.stores import StillClock, Store, events, kinds, message, run, texts
from turnlog.errors import Overloaded, StoreClosed
from turnlog.journal import lanes
from turnlog.journal import writer as writer_module
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.limits import BATCH_JOBS_QUICK_MAX, BODY_BYTES_MAX, QUEUE_BYTES_MAX


def held(store: Store, log: Log) -> Any:
    """Hold the writer in a commit."""
    hold = store.faults(log).hold("commit.before")
    log.append_message("held", {})
    hold.wait_held()
    return hold


def test_too_many_writes_are_refused(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11, P4: beyond the limit of waiting writes a call raises and takes nothing; all taken is written in order."""
    monkeypatch.setattr(lanes, "QUEUE_JOBS_MAX", 100)
    with held(store, log):
        receipts = [log.append_message("t", {"n": n}) for n in range(100)]
        for call in (lambda: log.append_message("t", {}), lambda: log.submit("t", "x")):
            with pytest.raises(Overloaded) as caught:
                call()
            assert caught.value.limit == "QUEUE_JOBS_MAX"
    assert [receipt.result(60) for receipt in receipts] == list(range(2, 102))


def test_too_many_bytes_are_refused(store: Store, log: Log) -> None:
    """P11: waiting writes are bounded in bytes, items, steps and submissions alike."""
    turn = log.submit("turn", "x").result()
    turn.start().result()
    big = "x" * (BODY_BYTES_MAX - 1_000)
    for kind in ("item", "step", "message"):
        receipts: list[Receipt[Any]] = []
        with held(store, log), pytest.raises(Overloaded) as caught:
            for n in range(2 * QUEUE_BYTES_MAX // BODY_BYTES_MAX):
                if kind == "item":
                    receipts.append(turn.item({"x": big}))
                elif kind == "step":
                    receipts.append(turn.step("s", output=big))
                else:
                    receipts.append(log.append_message(f"t{n}", {"x": big}))
        assert caught.value.limit == "QUEUE_BYTES_MAX"
        assert len(receipts) >= QUEUE_BYTES_MAX // BODY_BYTES_MAX
        for receipt in receipts:
            receipt.result(120)


def test_an_end_is_taken_by_a_full_queue(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a write that ends a turn is taken even when the queue is full, so that an overloaded turn can end."""
    monkeypatch.setattr(lanes, "QUEUE_JOBS_MAX", 3)
    turn = log.submit("t", "x").result()
    turn.start().result()
    with held(store, log):
        taken = [turn.item(message(f"{n}")) for n in range(3)]
        with pytest.raises(Overloaded):
            turn.item(message("more"))
        end = turn.interrupt("failed", "overloaded")
    end.result(30)
    assert all(receipt.done() for receipt in taken)
    assert texts(log) == ["0", "1", "2"]


def test_one_commit_serves_all_who_wait(store: Store) -> None:
    """Group commit: what waits for different threads is written by one commit, up to its limit."""
    log = store.open(clock=StillClock())
    commits = store.faults(log).traps
    with held(store, log):
        before = commits.reached("commit.before")
        receipts = [log.submit(f"t{n}", "x") for n in range(BATCH_JOBS_QUICK_MAX + 1)]
    for receipt in receipts:
        receipt.result(30)
    assert commits.reached("commit.before") - before == 2


def test_states_of_threads_are_forgotten(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: the writer remembers a bounded number of threads, and always those with an own open turn."""
    monkeypatch.setattr(writer_module, "THREADS_CACHED_MAX", 10)
    open_ = log.submit("open", "x").result()
    open_.start().result()
    open_.draft("kept ").result()
    for n in range(50):
        log.append_message(f"t{n}", {"n": n}).result()
    states = log._writer._states
    assert len(states) <= 11
    assert "open" in states
    assert log.append_message("t0", {"n": "again"}).result() == 3
    turn = log.submit("t1", "x").result()
    assert [event.seq for event in events(log, "t1", turn.id)] == [3]
    open_.draft("whole").result()
    open_.complete().result()
    assert texts(log, "open") == ["kept whole"]


def test_a_settled_turn_leaves_nothing_behind(log: Log) -> None:
    """P11: the writer keeps nothing of turns that have ended: no drafts, no lanes, no open turns."""
    for n in range(20):
        with log.turn(f"t{n}", "x") as turn:
            turn.draft("text")
    writer = log._writer
    log.append_message("t0", {}).result()
    assert (writer._lanes.pending._waiting, writer._upkeep._mine, writer._lanes._bytes) == ({}, {}, 0)
    assert all(not state.open for state in writer._states.values())


def test_a_closed_log_refuses_everything(log: Log) -> None:
    """Every method of a closed log raises `StoreClosed`; receipts given before it have their outcome."""
    turn = log.submit("t", "x").result()
    waiting = log.append_message("u", {"n": 1})
    log.close()
    assert waiting.result(0) == 2
    for act in (
        lambda: log.submit("t", "x"),
        lambda: log.append_message("t", {}),
        lambda: log.request("t", turn.id),
        lambda: log.follow("t"),
        lambda: turn.item({}),
        lambda: turn.draft("x"),
        log.recover,
        log.threads,
        lambda: log.transcript("t"),
        lambda: log.history("t"),
    ):
        with pytest.raises(StoreClosed):
            act()


def test_closing_while_others_write(store: Store) -> None:
    """Closing under load answers every call: its receipt is durable, or it raised `StoreClosed`."""
    log = store.open()
    taken: list[Receipt[int]] = []

    async def write(n: int) -> None:
        try:
            while True:
                taken.append(log.append_message(f"t{n}", {"n": n}))
                await taken[-1]
        except StoreClosed:
            return

    async def main() -> None:
        writers = [asyncio.create_task(write(n)) for n in range(20)]
        while len(taken) < 100:
            await asyncio.sleep(0)
        await asyncio.to_thread(log.close)
        await asyncio.gather(*writers)

    run(main())
    other = store.open()
    stored = sum(kinds(other, f"t{n}").count("thread_item") for n in range(20))
    assert stored == sum(receipt.done() and receipt._error is None for receipt in taken)
    assert all(receipt.done() for receipt in taken)


def test_logs_can_be_collected(store: Store) -> None:
    """P11: a closed log leaves no thread and can be collected."""
    before = threading.active_count()
    log = store.open()
    log.append_message("t", {}).result()
    log.close()
    assert threading.active_count() == before
    store._faults.clear()
    gone = weakref.ref(log)
    del log
    gc.collect()
    assert gone() is None
