"""`with log.turn(...)` and `async with log.turn(...)`: however the block is left, the turn has an honest end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.journal.stores import Store, events, kinds, message, run, texts, unavailable, until
from turnlog.errors import AgentFailed, DuplicateTurn, Fenced, InvalidInput, StoreUnavailable
from turnlog.events.kinds import Interrupted
from turnlog.journal.log import Log
from turnlog.limits import DETAIL_BYTES_MAX


def end_of(log: Log, thread: str = "t") -> tuple[str, str | None]:
    """The reason and detail of the interrupted turn of a thread."""
    (end,) = [event.body for event in events(log, thread) if isinstance(event.body, Interrupted)]
    return end.reason, end.detail


def test_left_normally_it_completes(log: Log) -> None:
    """Entered, the turn is started; left normally, it is completed, with its drafts in the log."""
    with log.turn("t", "question", agent="me", agent_version="2", key="k") as turn:
        assert turn.state == "worker_started"
        turn.draft("Hel")
        turn.draft("lo")
    assert (turn.state, texts(log)) == ("completed", ["Hello"])
    assert log.turn_view("t", turn.id).agent_version == "2"


def test_left_normally_it_completes_in_a_loop(log: Log) -> None:
    """The same for `async with`."""

    async def main() -> None:
        async with log.turn("t", "question") as turn:
            await turn.draft("Hello")
        assert turn.state == "completed"

    run(main())
    assert texts(log) == ["Hello"]


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (ValueError("no such file"), "failed", "ValueError: no such file"),
        (RuntimeError(), "failed", "RuntimeError"),
        (TimeoutError("30 s"), "timed_out", "TimeoutError: 30 s"),
        (AgentFailed(reason="transport_closed"), "transport_closed", None),
        (AgentFailed(reason="no reason we know"), "failed", "no reason we know"),
        (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
        (SystemExit(1), "cancelled", "SystemExit: 1"),
        (asyncio.CancelledError(), "cancelled", None),
    ],
)
@pytest.mark.parametrize("colour", ["thread", "loop"])
def test_left_by_an_exception_it_is_interrupted(
    log: Log, colour: str, error: BaseException, reason: str, detail: str | None
) -> None:
    """The exception goes on unchanged, after the turn was ended with its reason and the text shown so far."""
    if colour == "thread":
        with pytest.raises(type(error)) as caught, log.turn("t", "question") as turn:
            turn.draft("Hel")
            raise error
    else:

        async def main() -> None:
            async with log.turn("t", "question") as turn:
                turn.draft("Hel")
                raise error

        loop = asyncio.new_event_loop()
        with pytest.raises(type(error)) as caught:
            loop.run_until_complete(main())
        loop.close()
    assert caught.value is error or isinstance(error, asyncio.CancelledError)
    assert end_of(log)[0] == reason
    assert (end_of(log)[1] or "").startswith(detail or "")
    assert texts(log) == ["Hel"]


def test_a_long_exception_fits(log: Log) -> None:
    """P4: an exception of any length ends the turn, its beginning being told."""
    with pytest.raises(ValueError, match="x"), log.turn("t", "question"):
        raise ValueError("x\x00" * DETAIL_BYTES_MAX)
    assert end_of(log)[0] == "failed"


def test_a_cancelled_task_settles_its_turn_first(log: Log) -> None:
    """P5: a cancelled task ends only after its turn is durable as cancelled, with what it had shown."""

    async def main() -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with log.turn("t", "question") as turn:
                turn.draft("Hel")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert end_of(log) == ("cancelled", None)
        assert texts(log) == ["Hel"]

    run(main())


def test_a_task_cancelled_again_while_it_settles(store: Store, log: Log) -> None:
    """P5: cancelling again while the end is being written neither loses the end nor lets the task go before it."""

    async def main() -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with log.turn("t", "question"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        with store.faults(log).hold("commit.before") as hold:
            task.cancel()
            await asyncio.to_thread(hold.wait_held)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            assert not task.done()
            hold.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert end_of(log) == ("cancelled", None)

    run(main())


@pytest.mark.parametrize("k", [1, 2])
def test_cancelled_while_entering(store: Store, log: Log, k: int) -> None:
    """P8: a task cancelled while its submission or its start is being written leaves no turn that waits for ever."""

    async def main() -> None:
        async def work() -> None:
            async with log.turn("t", "question"):
                raise AssertionError("the block must not run")

        with store.faults(log).hold("commit.before", k=k) as hold:
            task = asyncio.create_task(work())
            await asyncio.to_thread(hold.wait_held)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            hold.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert end_of(log) == ("cancelled", None)
        assert not (await log.submit("t", "next")).duplicate

    run(main())


def test_a_timeout_around_the_block(log: Log) -> None:
    """A timeout around the block cancels it; one inside it is told as such; both go on as `TimeoutError`."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), log.turn("around", "question"):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            async with log.turn("inside", "question"), asyncio.timeout(0.05):
                await asyncio.Event().wait()

    run(main())
    assert end_of(log, "around") == ("cancelled", None)
    assert end_of(log, "inside")[0] == "timed_out"


