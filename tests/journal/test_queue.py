"""Several open turns of one thread: they wait in the order of their submissions, or are asked to make room."""

from __future__ import annotations

import asyncio

import pytest

from tests.journal.stores import Store, events, eventually, kinds, run, unavailable
from turnlog.errors import (
    AlreadySettled,
    Busy,
    Fenced,
    InvalidInput,
    Overloaded,
    StoreError,
    StoreUnavailable,
)
from turnlog.events.kinds import Interrupted, Requested
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import LEASE_S, QUEUE_TURNS_MAX


def begun(log: Log, content: str = "first") -> Turn:
    turn = log.submit("t", content).result()
    turn.start().result()
    return turn


def queued(log: Log, content: str = "next") -> Turn:
    return log.submit("t", content, when_busy="queue").result()


def places(log: Log) -> list[int | None]:
    """The places of a thread's turns, in the order of their submissions."""
    return [row.queue_place for row in reversed(log.turns("t").rows)]


def ends(log: Log) -> list[tuple[str | None, str]]:
    """(turn, reason) of each interrupted turn, in the order in which they ended."""
    return [(event.turn, event.body.reason) for event in events(log) if isinstance(event.body, Interrupted)]


def asked(log: Log) -> list[tuple[str | None, str | None]]:
    """(turn, by whom) of each request to end."""
    return [(event.turn, event.body.by) for event in events(log) if isinstance(event.body, Requested)]


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_turns_start_in_the_order_of_their_submissions(log: Log) -> None:
    """C02: queued turns are durable at once; each is ready when the one before it has settled, and not before."""
    one, two, three = begun(log), queued(log, "two"), queued(log, "three")
    assert (two.state, three.state, places(log)) == ("submitted", "submitted", [None, 1, 2])
    ready_two, ready_three = two.ready(), three.ready()
    one.complete().result()
    ready_two.result(30)
    assert places(log) == [None, 0, 1]
    two.start().result()
    assert (ready_three.done(), places(log)) == (False, [None, None, 1])
    two.interrupt("failed").result()
    ready_three.result(30)
    three.start().result()
    assert kinds(log, turn=three.id) == ["submitted", "worker_started"]


def test_a_turn_that_waits_cannot_be_started(store: Store, log: Log) -> None:
    """P5: starting a turn before its time raises `Busy` with the first turn of the queue, whosever that is."""
    one, two = begun(log), queued(log)
    other = store.open()
    three = queued(other)
    for waiting in (two, three):
        with pytest.raises(Busy) as caught:
            waiting.start().result()
        assert caught.value.running == one.id
    one.complete().result()
    with pytest.raises(Busy) as caught:
        three.start().result()
    assert caught.value.running == two.id
    two.start().result()


def test_a_turn_waits_for_another_process(store: Store, log: Log) -> None:
    """C02: the queue is one for all processes: a turn is ready when another process has settled the one before it."""
    one = begun(log)
    other = store.open()
    two = queued(other)
    ready = two.ready()
    three = queued(log)
    assert places(other) == [None, 1, 2]
    one.complete().result()
    ready.result(30)
    two.start().result()
    ready = three.ready()
    two.complete().result()
    ready.result(30)


def test_a_turn_behind_a_dead_writers_is_ready_at_once(store: Store, log: Log) -> None:
    """P8: who begins to wait behind the turn of a writer that has died settles that turn, and goes on."""
    one = begun(log)
    other = store.open()
    two = queued(other)
    store.kill(log)
    two.ready().result(10)
    assert ends(other) == [(one.id, "process_died")]
    two.start().result()


def test_a_turn_behind_one_whose_writer_dies_is_ready_in_the_end(store: Store, log: Log) -> None:
    """P8: when a third process settles a turn whose writer died, those that wait behind it go on."""
    one = begun(log)
    other, third = store.open(), store.open()
    two = queued(other)
    ready = two.ready()
    other.append_message("t", {}).result()  # and it waits by now
    store.kill(log)
    third.recover()
    ready.result(30)
    assert ends(other) == [(one.id, "process_died")]


