"""Retrying an interrupted turn, and asking the owner of a turn for something."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.journal.stores import Store, call, drafts, events, eventually, kinds, message, run, together
from turnlog.errors import (
    AlreadyDecided,
    AlreadySettled,
    Busy,
    NotRetryable,
    TurnlogError,
    UnknownTurn,
)
from turnlog.events.kinds import Requested, Submitted
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import NAME_BYTES_MAX, SUBMISSION_BYTES_MAX, TURN_ID_BYTES_MAX


def interrupted(log: Log, thread: str = "t", **given: Any) -> Turn:
    turn = log.submit(thread, "question", **given).result()
    turn.start().result()
    turn.interrupt("failed").result()
    return turn


def test_a_retry_is_a_child_with_the_same_words(log: Log) -> None:
    """A retried turn has one child that says the same, names its parent and has no key of its own."""
    parent = interrupted(log, key="k", model="m")
    child = log.retry("t", parent.id).result()
    (body,) = [event.body for event in events(log, turn=child.id) if isinstance(event.body, Submitted)]
    assert (body.content, body.model, body.key, body.retry_of) == ("question", "m", None, parent.id)
    assert not child.duplicate
    assert log.turn_view("t", child.id).retry_of == parent.id
    assert log.submit("t", "question", key="k").result().id == parent.id


def test_a_turn_names_who_was_asked_until_somebody_answers(log: Log) -> None:
    """A turn's row names the agent it was submitted for, then the one that began; a retry is for the same or another,
    and fits beside the longest message."""
    parent = log.submit(
        "t", "x" * (SUBMISSION_BYTES_MAX - 200), agent="asked", turn="\x01" * TURN_ID_BYTES_MAX
    ).result()
    assert log.turn_view("t", parent.id).agent == "asked"
    parent.start(agent="answering").result()
    assert log.turn_view("t", parent.id).agent == "answering"
    parent.interrupt("failed").result()
    child = log.retry("t", parent.id).result()
    assert log.turn_view("t", child.id).agent == "asked"
    child.interrupt("cancelled").result()
    other = log.retry("t", child.id, agent="o" * (NAME_BYTES_MAX - 2)).result()
    assert log.turn_view("t", other.id).agent == "o" * (NAME_BYTES_MAX - 2)


def test_retrying_again_gives_the_same_child(store: Store, log: Log) -> None:
    """A turn is retried once: again, while the child waits, runs, or has ended, from any process, gives that child."""
    parent = interrupted(log)
    child = log.retry("t", parent.id).result()
    other = store.open()

    def again() -> None:
        for place in (log, other):
            same = place.retry("t", parent.id).result()
            assert (same.id, same.duplicate) == (child.id, True)

    again()
    child.start().result()
    again()
    child.interrupt("failed").result()
    again()
    assert log.retry("t", child.id).result().id not in (parent.id, child.id)


def test_a_retry_from_many_threads_and_processes(store: Store) -> None:
    """C03: one retry asked for by twelve threads over three processes at one instant is one child."""
    logs = [store.open() for _ in range(3)]
    parent = interrupted(logs[0])
    results = together(12, lambda n: logs[n % 3].retry("t", parent.id).result())
    children = [turn for turn in results if isinstance(turn, Turn)]
    assert len(children) == 12, results
    assert len({child.id for child in children}) == 1
    assert [child.duplicate for child in children].count(False) == 1


def test_only_an_interrupted_turn_is_retried(log: Log) -> None:
    """Retrying a waiting, running or completed turn is refused with its state, and a busy thread with `Busy`."""
    turn = log.submit("t", "question").result()
    for step, state in (
        (turn.start, "submitted"),
        (turn.complete, "worker_started"),
        (lambda: None, "completed"),
    ):
        with pytest.raises(NotRetryable) as caught:
            log.retry("t", turn.id)
        assert caught.value.state == state
        receipt = step()
        if receipt is not None:
            receipt.result()
    with pytest.raises(UnknownTurn):
        log.retry("t", "nowhere")
    failed = interrupted(log)
    log.submit("t", "next").result()
    with pytest.raises(Busy):
        log.retry("t", failed.id).result()


# --- requests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_another", [False, True])
def test_an_interrupt_reaches_the_owner(store: Store, log: Log, from_another: bool) -> None:
    """A request written by any process reaches the owner of the turn while it runs, and is in the turn's row."""
    other = store.open() if from_another else log

    async def main() -> None:
        async with log.turn("t", "question") as turn:
            asking = asyncio.create_task(first_request(turn))
            await asyncio.sleep(0)
            await other.request("t", turn.id, by="me")
            request = await asking
            assert (request.what, request.by) == ("interrupt", "me")
            assert log.turn_view("t", turn.id).interrupt_requested

    run(main())


async def first_request(turn: Turn) -> Requested:
    async with aclosing(turn.requests()) as requests:
        async for request in requests:
            return request
    raise AssertionError("no request came")


