"""The history of random threads: valid by rules that share no code with it, whole, honest and stable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.histories import Log, logs, marks
from tests.folds.responses_rules import faults, portable_faults
from turnlog.events.kinds import Event, Item, Submitted, ThreadItem, ThreadLate
from turnlog.events.thread_kinds import ThreadCompacted, ThreadTruncated
from turnlog.folds.history import History, Window, history, recent_history

PROFILES = pytest.mark.parametrize("profile", ["raw", "responses", "portable"])
MADE = pytest.mark.parametrize("profile", ["responses", "portable"])


def fed_back(items: Sequence[bytes], profile: Any) -> History:
    """The history of a thread that consists of `items`."""
    log = Log()
    for raw in items:
        item = json.loads(raw)
        log.item(None, item.get("type", ""), raw=raw, **{name: item.get(name) for name in ("id", "call_id")})
    return history(log.events, profile)


@given(logs(), st.one_of(st.none(), st.integers(1, 6)))
def test_an_endpoint_takes_it(log: Log, limit: int | None) -> None:
    """C26, C27, C28, C19: whatever happened to a thread, with or without a limit, an endpoint's rules have no fault."""
    assert faults(history(log.events, "responses", limit=limit).items) == []
    assert portable_faults(history(log.events, "portable", limit=limit).items) == []


@MADE
@given(log=logs(), limit=st.one_of(st.none(), st.integers(1, 6)))
def test_it_is_stable(profile: Any, log: Log, limit: int | None) -> None:
    """C26: made twice it is the same, and of its own items nothing is added, left out or changed."""
    found = history(log.events, profile, limit=limit)
    assert history(log.events, profile, limit=limit) == found
    assert fed_back(found.items, profile) == History(items=found.items)


def stored_items(log: Log) -> dict[int, Event]:
    """Events that carry an item of their own; a submission that the agent gave in its form counts as that."""
    found = {it.seq: it for it in log.events if isinstance(it.body, Submitted | Item | ThreadItem | ThreadLate)}
    for event in list(found.values()):
        if isinstance(event.body, Item) and event.body.purpose == "submission" and event.turn is not None:
            found.pop(log.turns[event.turn], None)
    return found


def begun(log: Log, event: Event) -> int:
    turn = event.body.of if isinstance(event.body, ThreadLate) else event.turn
    return event.seq if turn is None else log.turns[turn]


@PROFILES
@given(log=logs(), limit=st.one_of(st.none(), st.integers(1, 6)))
def test_everything_is_given_or_reported(profile: Any, log: Log, limit: int | None) -> None:
    """P4: each stored item is given once or reported, by its seq or in a range of what was begun there."""
    found = history(log.events, profile, limit=limit)
    given_marks = [mark for mark in marks(found.items) if mark]
    assert len(set(given_marks)) == len(given_marks)
    single = {omitted.seq for omitted in found.omitted if omitted.until is None}
    ranges = [(omitted.seq, omitted.until, omitted.why) for omitted in found.omitted if omitted.until is not None]
    for seq, event in stored_items(log).items():
        told = seq in single or any(
            first <= (seq if "in its turn" in why else begun(log, event)) <= last for first, last, why in ranges
        )
        assert told or seq in given_marks or b"mark" not in getattr(event.body, "raw", b"mark"), seq


@PROFILES
@given(log=logs())
def test_what_is_hidden_is_given_to_nobody(profile: Any, log: Log) -> None:
    """C12: nothing that was begun behind a truncation's `after`, before that truncation, is in any profile."""
    shown = set(marks(history(log.events, profile).items))
    by_seq = {event.seq: event for event in log.events}
    holding: list[tuple[int, int]] = []
    for event in reversed(log.events):
        if isinstance(event.body, ThreadTruncated) and not any(a < event.seq < b for a, b in holding):
            holding.append((event.body.after, event.seq))
    for mark in shown - {0}:
        place = begun(log, by_seq[mark])
        assert not [pair for pair in holding if pair[0] < place < pair[1]]


@MADE
@given(log=logs())
def test_the_newest_summary_that_holds_stands_first(profile: Any, log: Log) -> None:
    """A summary gives way to a truncation behind which it was made, and to a newer one; what it tells of is not given,
    and both are reported."""
    found = history(log.events, profile)
    holding: list[tuple[int, int]] = []
    summary: Event | None = None
    for event in reversed(log.events):
        if any(after < event.seq < seq for after, seq in holding):
            continue
        if isinstance(event.body, ThreadTruncated):
            holding.append((event.body.after, event.seq))
        elif isinstance(event.body, ThreadCompacted) and summary is None:
            summary = event
    told = [added for added in found.added if added.why == "compacted"]
    if summary is None or not isinstance(summary.body, ThreadCompacted):
        assert told == []
        return
    assert [added.at for added in told] == [0]
    until = min(summary.body.until, summary.seq - 1)
    assert [(it.seq, it.until) for it in found.omitted if it.why == "compacted"] == [(1, until)]
    by_seq = {event.seq: event for event in log.events}
    assert all(begun(log, by_seq[mark]) > until for mark in marks(found.items) if mark)


@PROFILES
@given(log=logs(), limit=st.integers(1, 8))
def test_a_limit_gives_the_end(profile: Any, log: Log, limit: int) -> None:
    """What a limit gives is the end of what the profile gives, with what was added there, and nothing else."""
    whole, part = history(log.events, profile), history(log.events, profile, limit=limit)
    at = len(whole.items) - len(part.items)
    assert part.items == whole.items[at:]
    assert [(it.at + at, it.why) for it in part.added] == [(it.at, it.why) for it in whole.added if it.at >= at]
    assert [it + at for it in part.changed] == [it for it in whole.changed if it >= at]
    assert history(log.events, profile, limit=limit + 1).items[-len(part.items) :] == part.items[: len(whole.items)]
    if at:
        assert any(omitted.why.startswith("limit") for omitted in part.omitted)
        assert len(part.omitted) <= 2 + len(log.events)
    else:
        assert part == whole


@PROFILES
@given(log=logs(), limit=st.integers(1, 5), data=st.data())
def test_the_newest_turns_tell_it_or_say_that_they_do_not(
    profile: Any, log: Log, limit: int, data: st.DataObject
) -> None:
    """P11: read from any submission on, a limited history is that of the whole thread, or asks for more."""
    until = data.draw(st.sampled_from([None, *log.turns]))
    whole = history(log.events, profile, until, limit)
    end = log.head + 1 if until is None else log.turns[until]
    for since in [seq for seq in log.turns.values() if seq < end]:
        turns = {turn for turn, seq in log.turns.items() if since <= seq < end}
        found = recent_history(log.events[since - 1 :], Window(since, turns), profile, until, limit)
        assert found is None or found == whole