def test_a_turn_that_ends_while_it_waits_is_told(log: Log) -> None:
    """P5: waiting for the time of a turn that has settled raises `AlreadySettled`, also when it settles meanwhile."""
    begun(log)
    two = queued(log)
    ready = two.ready()
    two.interrupt("cancelled").result()
    for waiting in (ready, two.ready()):
        with pytest.raises(AlreadySettled):
            waiting.result(30)


def test_a_turn_taken_over_while_it_waits_is_fenced(store: Store, log: Log) -> None:
    """P7: a process that stood still for longer than its lease is told that its waiting turn is not its own."""
    begun(log)
    two = queued(log)
    ready = two.ready()
    other = store.open()
    with store.paused(log):
        store.clock.advance(LEASE_S + 1)
        other.recover()  # if it has not done so by itself
        assert [reason for _, reason in ends(other)] == ["process_died", "not_started"]
    with pytest.raises(Fenced):
        ready.result(30)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_waiting_turn_that_is_asked_to_end_ends(store: Store, log: Log, elsewhere: bool) -> None:
    """A request to end, of any process, settles a waiting turn as cancelled, and moves those behind it up."""
    one, two, three = begun(log), queued(log), queued(log)
    ready = two.ready()
    place = store.open() if elsewhere else log
    place.request("t", two.id, by="somebody").result()
    with pytest.raises(AlreadySettled):
        ready.result(30)
    assert ends(log) == [(two.id, "cancelled")]
    assert [event.body.detail for event in events(log) if isinstance(event.body, Interrupted)] == [
        "interrupted by somebody"
    ]
    assert places(log) == [None, None, 1]
    one.complete().result()
    three.ready().result(30)


def test_a_turn_asked_to_end_before_it_is_waited_for_never_starts(log: Log) -> None:
    """A turn whose end was asked for is not ready, even when nothing is before it."""
    turn = log.submit("t", "first").result()
    log.request("t", turn.id).result()
    with pytest.raises(AlreadySettled):
        turn.ready().result(30)
    assert kinds(log, turn=turn.id) == ["submitted", "requested", "interrupted"]


def test_text_that_came_before_a_wait_is_written(log: Log) -> None:
    """P2: asking whether a running turn is ready says so, and loses no draft text that was given before it."""
    turn = begun(log)
    receipt = turn.draft("so far")
    turn.ready().result(30)
    receipt.result(30)
    assert [draft.text for draft in log.drafts("t")] == ["so far"]


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_full_queue_is_refused(log: Log) -> None:
    """P4, P6, P11: beyond the limit `Overloaded` names it and nothing is stored; a known key is answered as ever."""
    begun(log)
    known = log.submit("t", "next", key="k", when_busy="queue").result()
    for _ in range(QUEUE_TURNS_MAX - 2):
        queued(log)
    before = events(log)
    with pytest.raises(Overloaded) as caught:
        log.submit("t", "one more", when_busy="queue").result()
    assert (caught.value.limit, caught.value.limit_value) == ("QUEUE_TURNS_MAX", QUEUE_TURNS_MAX)
    for when_busy in ("queue", "replace"):
        again = log.submit("t", "next", key="k", when_busy=when_busy).result()
        assert (again.id, again.duplicate) == (known.id, True)
    assert events(log) == before


def test_a_full_queue_can_be_replaced(log: Log) -> None:
    """P11: a submission that replaces all others is taken by a full queue, which it empties; a second one only once
    they have settled."""
    one = begun(log)
    waiting = [queued(log) for _ in range(QUEUE_TURNS_MAX - 1)]
    new = log.submit("t", "instead", when_busy="replace").result()
    with pytest.raises(Overloaded):
        log.submit("t", "or this", when_busy="replace").result()
    one.interrupt("cancelled").result()
    for turn in waiting:
        with pytest.raises(AlreadySettled):
            turn.ready().result(30)
    new.ready().result(30)
    assert not log.submit("t", "or this", when_busy="replace").result().duplicate


