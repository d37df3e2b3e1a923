"""The history follows what happened to a thread as a whole: truncations, summaries, forks, repairs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.folds.histories import Log, marks
from turnlog.events.body import DroppedText
from turnlog.events.kinds import ThreadCreated
from turnlog.events.thread_kinds import ThreadForked, ThreadRepaired
from turnlog.folds.history import SUMMARY_PREFIX, History, history

PROFILES = pytest.mark.parametrize("profile", ["raw", "responses", "portable"])
MADE = pytest.mark.parametrize("profile", ["responses", "portable"])


def talk(*texts: str) -> tuple[Log, list[str]]:
    """A thread of answered questions, and its turns."""
    log, turns = Log(), []
    log.add(ThreadCreated())
    for text in texts:
        turns.append(log.submit(text))
        log.message(turns[-1], f"{text}!")
    return log, turns


def said(found: History) -> list[str]:
    return [json.loads(raw)["content"][0]["text"] for raw in found.items]


def told(found: History) -> list[tuple[int, int | None, str]]:
    return [(omitted.seq, omitted.until, omitted.why) for omitted in found.omitted]


@PROFILES
def test_a_truncation_hides_what_was_begun_behind_it(profile: Any) -> None:
    """C12: what was undone is given to nobody and reported as one range; what comes after it is given."""
    log, turns = talk("one", "two", "three")
    seq = log.truncate(turns[1])
    log.submit("four")
    found = history(log.events, profile)
    assert said(found) == ["one", "one!", "four"]
    assert told(found) == [(log.turns[turns[1]], seq - 1, "truncated")]


@PROFILES
def test_a_turn_begun_before_stays_whole(profile: Any) -> None:
    """What hides a waiting message leaves the turn before it whole, also what that turn says afterwards."""
    log, (first,) = talk("one")
    waiting = log.submit("two")
    log.truncate(waiting)
    log.message(first, "more")
    assert said(history(log.events, profile)) == ["one", "one!", "more"]


@PROFILES
def test_messages_of_no_turn_are_hidden_by_their_own_place(profile: Any) -> None:
    """A message without a turn is begun where it stands: one of two neighbours may be hidden alone."""
    log, turns = talk("one", "two")
    log.truncate(turns[1])
    kept = log.message(None, "kept")
    again = log.submit("three")
    log.message(None, "hidden")
    log.truncate(again)
    assert marks(history(log.events, profile).items)[-1] == kept


@PROFILES
def test_an_edit_stands_for_what_it_edits(profile: Any) -> None:
    """An edited message stands in the place of the old one and of all that followed."""
    log, turns = talk("one", "two", "three")
    log.truncate(turns[1], "edit")
    log.submit("two, better", edit_of=turns[1])
    assert said(history(log.events, profile)) == ["one", "one!", "two, better"]


@PROFILES
def test_a_hidden_retry_asks_nothing_again(profile: Any) -> None:
    """An attempt whose retry was undone is asked by nobody else, so it stays."""
    log, _ = talk("one")
    failed = log.submit("two")
    log.truncate(log.submit("two", retry_of=failed))
    assert said(history(log.events, profile)) == ["one", "one!", "two"]


@MADE
def test_a_retry_is_given_no_attempt_that_brought_nothing(profile: Any) -> None:
    """The turn that asks again is given the question once: by itself, and not by the attempt that brought nothing."""
    log, _ = talk("one")
    failed = log.submit("two")
    again = log.submit("two", retry_of=failed)
    found = history(log.events, profile, again)
    assert said(found) == ["one", "one!"]
    assert told(found) == [(log.turns[failed], None, "retried, and had brought nothing")]


@MADE
def test_a_summary_stands_for_what_it_tells_of(profile: Any) -> None:
    """A hundred thousand events that gave way to a summary are one range and one item, and both are told (P4)."""
    log, turns = talk(*(f"q{number}" for number in range(100)))
    until = log.turns[turns[98]] + 1
    log.compact(until, "They counted.")
    found = history(log.events, profile)
    assert said(found) == [SUMMARY_PREFIX + "They counted.", "q99", "q99!"]
    assert (json.loads(found.items[0])["role"], found.added[0].at, found.added[0].why) == ("user", 0, "compacted")
    assert told(found) == [(1, until, "compacted")]
    assert len(history(log.events, "raw").items) == 200


@MADE
def test_a_summary_made_in_what_was_undone_holds_no_longer(profile: Any) -> None:
    """A summary behind a truncation's `after` is gone with the rest; the one before it holds again."""
    log, turns = talk("one", "two", "three")
    log.compact(log.turns[turns[0]] + 1, "first")
    fourth = log.submit("four")
    log.compact(log.turns[turns[1]] + 1, "second")
    assert said(history(log.events, profile)) == [SUMMARY_PREFIX + "second", "three", "three!", "four"]
    log.truncate(fourth)
    assert said(history(log.events, profile)) == [SUMMARY_PREFIX + "first", "two", "two!", "three", "three!"]


@MADE
def test_a_summary_gives_no_turn_in_part(profile: Any) -> None:
    """What was begun up to `until` is told by the summary with all that came of it later; what it left out is not
    reported twice."""
    log, (first,) = talk("one")
    log.output(first, "orphan")
    second = log.submit("two")
    log.compact(log.turns[first])
    log.message(first, "afterwards")
    log.message(second, "two!")
    found = history(log.events, profile)
    assert said(found)[1:] == ["two", "two!"]
    assert told(found) == [(1, log.turns[first], "compacted")]


@MADE
def test_a_summary_is_not_given_before_it_was_made(profile: Any) -> None:
    """Up to a turn, only what happened before its submission counts: later summaries and truncations do not."""
    log, turns = talk("one", "two", "three")
    log.compact(log.turns[turns[0]] + 1)
    log.truncate(turns[1])
    assert said(history(log.events, profile, turns[2])) == ["one", "one!", "two", "two!"]


@PROFILES
def test_a_fork_and_a_repair_change_nothing(profile: Any) -> None:
    """A history is the same behind a fork, and text of drafts that a repair carries is in none of it."""
    log, _ = talk("one", "two")
    before = history(log.events, profile)
    log.add(ThreadForked(of="other", epoch="e", seq=log.head))
    log.add(ThreadRepaired(finding="draft_left", dropped=[DroppedText(draft="0/~0/text/0", text="left behind")]))
    assert history(log.events, profile) == before
