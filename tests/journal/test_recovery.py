"""Turns whose writer died: settled once, honestly, by whoever has the store open."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.journal.stores import (
    Store,
    call,
    drafts,
    events,
    eventually,
    items,
    kinds,
    message,
    output,
    texts,
    together,
    unavailable,
)
from turnlog.errors import Busy, Fenced, StoreUnavailable, TurnlogError
from turnlog.events.kinds import Interrupted, Step
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn
from turnlog.limits import LEASE_S


def begun(log: Log, thread: str = "t") -> Turn:
    turn = log.submit(thread, "question").result()
    turn.start().result()
    return turn


def ends(log: Log, thread: str = "t") -> list[str]:
    return [event.body.reason for event in events(log, thread) if isinstance(event.body, Interrupted)]


def test_a_dead_writers_turns_are_settled_at_opening(store: Store, log: Log) -> None:
    """C01, C02, P8: a started turn ends as `process_died`, a waiting one as `not_started`, words kept."""
    started, waiting = begun(log, "a"), log.submit("b", "wait\u2028ing").result()
    store.kill(log)
    other = store.open()
    assert {(found.thread, found.turn, found.reason) for found in other.recovered} == {
        ("a", started.id, "process_died"),
        ("b", waiting.id, "not_started"),
    }
    assert (ends(other, "a"), ends(other, "b")) == (["process_died"], ["not_started"])
    assert kinds(other, "b") == ["thread_created", "submitted", "interrupted"]
    assert other.turn_view("b", waiting.id).preview == "wait\u2028ing"
    assert items(other, "a") == []


def test_a_second_recovery_changes_nothing(store: Store, log: Log) -> None:
    """P8, C06: recovering again finds nothing and writes nothing."""
    begun(log)
    store.kill(log)
    other = store.open()
    before = events(other)
    assert [other.recover() for _ in range(3)] == [[], [], []]
    assert store.open().recovered == []
    assert events(other) == before


def test_four_rounds_of_three(store: Store) -> None:
    """C06: three turns a process, four processes killed: twelve interrupted, none running, each once."""
    for round_ in range(4):
        log = store.open()
        for n in range(3):
            begun(log, f"{round_}.{n}")
        store.kill(log)
    log = store.open()
    reasons = [ends(log, f"{round_}.{n}") for round_ in range(4) for n in range(3)]
    assert reasons == [["process_died"]] * 12
    assert {log.turns(row.thread).rows[0].state for row in log.threads().rows} == {"interrupted"}


def test_everything_that_was_shown_is_kept(store: Store, log: Log) -> None:
    """P2, P3, C28: recovered text becomes marked items, all else interrupted steps, in the order of its places."""
    turn = begun(log)
    turn.step("s1", kind="tool", status="running").result()
    for text, target, kind in (
        ("why", None, "reasoning"),
        ("Hel\ud83d", None, "text"),
        ('{"path":"/tm', "c9", "args"),
        ("line", "s1", "output"),
        ("inside", "s1", "text"),
        ("lo", "m1", "text"),
    ):
        turn.draft(text, target=target, kind=kind).result()  # type: ignore[arg-type]
    shown = drafts(log)
    store.kill(log)
    other = store.open()
    bodies = [event.body for event in events(other)[5:]]
    said = [
        (body.id, body.status, body.text or body.args or body.output) if isinstance(body, Step) else type(body).__name__
        for body in bodies
    ]
    assert said == [
        ("~0/~0/reasoning/0", "interrupted", "why"),
        "Item",
        ("c9", "interrupted", '{"path":"/tm'),
        ("s1", "interrupted", "line"),
        ("~0/s1/text/0", "interrupted", "inside"),
        "Item",
        "Interrupted",
    ]
    assert texts(other) == [shown["0/~1/text/0"], shown["0/m1/text/0"]] == ["Hel", "lo"]
    assert {item.synthesized for item in items(other)} == {"interrupted"}
    assert {closed.draft for body in bodies for closed in getattr(body, "closes", ())} == set(shown)
    assert drafts(other) == {}


def test_an_unknown_outcome_stays_unknown(store: Store, log: Log) -> None:
    """C42, P3: a call without a result is named as unknown by the end and by the recovery, and nothing runs again."""
    turn = begun(log)
    turn.item(call("c1")).result()
    turn.item(call("c2")).result()
    turn.item(output("c1")).result()
    store.kill(log)
    other = store.open()
    (found,) = other.recovered
    assert found.unknown_calls == ("c2",)
    (end,) = [event.body for event in events(other) if isinstance(event.body, Interrupted)]
    assert end.unknown_calls == ["c2"]
    statuses = [entry.status for entry in other.timeline("t", turn.id).entries if entry.kind == "tool"]
    assert statuses == ["succeeded", "unknown"]


def test_text_of_a_given_up_attempt_is_no_answer(store: Store, log: Log) -> None:
    """DESIGN 3: only text of the last attempt becomes an item when the writer dies."""
    turn = begun(log)
    turn.draft("wrong").result()
    turn.drop_attempt().result()
    turn.draft("right").result()
    store.kill(log)
    assert texts(store.open()) == ["right"]


def test_two_recoverers_at_once(store: Store) -> None:
    """P8: four processes that open and recover at one instant settle each turn once, between them."""
    log = store.open()
    turns = {begun(log, f"t{n}").id for n in range(10)}
    others = [store.open() for _ in range(4)]
    store.kill(log)
    found = together(4, lambda n: others[n].recover())
    lists = [part for part in found if isinstance(part, list)]
    assert len(lists) == 4, found
    assert sorted(one.turn for part in lists for one in part) == sorted(turns)
    assert [ends(others[0], f"t{n}") for n in range(10)] == [["process_died"]] * 10


def test_a_live_owner_is_left_alone(store: Store, log: Log) -> None:
    """C07, P7: twenty recoveries by another process, lease after lease, leave the turn of a live writer untouched."""
    turn = begun(log)
    other = store.open()
    waiting = log.submit("u", "waits").result()
    for _ in range(20):
        assert other.recover() == []
        store.clock.advance(LEASE_S / 3)
        # Its heartbeat is a commit like any other; it is made to beat before the next look.
        log.append_message("beat", {}).result()
    turn.item(message("still here")).result()
    turn.complete().result()
    waiting.interrupt("cancelled").result()
    assert kinds(other) == ["thread_created", "submitted", "worker_started", "assistant_started", "item", "completed"]


def test_a_heartbeat_keeps_a_silent_writer_alive(store: Store, log: Log) -> None:
    """C07: a writer that writes nothing for three leases renews its lease by itself while it owns an open turn."""
    begun(log)
    other = store.open()
    for _ in range(9):
        renewed = store.faults(log).traps.reached("lease.after")
        store.clock.advance(LEASE_S / 3 + 0.1)
        eventually(lambda renewed=renewed: store.faults(log).traps.reached("lease.after") > renewed)  # type: ignore[misc]
        assert other.recover() == []


def test_a_stopped_writer_is_taken_over_then_refused(store: Store, log: Log) -> None:
    """C07, C08, P7: a writer stopped for longer than its lease is taken over, and then refused as `Fenced`."""
    turn = begun(log)
    turn.draft("seen ").result()
    other = store.open()
    with store.paused(log):
        store.clock.advance(LEASE_S - 5)
        assert other.recover() == []
        store.clock.advance(6)
        assert [found.turn for found in other.recover()] == [turn.id]
        stale: list[Receipt[Any]] = [turn.draft("unseen"), turn.item(message("unseen")), turn.complete()]
    for receipt in stale:
        with pytest.raises(Fenced):
            receipt.result(30)
    assert texts(other) == ["seen "]
    assert ends(other) == ["process_died"]
    assert log.submit("t", "next").result().state == "submitted"


def test_a_taken_over_writer_goes_on_with_other_turns(store: Store, log: Log) -> None:
    """A writer that lost a turn submits to the same thread again at once, and closes without a fault."""
    begun(log)
    other = store.open()
    with store.paused(log):
        store.clock.advance(LEASE_S + 1)
        other.recover()
        again = log.submit("t", "next")
    assert again.result(30).state == "submitted"
    log.close()
    assert ends(other) == ["process_died", "not_started"]


def test_an_own_turn_that_came_back(store: Store, log: Log) -> None:
    """P8: a turn taken over by a writer that then dies is settled by its first writer, which closes well."""
    turn = begun(log)
    other = store.open()
    with store.paused(log):
        store.clock.advance(LEASE_S + 1)
        store.faults(other).fail("commit.before", unavailable, k=2, forever=True)
        with suppress(StoreUnavailable):
            other.recover()
        store.kill(other)
    assert [found.turn for found in log.recover()] in ([turn.id], [])
    assert ends(log) == ["process_died"]
    assert turn.settled
    log.close()


def test_death_between_claim_and_settling(store: Store, log: Log) -> None:
    """P8: a recoverer that dies after its claim is a dead owner itself, and the next one settles the turn."""
    turn = begun(log)
    turn.draft("seen").result()
    store.kill(log)
    engine = store.engine()
    engine.fail("commit.before", unavailable, k=2, forever=True)
    with pytest.raises(StoreUnavailable):
        store.open(engine=engine)
    other = store.open()
    assert [found.turn for found in other.recovered] == [turn.id]
    assert texts(other) == ["seen"]
    assert ends(other) == ["process_died"]


def test_a_recoverer_that_lives_on_settles_what_it_claimed(store: Store, log: Log) -> None:
    """P8: a recoverer whose settling write failed after its claim repeats it, as `process_died`."""
    other = store.open()
    turn = begun(log)
    turn.draft("seen").result()
    store.kill(log)
    store.faults(other).fail("commit.before", unavailable, k=2)
    with pytest.raises(StoreUnavailable):
        other.recover()
    with pytest.raises(Busy):
        other.submit("t", "next").result()
    other.append_message("t", {"type": "message"}).result()
    assert [found.reason for found in other.recover()] == ["process_died"]
    assert texts(other) == ["seen"]
    assert not other.submit("t", "next").result().duplicate


@pytest.mark.parametrize("verb", ["commit.before", "commit.after"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_recovery_fails_at_any_write(store: Store, log: Log, verb: str, k: int) -> None:
    """P8: a recovery whose k-th write fails, stored or not, leaves the turn for the next one to settle exactly once."""
    begun(log).draft("seen").result()
    begun(log, "u")
    store.kill(log)
    engine = store.engine()
    engine.fail(verb, unavailable, k=k, forever=True)
    with suppress(StoreUnavailable):
        store.open(engine=engine)
    engine.heal()
    other = store.open()
    assert (ends(other), ends(other, "u")) == (["process_died"], ["process_died"])
    assert texts(other) == ["seen"]


def test_opening_that_fails_leaves_nothing_behind(store: Store, log: Log) -> None:
    """A log that cannot be opened ends its thread and its lock, so that the store can be opened later."""
    import threading

    begun(log)
    store.kill(log)
    before = threading.active_count()
    engine = store.engine()
    engine.fail("dead_owners.before", unavailable, forever=True)
    with pytest.raises(StoreUnavailable):
        store.open(engine=engine)
    assert threading.active_count() == before
    assert len(store.open().recovered) == 1


def test_a_lease_end_is_noticed_by_itself(store: Store, log: Log) -> None:
    """P8: a process that has the store open settles a dead writer's turn by itself when that lease ends."""
    begun(log)
    other = store.open()
    begun(other, "busy")
    with store.paused(log):
        store.clock.advance(LEASE_S + 1)
        other.append_message("wake", {}).result()
        eventually(lambda: ends(other) == ["process_died"])