def test_no_more_than_a_limit_wait(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: who waits is counted; beyond the limit `Overloaded` is told, and those before it wait on."""
    monkeypatch.setattr("turnlog.journal.turn_queue.QUEUE_JOBS_MAX", 3)
    one, two = begun(log), queued(log)
    waiting = [two.ready() for _ in range(3)]
    with pytest.raises(Overloaded):
        two.ready().result(30)
    one.complete().result()
    for ready in waiting:
        ready.result(30)


def test_an_unknown_way_to_be_busy_is_refused(log: Log) -> None:
    """What is to be done while turns are open is one of three words; any other is refused by name."""
    with pytest.raises(InvalidInput, match="when_busy"):
        log.submit("t", "x", when_busy="later")  # type: ignore[arg-type]


# --- replacing -------------------------------------------------------------------------------------------------------


def test_replacing_asks_every_open_turn_to_end(store: Store, log: Log) -> None:
    """The new turn is durable first; then each turn open before it is asked once to end, and it waits for that."""
    one, two = begun(log), queued(log)
    other = store.open()
    three = queued(other)
    log.request("t", two.id, by="a person").result()
    new = log.submit("t", "new", when_busy="replace").result()
    by = f"replaced by {new.id}"
    assert asked(log) == [(two.id, "a person"), (one.id, by), (three.id, by)]
    assert [event.turn for event in events(log)][-3:] == [new.id, one.id, three.id]
    ready = new.ready()
    one.interrupt("cancelled").result()
    for waiting in (two, three):
        with pytest.raises(AlreadySettled):
            waiting.ready().result(30)
    ready.result(30)
    assert events(log)[-1].body.detail == by  # type: ignore[union-attr]  # the last one ended
    new.start().result()


def test_nothing_open_is_nothing_to_replace(log: Log) -> None:
    """Replacing in a thread without an open turn asks nobody, and the turn is ready at once."""
    begun(log).complete().result()
    new = log.submit("t", "new", when_busy="replace").result()
    new.ready().result(30)
    assert asked(log) == []


@pytest.mark.parametrize("when_busy", ["refuse", "queue"])
def test_only_replacing_asks_others_to_end(log: Log, when_busy: str) -> None:
    """A submission that does not replace leaves the open turns alone."""
    begun(log)
    try:
        log.submit("t", "new", when_busy=when_busy).result()  # type: ignore[arg-type]  # of a parameter list
    except Busy:
        assert when_busy == "refuse"
    assert asked(log) == []


def test_a_known_submission_replaces_nothing(store: Store, log: Log) -> None:
    """P6: the same key again gives the same turn, asks nobody to end, and starts nothing, from any process."""
    one = begun(log)
    new = log.submit("t", "new", key="k", when_busy="queue").result()
    for place in (log, store.open()):
        again = place.submit("t", "new", key="k", when_busy="replace").result()
        assert (again.id, again.duplicate) == (new.id, True)
    assert asked(log) == []
    assert one.state == "worker_started"


@pytest.mark.parametrize("verb", ["commit.before", "commit.after"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_replacement_that_fails_is_found_by_its_key(store: Store, log: Log, verb: str, k: int) -> None:
    """P1, P6: at each write at which replacing fails, the error tells; the key finds what is stored, and it settles."""
    one = begun(log)
    two = queued(log)
    store.faults(log).fail(verb, unavailable, k=k)
    with pytest.raises(StoreUnavailable) as caught:
        log.submit("t", "new", key="k", when_busy="replace").result()
    assert caught.value.key == "k"
    stored = k > 1 or verb == "commit.after"
    again = log.submit("t", "new", key="k", when_busy="queue").result()
    assert again.duplicate is stored
    if stored:
        store.clock.advance(2)
        log.recover()
        assert ends(log) == [(again.id, "not_started")]
    assert {one.state, two.state} == {"worker_started", "submitted"}


# --- ends ------------------------------------------------------------------------------------------------------------


def test_closing_leaves_nobody_waiting(store: Store, log: Log) -> None:
    """P8: when the log is closed the running turn ends cancelled, the waiting ones not started, and waits end."""
    one, two, three = begun(log), queued(log), queued(log)
    waits = [two.ready(), three.ready()]
    log.close()
    for waiting in waits:
        with pytest.raises(AlreadySettled):
            waiting.result(30)
    other = store.open()
    assert ends(other) == [(one.id, "cancelled"), (two.id, "not_started"), (three.id, "not_started")]


def test_a_store_that_fails_leaves_nobody_waiting(store: Store, log: Log) -> None:
    """P8: waits end also when the log is closed and its turns cannot be settled."""
    begun(log)
    ready = queued(log).ready()
    store.faults(log).fail("commit.before", unavailable, forever=True)
    log.close()
    with pytest.raises(StoreError):
        ready.result(30)


def test_a_dead_writers_queue_is_settled_in_order(store: Store, log: Log) -> None:
    """C02, P8: of a dead writer the running turn ends as died, those behind it as not started, in their order."""
    one = begun(log)
    behind = [queued(log, f"{n}").id for n in range(QUEUE_TURNS_MAX - 1)]
    store.kill(log)
    other = store.open()
    assert ends(other) == [(one.id, "process_died"), *((turn, "not_started") for turn in behind)]
    assert [row.turn for row in reversed(other.turns("t").rows)] == [one.id, *behind]
    assert other.recover() == []
    again = other.retry("t", behind[0]).result()
    again.ready().result(30)
    again.start().result()


def test_a_retry_waits_as_a_submission_does(log: Log) -> None:
    """P6: asking a turn again behind a running one is refused or waits, as the caller says; it is one turn for ever."""
    begun(log, "one").interrupt("failed").result()
    failed = log.turns("t").rows[0].turn
    running = begun(log, "two")
    with pytest.raises(Busy):
        log.retry("t", failed).result()
    child = log.retry("t", failed, when_busy="queue").result()
    assert log.retry("t", failed, when_busy="replace").result().id == child.id
    assert (places(log)[-1], asked(log)) == (1, [])
    running.complete().result()
    child.ready().result(30)


# --- with log.turn(...) ----------------------------------------------------------------------------------------------


def test_a_block_waits_for_its_turn(log: Log) -> None:
    """C02: a queued block begins when the turn before it has settled."""

    async def main() -> None:
        first = await log.submit("t", "first")
        await first.start()
        order: list[str] = []

        async def second() -> None:
            async with log.turn("t", "second", when_busy="queue"):
                order.append("second")

        task = asyncio.create_task(second())
        await asyncio.to_thread(eventually, lambda: len(log.turns("t").rows) == 2)
        order.append("first ends")
        await first.complete()
        await task
        assert order == ["first ends", "second"]

    run(main())


def test_a_block_cancelled_while_it_waits_never_begins(log: Log) -> None:
    """P5: a queued block that is cancelled before its time settles its turn, and its body does not run."""

    async def main() -> None:
        first = await log.submit("t", "first")
        await first.start()

        async def second() -> None:
            async with log.turn("t", "second", when_busy="queue"):
                raise AssertionError("it began")

        task = asyncio.create_task(second())
        await asyncio.to_thread(eventually, lambda: len(log.turns("t").rows) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [reason for _, reason in ends(log)] == ["cancelled"]
        await first.complete()

    run(main())


def test_a_block_whose_turn_is_asked_to_end_never_begins(log: Log) -> None:
    """P5: a queued block whose turn is asked to end before its time is told so, and its body does not run."""

    async def main() -> None:
        first = await log.submit("t", "first")
        await first.start()

        async def second() -> None:
            async with log.turn("t", "second", turn="two", when_busy="queue"):
                raise AssertionError("it began")

        task = asyncio.create_task(second())
        await asyncio.to_thread(eventually, lambda: len(log.turns("t").rows) == 2)
        await log.request("t", "two")
        with pytest.raises(AlreadySettled):
            await task
        assert ends(log) == [("two", "cancelled")]

    run(main())
