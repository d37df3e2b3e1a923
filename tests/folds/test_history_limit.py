"""A history with a limit: whole groups from the newest back, and what was left out is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.folds.histories import Log, marks
from turnlog.folds.history import Window, history, recent_history

PROFILES = pytest.mark.parametrize("profile", ["raw", "responses", "portable"])


def groups(log: Log, profile: Any = "responses") -> list[list[int]]:
    """The marks of each group, found by asking for one more each time."""
    found: list[list[int]] = []
    before = 0
    for limit in range(1, log.head + 1):
        given = marks(history(log.events, profile, limit=limit).items)
        if len(given) == before:
            break
        found.insert(0, given[: len(given) - before])
        before = len(given)
    return found


@PROFILES
def test_a_pair_is_never_cut(profile: Any) -> None:
    """C27: calls that were made together and all their outputs are one group; a message is one alone."""
    log = Log()
    turn = log.submit()
    run = [log.call(turn, "c1"), log.call(turn, "c2"), log.output(turn, "c2"), log.output(turn, "c1")]
    alone = [log.call(turn, "c3"), log.output(turn, "c3")]
    said = [log.message(turn), log.message(turn)]
    assert groups(log, profile) == [[1], run, alone, [said[0]], [said[1]]]


def test_what_stands_between_a_call_and_its_output_is_not_cut() -> None:
    """C27: an output that came after other things holds all of it together, also when it came in the next turn."""
    log = Log()
    first = log.submit()
    log.call(first, "c1")
    second = log.submit()
    log.output(second, "c1")
    last = log.message(second)
    assert groups(log) == [[1], [2, 3, 4], [last]]


def test_reasoning_stays_with_what_it_led_to() -> None:
    """Several reasoning items and all that the model made right after them are one group, with the calls' outputs."""
    log = Log()
    turn = log.submit()
    step = [log.reasoning(turn), log.reasoning(turn), log.message(turn), log.call(turn, "c1"), log.output(turn, "c1")]
    answer = [log.reasoning(turn), log.message(turn)]
    assert groups(log) == [[1], step, answer]


def test_an_added_output_stays_with_its_call() -> None:
    """C26: a call that was answered by nobody and the output that says so are one group."""
    log = Log()
    turn = log.submit()
    log.call(turn, "c1")
    log.submit()
    found = history(log.events, limit=2)
    assert (marks(found.items), [added.at for added in found.added]) == ([2, 0, 3], [1])


def test_a_summary_is_a_group() -> None:
    """A summary counts as one group, the oldest."""
    log = Log()
    log.compact(log.turns[log.submit()])
    log.submit()
    assert [len(history(log.events, limit=limit).items) for limit in (1, 2, 3)] == [1, 2, 2]


@PROFILES
def test_what_a_limit_leaves_out_is_told_in_ranges(profile: Any) -> None:
    """P4: all that was begun before is one range, and what came earlier in the turn that is cut is another."""
    log = Log()
    for _ in range(50):
        log.message(log.submit())
    turn = log.submit()
    log.message(turn)
    log.message(turn)
    found = history(log.events, profile, limit=1)
    assert [(it.seq, it.until, it.why) for it in found.omitted] == [
        (1, 100, "limit"),
        (101, 102, "limit, earlier in its turn"),
    ]


def test_what_was_left_out_before_it_has_no_words_of_its_own() -> None:
    """The report of a limited history is as long as what it gives: what was amiss before lies in the range."""
    log = Log()
    for _ in range(20):
        log.output(log.submit(), "orphan")
    amiss = log.output(log.submit(), "orphan")
    log.message(None)
    found = history(log.events, limit=2)
    assert [(it.seq, it.why) for it in found.omitted] == [(1, "limit"), (amiss, "output without its call")]


# --- read from the newest turns back ---------------------------------------------------------------------------------


def recent(log: Log, turn: str, limit: int) -> Any:
    """What the events from one submission on tell."""
    since = log.turns[turn]
    turns = {name for name, seq in log.turns.items() if seq >= since}
    return recent_history(log.events[since - 1 :], Window(since, turns), "responses", None, limit)


def test_an_output_whose_call_was_not_read_asks_for_more() -> None:
    """P11, C27: an output may have its call further back, so who read too little says so instead of leaving it out."""
    log = Log()
    log.call(log.submit(), "c1")
    second = log.submit()
    log.message(second)
    log.output(second, "c1")
    log.message(second)
    assert recent(log, second, 1) is not None
    assert recent(log, second, 2) is None


def test_something_late_of_a_turn_not_read_asks_for_more() -> None:
    """P4: something late may be of a turn that gave way to the limit, or of one that is given."""
    log = Log()
    first = log.submit()
    second = log.submit()
    log.late(first)
    log.message(second)
    assert recent(log, second, 1) is None


def test_a_summary_of_all_before_is_enough() -> None:
    """P11: when a summary stands for everything before what was read, no more is read, however large the limit."""
    log = Log()
    log.message(log.submit())
    second = log.submit()
    log.compact(log.turns[second] - 1)
    assert recent(log, second, 100) == history(log.events, limit=100)