def test_a_dead_writers_thread_takes_submissions_at_once(store: Store, log: Log) -> None:
    """P8: who submits to a thread whose writer died need not wait for its lease: the dead turn is settled first."""
    turn = begun(log)
    other = store.open()
    store.kill(log)
    following = other.submit("t", "next").result()
    assert ends(other) == ["process_died"]
    assert [event.turn for event in events(other) if event.kind == "submitted"] == [turn.id, following.id]


def test_a_busy_thread_and_a_failing_store(store: Store, log: Log) -> None:
    """A store that fails while somebody looks whether a busy thread's writer is dead harms only that submission."""
    begun(log)
    other = store.open()
    store.faults(other).fail("dead_owners.before", unavailable)
    with pytest.raises(TurnlogError):
        other.submit("t", "next").result(30)
    assert other.submit("u", "other").result(30).state == "submitted"


def test_closing_settles_what_is_open(store: Store, log: Log) -> None:
    """Closing ends running turns as cancelled, waiting ones as not started, and writes what waits."""
    running, waiting = begun(log, "a"), log.submit("b", "waits").result()
    running.draft("Hel")
    log.submit("c", "never awaited")
    log.close()
    log.close()
    other = store.open()
    assert other.recovered == []
    assert (ends(other, "a"), ends(other, "b"), ends(other, "c")) == (["cancelled"], ["not_started"], ["not_started"])
    assert texts(other, "a") == ["Hel"]
    assert other.turn_view("b", waiting.id).state == "interrupted"


def test_threads_that_settled_are_not_looked_at(store: Store, log: Log) -> None:
    """P11: opening a store reads nothing of turns that have ended, however many they are."""
    for n in range(30):
        with log.turn(f"t{n}", "x"):
            pass
    begun(log, "open")
    store.kill(log)
    other = store.open()
    assert len(other.recovered) == 1
    traps = store.faults(other).traps
    assert traps.reached("read.after") + traps.reached("tail.after") < 10