@pytest.mark.parametrize("k", [1, 2])
def test_interrupted_by_the_keyboard_while_entering(store: Store, log: Log, k: int) -> None:
    """P8: Ctrl-C while a `with` is being entered leaves no turn that waits for ever."""
    import _thread

    faults = store.faults(log)
    faults.traps.set("commit.before", lambda _: _thread.interrupt_main(), k=k)
    with pytest.raises(KeyboardInterrupt), log.turn("t", "question"):
        for _ in range(1_000_000):  # until the signal is noticed, should the block be entered before
            pass
    assert end_of(log)[0] == "cancelled"


@pytest.mark.parametrize("waited", [True, False])
@pytest.mark.parametrize("end", ["complete", "interrupt"])
def test_a_body_may_settle_itself(log: Log, end: str, waited: bool) -> None:
    """A body that has ended its turn, whether it waited for that or not, is left alone, also by an exception."""

    def settle(turn: Any) -> None:
        receipt = turn.complete() if end == "complete" else turn.interrupt("failed")
        if waited:
            receipt.result()

    with log.turn("t", "question") as turn:
        settle(turn)
    with pytest.raises(ValueError, match="x"), log.turn("u", "question") as turn:
        settle(turn)
        raise ValueError("x")
    state = "completed" if end == "complete" else "interrupted"
    assert kinds(log)[-1] == kinds(log, "u")[-1] == state
    assert len(kinds(log)) == len(kinds(log, "u")) == 4


def test_a_known_submission_is_not_worked_on_again(log: Log) -> None:
    """C03, P6: entering with a known key raises `DuplicateTurn` with the turn's state, and starts nothing."""
    with log.turn("t", "question", key="k") as turn:
        with pytest.raises(DuplicateTurn) as caught, log.turn("t", "question", key="k"):
            raise AssertionError("the block must not run")
        assert (caught.value.turn, caught.value.state) == (turn.id, "worker_started")
    with pytest.raises(DuplicateTurn) as caught, log.turn("t", "question", key="k"):
        raise AssertionError("the block must not run")
    assert caught.value.state == "completed"
    assert kinds(log).count("worker_started") == 1


def test_bad_input_enters_nothing(log: Log) -> None:
    """Invalid input raises on entering; an agent's name that is too long ends the accepted turn as `start_failed`."""
    with pytest.raises(InvalidInput), log.turn("", "question"):
        raise AssertionError("the block must not run")
    with pytest.raises(InvalidInput), log.turn("t", "question", agent="x" * 5_000):
        raise AssertionError("the block must not run")
    assert end_of(log)[0] == "start_failed"


def test_a_start_that_fails_runs_nothing(store: Store, log: Log) -> None:
    """P1: when the start is not durable the block does not run, and the turn ends by itself once the store works."""
    store.faults(log).fail("commit.before", unavailable, k=2, forever=True)
    with pytest.raises(StoreUnavailable) as caught, log.turn("t", "question"):
        raise AssertionError("the block must not run")
    assert "could not be settled now" in caught.value.__notes__[0]
    store.faults(log).heal()
    store.clock.advance(2)

    async def ended() -> None:
        await until(lambda: kinds(log)[-1] == "interrupted")

    run(ended())
    assert end_of(log)[0] == "start_failed"


def test_the_store_fails_while_leaving(store: Store, log: Log) -> None:
    """P1: the error of a store that fails while the block is left is raised, and the end is written when it can be."""
    with pytest.raises(StoreUnavailable), log.turn("t", "question") as turn:
        turn.item(message("answer")).result()
        store.faults(log).fail("commit.before", unavailable, forever=True)
    assert turn.state == "assistant_started"
    store.faults(log).heal()
    store.clock.advance(2)

    async def ended() -> None:
        await until(lambda: turn.state == "completed")

    run(ended())
    assert kinds(log)[-1] == "completed"


def test_the_store_fails_while_leaving_by_an_exception(store: Store, log: Log) -> None:
    """The body's own exception goes on, with a note that the end could not be written; it is written later."""
    with pytest.raises(ValueError, match="mine") as caught, log.turn("t", "question") as turn:
        store.faults(log).fail("commit.before", unavailable, forever=True)
        raise ValueError("mine")
    assert "could not be settled now" in caught.value.__notes__[0]
    store.faults(log).heal()
    store.clock.advance(2)

    async def ended() -> None:
        await until(lambda: turn.state == "interrupted")

    run(ended())
    assert end_of(log) == ("failed", "ValueError: mine")


def test_a_block_whose_turn_was_taken_over_is_told(store: Store, log: Log) -> None:
    """P7: a block that ends well after its turn was taken over raises `Fenced`: its end is not in the log."""
    with pytest.raises(Fenced), log.turn("t", "question"), store.paused(log):
        store.clock.advance(31)
        store.open()
    assert end_of(log)[0] == "process_died"


def test_closing_the_log_inside_a_block(log: Log, store: Store) -> None:
    """Closing the log ends the running turn as cancelled, once, and the block is left in peace."""
    with log.turn("t", "question") as turn:
        turn.draft("Hel")
        log.close()
    other = store.open()
    assert end_of(other) == ("cancelled", "the log was closed")
    assert texts(other) == ["Hel"]
