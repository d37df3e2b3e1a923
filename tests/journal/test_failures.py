"""A store that fails: nothing accepted is lost, nothing is doubled, nothing stays stuck."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import turnlog
from tests.journal.stores import (
    Store,
    call,
    events,
    eventually,
    items,
    kinds,
    message,
    output,
    texts,
    unavailable,
)
from turnlog.errors import ForkedLog, StoreBusy, StoreUnavailable, TurnlogError
from turnlog.journal import jobs
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn

Verb = pytest.mark.parametrize("verb", ["commit.before", "commit.after"])
"""Nothing was stored; or all was, and nobody knows."""


def begun(log: Log, thread: str = "t") -> Turn:
    turn = log.submit(thread, "question").result()
    turn.start().result()
    return turn


def fail_next(store: Store, log: Log, verb: str, act: Callable[[], Receipt[Any]]) -> StoreUnavailable:
    """Do something while the next commit fails; the error it gets."""
    trap = store.faults(log).fail(verb, unavailable)
    with pytest.raises(StoreUnavailable) as caught:
        act().result(30)
    assert trap.fired == 1
    return caught.value


@Verb
def test_a_submission_in_doubt(store: Store, log: Log, verb: str) -> None:
    """P1, C03: its error names key and turn, the same key tells what became of it, and it is not stuck."""
    error = fail_next(store, log, verb, lambda: log.submit("t", "question", key="k", turn="x"))
    assert (error.thread, error.turn, error.key) == ("t", "x", "k")
    again = log.submit("t", "question", key="k", turn="x").result()
    assert (again.id, again.duplicate) == ("x", verb == "commit.after")
    assert kinds(log).count("submitted") == 1
    if again.duplicate:  # nobody works on it: it ends by itself, and can be retried
        store.clock.advance(2)
        log.append_message("other", {}).result()
        eventually(lambda: again.state == "interrupted")
        assert log.turn_view("t", "x").reason == "not_started"
        again = log.retry("t", "x").result()
    again.start().result()
    again.complete().result()


def test_a_submission_in_doubt_that_nobody_repeats(store: Store, log: Log) -> None:
    """P8: a submission that is stored although its caller was told of a failure does not block its thread for ever."""
    fail_next(store, log, "commit.after", lambda: log.submit("t", "question"))
    store.clock.advance(2)
    log.append_message("other", {}).result()
    eventually(lambda: kinds(log)[-1] == "interrupted")
    assert not log.submit("t", "next").result().duplicate


def test_a_repeated_submission_in_doubt_harms_no_running_turn(store: Store, log: Log) -> None:
    """C03: a failure while a known submission is repeated leaves the turn that is running as it is."""
    turn = log.submit("t", "question", key="k", turn="x").result()
    turn.start().result()
    fail_next(store, log, "commit.before", lambda: log.submit("t", "question", key="k", turn="x"))
    store.clock.advance(2)
    log.append_message("other", {}).result()
    assert log.recover() == []
    turn.item(message("answer")).result()
    turn.complete().result()
    assert texts(log) == ["answer"]


@Verb
def test_an_item_in_doubt(store: Store, log: Log, verb: str) -> None:
    """P4: an item whose commit raised is stored once or not at all, and the turn goes on behind it."""
    turn = begun(log)
    error = fail_next(store, log, verb, lambda: turn.item(call("c1")))
    assert (error.thread, error.turn) == ("t", turn.id)
    turn.item(call("c2")).result()
    turn.item(output("c2")).result()
    turn.interrupt("failed").result()
    calls = [item.call_id for item in items(log)]
    assert calls == (["c2", "c2"] if verb == "commit.before" else ["c1", "c2", "c2"])
    assert log.turn_view("t", turn.id).tools == len(set(calls))


@Verb
def test_a_final_item_in_doubt_keeps_its_draft_straight(store: Store, log: Log, verb: str) -> None:
    """P2: text whose final item is in doubt is in the log once: as that item, or as what was shown."""
    turn = begun(log)
    turn.draft("Hel").result()
    fail_next(store, log, verb, lambda: turn.item(message("Hello")))
    turn.draft(" there").result()
    turn.complete().result()
    assert texts(log) == (["Hel there"] if verb == "commit.before" else ["Hello", " there"])


@Verb
@pytest.mark.parametrize("end", ["complete", "interrupt"])
def test_an_end_in_doubt(store: Store, log: Log, verb: str, end: str) -> None:
    """P5: an end whose commit raised is written by itself once the store works again, once."""
    turn = begun(log)
    turn.draft("Hel").result()
    fail_next(store, log, verb, lambda: turn.complete() if end == "complete" else turn.interrupt("failed"))
    store.clock.advance(2)
    log.append_message("other", {}).result()
    state = "completed" if end == "complete" else "interrupted"
    eventually(lambda: turn.state == state)
    assert kinds(log)[-2:] == ["item", state]
    assert texts(log) == ["Hel"]
    assert not log.submit("t", "next").result().duplicate


def test_an_end_is_owed_when_the_reading_fails(store: Store, log: Log) -> None:
    """P5: an end that failed because the store could not even be read is written by itself all the same."""
    turn = begun(log)
    turn.draft("Hel").result()
    fail_next(store, log, "commit.before", lambda: turn.step("s"))
    read = store.faults(log).fail("tail.before", unavailable)
    with pytest.raises(StoreUnavailable):
        turn.complete().result(30)
    assert read.fired
    store.clock.advance(2)
    log.append_message("other", {}).result()
    eventually(lambda: turn.state == "completed")
    assert texts(log) == ["Hel"]


def test_an_owed_end_is_written_at_closing(store: Store, log: Log) -> None:
    """P5: a turn whose completion failed is completed by closing the log, when the store works by then."""
    turn = begun(log)
    turn.item(message("answer")).result()
    fail_next(store, log, "commit.before", turn.complete)
    log.close()
    assert kinds(store.open())[-1] == "completed"


def test_closing_with_a_failing_store_ends(store: Store, log: Log) -> None:
    """Closing while the store refuses everything ends at once, and the next process settles what is left."""
    turn = begun(log)
    turn.draft("shown").result()
    store.faults(log).fail("commit.before", unavailable, forever=True)
    store.faults(log).fail("lease.before", unavailable, forever=True)
    turn.draft("unseen")
    with suppress(StoreUnavailable):
        log.close()
    other = store.open()
    assert [found.turn for found in other.recovered] == [turn.id]
    assert texts(other) == ["shown"]


def test_recording_resumes_when_the_store_works(store: Store, log: Log) -> None:
    """P1, C16: while the store refuses, submissions fail before any work; afterwards everything goes on by itself."""
    store.faults(log).fail("commit.before", unavailable, forever=True)
    for n in range(5):
        with pytest.raises(StoreUnavailable):
            log.submit(f"t{n}", "question", key="k").result(30)
    store.faults(log).heal()
    assert log.threads().rows == ()
    for n in range(5):
        with log.turn(f"t{n}", "question", key="k") as turn:
            turn.draft("answer")
        assert texts(log, f"t{n}") == ["answer"]


def test_others_of_a_failed_batch_are_told_too(store: Store, log: Log) -> None:
    """P1: all submissions of one failed commit are told, each with its own thread, and each can be repeated."""
    faults = store.faults(log)
    with faults.hold("commit.before") as hold:
        log.append_message("first", {})
        hold.wait_held()
        receipts = [log.submit(f"t{n}", "x", key="k") for n in range(20)]
        faults.fail("commit.before", unavailable)
        hold.release()
    for n, receipt in enumerate(receipts):
        with pytest.raises(StoreUnavailable) as caught:
            receipt.result(30)
        assert caught.value.thread == f"t{n}"
    assert [log.submit(f"t{n}", "x", key="k").result().duplicate for n in range(20)] == [False] * 20


@pytest.mark.parametrize("verb", ["turns.before", "threads.before", "tail.before", "read.before", "lease.before"])
def test_a_failing_verb_harms_one_call(store: Store, log: Log, verb: str) -> None:
    """A store that fails in any verb, once, ends at most the calls that needed it; the writer lives and goes on."""
    turn = begun(log)
    other = store.open()
    for kill in (log, other):
        store.faults(kill).fail(verb, lambda: StoreBusy(detail="busy"))
    acts: list[Callable[[], Receipt[Any]]] = [
        lambda: log.submit("t", "next"),
        lambda: other.submit("t", "next"),
        lambda: other.request("t", turn.id),
        lambda: turn.item(message("a")),
        lambda: other.submit("u", "x"),
    ]
    for act in acts:
        assert _outcome(act) in ("done", "Busy", "StoreBusy")
    for each in (log, other):
        store.faults(each).heal()
    store.clock.advance(2)
    turn.item(message("b")).result(30)
    turn.complete().result(30)
    assert texts(log)[-1] == "b"


def _outcome(act: Callable[[], Receipt[Any]]) -> str:
    try:
        act().result(30)
    except TurnlogError as error:
        return type(error).__name__
    return "done"


@pytest.mark.parametrize("bound", ["time", "tries"])
def test_an_append_that_never_wins_gives_up(
    store: Store, log: Log, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11, C31: a write that other processes always overtake is refused as `StoreBusy` when the time is over, or, as a
    clock may stand still, after many tries, and harms nothing."""
    monkeypatch.setattr(jobs, "RESEAL_TRIES_MAX", 60 if bound == "tries" else 10**9)
    monkeypatch.setattr(jobs, "RESEAL_WAIT_S", 0.5 if bound == "time" else 10**9)
    other = store.open()
    log.append_message("t", {"n": 0}).result()
    trap = store.faults(log).traps.set("commit.before", lambda _: overtake(other), forever=True)
    with pytest.raises(StoreBusy):
        log.append_message("t", {"never": 1}).result(30)
    assert trap.fired == 60 if bound == "tries" else trap.fired > 1
    store.faults(log).heal()
    log.append_message("t", {"at": "last"}).result(30)
    assert [event.seq for event in events(log)] == list(range(1, trap.fired + 4))


