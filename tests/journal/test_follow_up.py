"""After a turn that was cut short: what is kept of it, and that the next turn is given something valid."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.folds.responses_rules import faults, portable_faults
from tests.journal.stores import Store, call, events, items, message, output, reasoning, texts, unavailable
from turnlog.errors import InvalidInput, StoreError
from turnlog.events.kinds import Item, Step
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn


def begun(log: Log) -> Turn:
    turn = log.submit("t", "question").result()
    turn.start().result()
    return turn


def cut(store: Store, log: Log, turn: Turn, how: str) -> Log:
    """End the turn, by its owner or by its death; a log to go on with."""
    if how == "interrupt":
        turn.interrupt("cancelled").result()
        return log
    store.kill(log)
    return store.open()


def given(log: Log) -> list[dict[str, Any]]:
    """What an agent is given in the next turn, with the follow-up in it."""
    with log.turn("t", "follow-up"):
        pass
    return [msgspec.json.decode(raw) for raw in log.history("t", "responses").items]


def check_valid(history: list[dict[str, Any]]) -> None:
    """Each call has exactly one output after it, each output its call before it, and the follow-up is last."""
    waiting: list[str] = []
    for item in history:
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
        elif item["type"] == "function_call_output":
            waiting.remove(item["call_id"])
    assert waiting == []
    assert (history[0]["role"], history[-1]["role"]) == ("user", "user")


@pytest.fixture(params=["interrupt", "die"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_cut_before_the_first_word(store: Store, log: Log, how: str) -> None:
    """C28 a: cancelled before the first word there is no assistant item, and the follow-up is valid."""
    after = cut(store, log, begun(log), how)
    assert items(after) == []
    history = given(after)
    check_valid(history)
    assert len(history) == 2


def test_cut_in_mid_text(store: Store, log: Log, how: str) -> None:
    """C28 b: cancelled in mid-text the text is kept and flagged, and the follow-up is valid."""
    turn = begun(log)
    turn.draft("Hel").result()
    after = cut(store, log, turn, how)
    assert texts(after) == ["Hel"]
    assert [item.synthesized for item in items(after)] == ["interrupted"]
    check_valid(given(after))


def test_cut_in_mid_arguments(store: Store, log: Log, how: str) -> None:
    """C28 c: cancelled in mid-arguments there is no call item; the half arguments stay in the trace as interrupted."""
    turn = begun(log)
    turn.draft('{"path":"/tm', target="c1", kind="args").result()
    after = cut(store, log, turn, how)
    assert items(after) == []
    (step,) = [event.body for event in events(after) if isinstance(event.body, Step)]
    assert (step.args, step.status) == ('{"path":"/tm', "interrupted")
    history = given(after)
    check_valid(history)
    assert "/tm" not in repr(history)


def test_cut_between_call_and_result(store: Store, log: Log, how: str) -> None:
    """C28 d, C26: cut between call and result, the log is as it was, and the next agent is told of an open end."""
    turn = begun(log)
    for raw in (call("c1"), call("c2"), call("c3"), output("c1"), output("c3")):
        turn.item(raw).result()
    stored = [item.raw for item in items(log)]
    after = cut(store, log, turn, how)
    assert [item.raw for item in items(after)] == stored
    history = given(after)
    check_valid(history)
    assert given(after)[: len(history)] == history
    outputs = [item["call_id"] for item in history if item["type"] == "function_call_output"]
    assert sorted(outputs) == ["c1", "c2", "c3"]


def test_a_result_without_its_call_is_left_out(store: Store, log: Log, how: str) -> None:
    """C27: an output whose call never reached the log is not given to the next agent, and stays in the log."""
    turn = begun(log)
    turn.item(output("gone")).result()
    turn.item(message("text")).result()
    after = cut(store, log, turn, how)
    assert len(items(after)) == 2
    history = given(after)
    check_valid(history)
    assert "gone" not in repr(history)


# --- death between any two writes ------------------------------------------------------------------------------------


def calls(turn: Turn) -> None:
    for raw in (reasoning("why"), call("c1"), call("c2"), call("c3"), output("c1"), output("c3"), output("c2")):
        turn.item(raw).result()
    turn.item(message("done")).result()


def halves(turn: Turn) -> None:
    turn.draft("think", kind="reasoning").result()
    turn.item(reasoning("thought")).result()
    turn.draft("Hel").result()
    turn.draft('{"path":"/tm', target="c1", kind="args").result()
    turn.item(call("c1")).result()
    turn.item(output("c1")).result()
    turn.draft("Bye").result()


def attempts(turn: Turn) -> None:
    turn.item(reasoning("first")).result()
    turn.draft("lost").result()
    turn.drop_attempt("stream lost").result()
    turn.item(reasoning("second")).result()
    turn.item(call("c1")).result()
    turn.item(output("c1")).result()
    turn.item(message("done")).result()


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
@pytest.mark.parametrize("script", [calls, halves, attempts])
def test_dead_at_any_write(store: Store, place: str, script: Callable[[Turn], None]) -> None:
    """C26, C27, C28: dead before or after each write of a turn, the follow-up is valid for every endpoint, and nothing
    of what was stored is missing from the history without being reported."""
    for k in count(1):
        log, thread = store.open(), f"t{k}"
        turn = log.submit(thread, "question").result()
        trap = store.faults(log).fail(place, unavailable, k=k, forever=True)
        with suppress(StoreError):
            turn.start().result()
            script(turn)
            turn.complete().result()
        store.kill(log)
        after = store.open()
        after.recover()
        with after.turn(thread, "follow-up"):
            pass
        found = after.history(thread)
        assert faults(found.items) == []
        assert portable_faults(after.history(thread, "portable").items) == []
        stored = {event.seq: event.body.raw for event in after.events(thread) if isinstance(event.body, Item)}
        reported = {omitted.seq for omitted in found.omitted}
        assert [seq for seq, raw in stored.items() if raw not in found.items and seq not in reported] == []
        store.kill(after)
        if not trap.fired:
            break
    assert k > 5


def test_reasoning_of_a_dropped_attempt_is_given_to_nobody(store: Store, log: Log) -> None:
    """Reasoning of an attempt that was given up leads to nothing, whatever the next attempt of the same turn brings."""
    turn = begun(log)
    attempts(turn)
    turn.complete().result()
    given_texts = repr(given(log))
    assert "first" not in given_texts
    assert "second" in given_texts


# --- read from the newest turns back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["raw", "responses", "portable"])
def test_a_limit_gives_the_same_as_the_whole(log: Log, profile: Any) -> None:
    """P11: a history with a limit is the end of the whole one, on every engine, up to any turn."""
    turns = []
    for number in range(12):
        with log.turn("t", f"q{number}") as turn:
            turns.append(turn.id)
            if number % 3 == 0:
                turn.item(call(f"c{number}")).result()
                turn.item(output(f"c{number}")).result()
            turn.item(message(f"a{number}")).result()
    for until in (None, turns[5], turns[0]):
        whole = log.history("t", profile, until=until).items
        for limit in (1, 2, 5, 100):
            part = log.history("t", profile, until=until, limit=limit).items
            assert part == whole[len(whole) - len(part) :]
            assert len(part) >= min(limit, len(whole))


def test_the_history_follows_what_happened_to_the_thread(log: Log) -> None:
    """C12, P11: undone, edited and summed up, the next agent is given what is left, the same with any limit; a fork is
    given what its source was."""
    turns = []
    for number in range(6):
        with log.turn("t", f"q{number}") as turn:
            turn.item(message(f"a{number}")).result()
        turns.append(turn.id)
    log.truncate("t", turns[4]).result()
    log.compact("t", "They counted.", until=turns[2]).result()
    with log.turn("t", "good") as turn:
        turn.item(message("hm")).result()
    with log.turn("t", "better", edit_of=turn.id) as turn:
        turn.item(message("ok")).result()
    whole = log.history("t").items
    said = [msgspec.json.decode(raw)["content"][0]["text"] for raw in whole]
    assert said[1:] == ["q3", "a3", "better", "ok"]
    for limit in range(1, 8):
        assert log.history("t", limit=limit).items == whole[-limit:]
    assert [msgspec.json.decode(raw)["content"][0]["text"] for raw in log.history("t", until=turn.id).items] == said[
        :-2
    ]
    log.fork("t", "copy").result()
    assert log.history("copy").items == whole


def test_a_limit_reads_only_the_newest_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: what is read for a history with a limit does not grow with the thread."""
    engine = store.engine()
    log = store.open(engine=engine)
    for number in range(60):
        with log.turn("t", f"q{number}") as turn:
            turn.item(message(f"a{number}")).result()
    read: list[int] = []
    plain = engine.read

    def counted(*args: Any, **kwargs: Any) -> Any:
        page = plain(*args, **kwargs)
        read.extend(row.seq for row in page.rows)
        return page

    monkeypatch.setattr(engine, "read", counted)
    assert len(log.history("t", limit=4).items) == 4
    assert len(read) < 40


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
def test_a_limit_that_is_none_is_refused(log: Log, limit: Any) -> None:
    """A limit is a number of groups, at least one."""
    begun(log)
    with pytest.raises(InvalidInput, match="limit"):
        log.history("t", limit=limit)