def test_a_request_is_not_lost_among_drafts(store: Store, log: Log) -> None:
    """A request of another process reaches the owner also when its next write is a draft, which has no base."""
    other = store.open()
    turn = log.submit("t", "question").result()
    turn.start().result()
    turn.draft("a").result()
    with store.paused(log):
        other.request("t", turn.id).result()
        waiting = turn.draft("b")
    waiting.result()

    async def main() -> None:
        async for request in turn.requests():
            assert request.what == "interrupt"
            await turn.interrupt("cancelled")

    run(main())
    assert kinds(log).count("requested") == 1
    assert log.turn_view("t", turn.id).events == len(events(log, turn=turn.id))


def test_a_request_in_the_way_of_the_answers_beginning(store: Store, log: Log) -> None:
    """A request that comes just before text and an item of a turn leaves each of them once, in order, behind it."""
    other = store.open()
    turn = log.submit("t", "question").result()
    turn.start().result()
    with store.paused(log):
        other.request("t", turn.id).result()
        waiting = turn.draft("think", kind="reasoning"), turn.draft("text"), turn.item(call("c1"))
    for receipt in waiting:
        receipt.result(30)
    assert kinds(log)[2:] == ["worker_started", "requested", "assistant_started", "item"]
    assert list(drafts(log)) == ["0/~0/reasoning/0", "0/~1/text/0"]
    assert log.turn_view("t", turn.id).events == len(events(log, turn=turn.id))


def test_requests_end_with_the_turn(store: Store, log: Log) -> None:
    """Requests come, then their stream ends: when the turn settles, is taken over, or the log is closed."""

    async def main() -> None:
        for end in ("complete", "taken over", "close"):
            turn = await log.submit(end, "question")
            await turn.start()
            await log.request(end, turn.id)

            async def collect(turn: Turn = turn) -> list[Requested]:
                return [request async for request in turn.requests()]

            task = asyncio.create_task(collect())
            await asyncio.sleep(0)
            if end == "complete":
                await turn.complete()
            elif end == "taken over":
                await asyncio.to_thread(take_over, store, log)
            else:
                await asyncio.to_thread(log.close)
            assert [request.what for request in await task] == ["interrupt"]

    run(main())


def take_over(store: Store, log: Log) -> None:
    with store.paused(log):
        store.clock.advance(31)
        store.open()


def test_an_interrupt_asked_for_twice_is_one(log: Log) -> None:
    """A second interrupt of a turn changes nothing."""
    turn = log.submit("t", "question").result()
    first = log.request("t", turn.id).result()
    log.append_message("t", {"role": "user", "content": "in between"}).result()
    assert log.request("t", turn.id, by="another").result() == first
    assert kinds(log) == ["thread_created", "submitted", "requested", "thread_item"]


def test_the_first_decision_wins(store: Store, log: Log) -> None:
    """Of decisions about one approval, from many processes at once, one is stored and the others told where it is."""
    others = [store.open() for _ in range(2)]
    turn = log.submit("t", "question").result()
    turn.start().result()
    results = together(
        9, lambda n: [log, *others][n % 3].request("t", turn.id, "decide", approval="a", value=n).result()
    )
    won = [n for n, result in enumerate(results) if isinstance(result, int)]
    assert len(won) == 1
    stored = [event for event in events(log) if isinstance(event.body, Requested)]
    assert [event.body.value for event in stored if isinstance(event.body, Requested)] == won
    for refused in results:
        if not isinstance(refused, int):
            assert isinstance(refused, AlreadyDecided)
            assert (refused.approval, refused.seq) == ("a", stored[0].seq)
    assert log.request("t", turn.id, "decide", approval="b", value=None).result()


def test_a_settled_turn_takes_no_request(store: Store, log: Log) -> None:
    """A request to a turn that has ended is refused with its state, one to no turn as unknown, from any process."""
    turn = interrupted(log)
    for place in (log, store.open()):
        with pytest.raises(AlreadySettled) as caught:
            place.request("t", turn.id).result()
        assert caught.value.state == "interrupted"
        with pytest.raises(UnknownTurn):
            place.request("t", "nowhere").result()
        with pytest.raises(UnknownTurn):
            place.request("nowhere", "nowhere").result()


def test_a_request_to_a_turn_this_process_never_saw(store: Store, log: Log) -> None:
    """A process that knows the thread from before may ask for a turn that another one submitted meanwhile."""
    interrupted(log)
    other = store.open()
    turn = other.submit("t", "another").result()
    turn.start().result()
    assert log.request("t", turn.id).result() == events(log)[-1].seq
    eventually(lambda: turn._open is not None and len(turn._open.requested) == 1)


def test_a_request_races_with_the_end(store: Store) -> None:
    """P5: requests from another process raced with the end of the turn are stored before it or refused."""
    log, other = store.open(), store.open()
    for n in range(30):
        turn = log.submit(f"t{n}", "x").result()
        turn.start().result()
        results = together(2, lambda side, turn=turn: _ask_or_end(other, turn, side))  # type: ignore[misc]
        assert all(isinstance(result, int | AlreadySettled) for result in results), results
        stored = kinds(log, f"t{n}")
        assert stored[-1] == "completed"
        assert ("requested" in stored) == isinstance(results[0], int)


def _ask_or_end(other: Log, turn: Turn, side: int) -> int | TurnlogError:
    if side:
        turn.item(message("x"))
        return turn.complete().result(30)
    return other.request(turn.thread, turn.id).result(30)