def overtake(other: Log) -> None:
    other.append_message("t", {"other": 1}).result(30)


# --- C11: each write of a turn may be the last ----------------------------------------------------------------------


def play(log: Log, shown: list[str]) -> None:
    """A turn whose every write is awaited. `shown` is what a subscriber had been shown, as it becomes durable."""
    turn = log.submit("t", "question", key="k").result(30)
    turn.start().result(30)
    turn.draft("Hel").result(30)
    shown.append("Hel")
    turn.draft("lo").result(30)
    shown[-1] = "Hello"
    turn.item(message("Hello")).result(30)
    turn.item(call("c1")).result(30)
    turn.item(output("c1")).result(30)
    turn.draft("Bye").result(30)
    shown.append("Bye")
    turn.complete().result(30)


@Verb
@pytest.mark.parametrize("k", range(1, 12))
def test_every_write_may_be_the_last(store: Store, log: Log, verb: str, k: int) -> None:
    """C11: death at the k-th write, stored or not, leaves the turn complete, or interrupted with its text."""
    store.faults(log).fail(verb, unavailable, k=k, forever=True)
    shown: list[str] = []
    with suppress(StoreUnavailable):
        play(log, shown)
    store.kill(log)
    other = store.open()
    if not other.threads().rows:
        assert (k, verb) == (1, "commit.before")
        return
    state = other.turns("t").rows[0].state
    assert state in ("completed", "interrupted")
    assert "".join(texts(other)).startswith("".join(shown))
    if state == "completed":
        assert texts(other) == ["Hello", "Bye"]
    assert kinds(other).count("completed") + kinds(other).count("interrupted") == 1


