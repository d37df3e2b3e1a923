"""After a turn that was cut short: what is kept of it, and that the next turn is given something valid."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.journal.stores import Store, call, events, items, message, output, texts
from turnlog.events.kinds import Step
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