@Verb
@pytest.mark.parametrize("k", range(1, 12))
def test_every_write_may_fail_once(store: Store, log: Log, verb: str, k: int) -> None:
    """P4: the k-th write fails once, stored or not: the turn has one end and all that was shown."""
    store.faults(log).fail(verb, unavailable, k=k)
    shown: list[str] = []
    with suppress(StoreUnavailable):
        play(log, shown)
    log.close()
    other = store.open()
    if other.threads().rows:
        assert "".join(texts(other)).startswith("".join(shown))
        assert kinds(other).count("completed") + kinds(other).count("interrupted") == 1
        assert other.turns("t").rows[0].illegal == 0


# --- forks ---------------------------------------------------------------------------------------------------------


def test_a_forked_child_may_not_use_the_log(store: Store, log: Log) -> None:
    """Every method of a log carried over a fork raises `ForkedLog` in the child, and the parent's log is unharmed."""
    turn = begun(log)
    acts: list[Callable[[], Any]] = [
        lambda: log.submit("t", "x"),
        lambda: log.append_message("t", {}),
        lambda: log.request("t", turn.id),
        log.recover,
        log.threads,
        lambda: log.events("t"),
        lambda: log.transcript("t"),
        lambda: log.follow("t"),
        lambda: turn.item({}),
        lambda: turn.draft("x"),
        turn.complete,
        log.close,
    ]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        errors = []
        for act in acts:
            try:
                act()
            except BaseException as error:
                errors.append(type(error).__name__)
            else:
                errors.append("nothing")
        os.write(writing, ",".join(errors).encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], 30)
    said = os.read(reading, 10_000).decode() if ready else "it hangs"
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert said.split(",") == [ForkedLog.__name__] * len(acts)
    turn.complete().result(30)


_PARENT = """
import os, sys, time
import turnlog
log = turnlog.open(sys.argv[1])
turn = log.submit("t", "question").result()
turn.start().result()
child = os.fork()
if child == 0:
    sys.stdin.read()  # lives until the test lets it go
    os._exit(0)
print("ready", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_child_that_lives_on_does_not_keep_the_owner_alive(tmp_path: Any) -> None:
    """P7: the lock of a writer ends with its process, though a child forked from it lives on."""
    url = f"sqlite:///{tmp_path}/store.db"
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert parent.wait(30) == -signal.SIGKILL
        with turnlog.open(url) as log:
            assert [found.reason for found in log.recovered] == ["process_died"]
        assert parent.stdin is not None
        parent.stdin.close()
