"""Submitting: accepted once, refused typed, and nothing stored of what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.journal.stores import Store, events, kinds, together
from turnlog.errors import Busy, DuplicateTurn, IllegalTransition, InvalidInput, KeyConflict, NotJson, TooLarge
from turnlog.events.codec import content_digest
from turnlog.events.ids import CountedIds
from turnlog.events.kinds import Attachment, Submitted
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX, SUBMISSION_BYTES_MAX, THREAD_ID_BYTES_MAX, TURN_ID_BYTES_MAX
from turnlog.testing.traps import Place


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return [{"type": "input_text", "text": "x", "extra": value}]


def test_accepted_means_readable_elsewhere(store: Store, log: Log) -> None:
    """P1: when the receipt is there, another process finds the thread, the turn and the words as they were given."""
    turn = log.submit("t", "hello\u2028\x00", model="m", workspace="/w", stream_id="s").result()
    other = store.open()
    created, submitted = events(other)
    assert (created.kind, submitted.turn) == ("thread_created", turn.id)
    assert isinstance(submitted.body, Submitted)
    assert (submitted.body.content, submitted.body.model, submitted.body.stream_id) == ("hello\u2028\x00", "m", "s")
    assert (turn.duplicate, turn.state) == (False, "submitted")


def test_the_same_key_gives_the_same_turn(store: Store, log: Log) -> None:
    """P6: the same key and content is the same turn while it waits, while it runs and when it has settled, anywhere."""
    turn = log.submit("t", "hello", key="k").result()
    other = store.open()

    def again() -> None:
        for place in (log, other):
            same = place.submit("t", "hello", key="k", model="another").result()
            assert (same.id, same.duplicate, same.state) == (turn.id, True, turn.state)

    again()
    turn.start().result()
    again()
    turn.complete().result()
    again()
    assert kinds(log) == ["thread_created", "submitted", "worker_started", "completed"]


def test_the_same_key_after_a_restart(store: Store, log: Log) -> None:
    """P6: the same key is the same turn after the store was closed, and in another thread it is another turn."""
    turn = log.submit("t", "hello", key="k").result()
    store.kill(log)
    again = store.open()
    assert again.submit("t", "hello", key="k").result().id == turn.id
    assert not again.submit("u", "hello", key="k").result().duplicate


def test_another_content_under_a_known_key_is_refused(log: Log) -> None:
    """C04, P6: the same key with other content raises a conflict with both digests, and the first is untouched."""
    turn = log.submit("t", "pay 10", key="k").result()
    before = events(log)
    with pytest.raises(KeyConflict) as caught:
        log.submit("t", "pay 1000", key="k").result()
    assert caught.value.facts == {
        "thread": "t",
        "turn": turn.id,
        "key": "k",
        "stored_digest": content_digest("pay 10", []),
        "given_digest": content_digest("pay 1000", []),
    }
    with pytest.raises(KeyConflict):
        log.submit("t", "pay 10", key="k", attachments=[Attachment(name="bill", sha256="0" * 64)]).result()
    assert events(log) == before


def test_a_given_turn_id_is_the_turns_id(store: Store, log: Log) -> None:
    """P6: a turn id given by the application is kept, names the submission like a key, and conflicts like one."""
    assert log.submit("t", "hello", turn="mine/../1").result().id == "mine/../1"
    again = store.open().submit("t", "hello", turn="mine/../1").result()
    assert (again.id, again.duplicate) == ("mine/../1", True)
    with pytest.raises(KeyConflict) as caught:
        log.submit("t", "other", turn="mine/../1").result()
    assert caught.value.turn == "mine/../1"


def test_one_open_turn_a_thread(store: Store, log: Log) -> None:
    """A second submission while a turn of the thread is open raises `Busy` with that turn, from any process."""
    turn = log.submit("t", "one").result()
    other = store.open()
    for place in (log, other):
        with pytest.raises(Busy) as caught:
            place.submit("t", "two").result()
        assert caught.value.running == turn.id
    turn.start().result()
    turn.complete().result()
    two = other.submit("t", "two").result()
    with pytest.raises(Busy):
        log.submit("t", "three").result()
    two.interrupt("cancelled").result()
    assert not log.submit("t", "three").result().duplicate


def _submit(logs: list[Log], thread: str, number: int) -> Turn:
    return logs[number].submit(thread, "hello", key="k").result()


def test_a_lost_answer_starts_nothing_twice(store: Store) -> None:
    """C03, C04: the same submission from three processes at one instant is one turn with one start."""
    logs = [store.open() for _ in range(3)]
    for attempt in range(5):
        thread = f"t{attempt}"
        results = together(3, partial(_submit, logs, thread))
        turns = [turn for turn in results if isinstance(turn, Turn)]
        assert len(turns) == 3, results
        assert len({turn.id for turn in turns}) == 1
        assert sorted(turn.duplicate for turn in turns) == [False, True, True]
        for turn in turns:
            if not turn.duplicate:
                turn.start().result()
        assert kinds(logs[0], thread) == ["thread_created", "submitted", "worker_started"]


def test_a_duplicate_cannot_start_a_second_time(log: Log) -> None:
    """C03: who got the turn as a duplicate and starts it all the same is refused, so that there is one start."""
    log.submit("t", "hello", key="k").result().start().result()
    same = log.submit("t", "hello", key="k").result()
    with pytest.raises(IllegalTransition):
        same.start().result()
    with pytest.raises(DuplicateTurn) as caught:
        same.refuse_duplicate()
    assert caught.value.state == "worker_started"


def test_identical_texts_without_keys_are_two_turns(log: Log) -> None:
    """C05: two genuinely identical messages both survive, for identity is a key or an id, never a text."""
    ids = []
    for _ in range(2):
        with log.turn("t", "thanks") as turn:
            ids.append(turn.id)
    assert [event.turn for event in events(log) if event.kind == "submitted"] == ids
    assert len(set(ids)) == 2


BAD: dict[str, tuple[type[Exception], Callable[[Log], Any]]] = {
    "no thread": (InvalidInput, lambda log: log.submit("", "x")),
    "a thread that is no text": (InvalidInput, lambda log: log.submit(7, "x")),  # type: ignore[arg-type]
    "a long thread": (TooLarge, lambda log: log.submit("x" * (THREAD_ID_BYTES_MAX + 1), "x")),
    "a thread that is long in bytes": (TooLarge, lambda log: log.submit("é" * (THREAD_ID_BYTES_MAX // 2 + 1), "x")),
    "no turn": (InvalidInput, lambda log: log.submit("t", "x", turn="")),
    "a long turn": (TooLarge, lambda log: log.submit("t", "x", turn="x" * (TURN_ID_BYTES_MAX + 1))),
    "no key": (InvalidInput, lambda log: log.submit("t", "x", key="")),
    "a long key": (TooLarge, lambda log: log.submit("t", "x", key="x" * (TURN_ID_BYTES_MAX + 1))),
    "no content": (InvalidInput, lambda log: log.submit("t", None)),  # type: ignore[arg-type]
    "no parts": (InvalidInput, lambda log: log.submit("t", [])),
    "parts that are none": (InvalidInput, lambda log: log.submit("t", ["x"])),
    "bytes": (InvalidInput, lambda log: log.submit("t", b"x")),  # type: ignore[arg-type]
    "nothing said": (InvalidInput, lambda log: log.submit("t", "")),
    "only white space": (InvalidInput, lambda log: log.submit("t", " \t\r\n\u2003\u3000")),
    "a file of no size": (InvalidInput, lambda log: log.submit("t", "x", attachments=[{"name": "f", "bytes": -1}])),
    "a file of any size": (InvalidInput, lambda log: log.submit("t", "x", attachments=[{"name": "f", "bytes": 2**63}])),
    "NaN": (NotJson, lambda log: log.submit("t", [{"n": math.nan}])),
    "Infinity": (NotJson, lambda log: log.submit("t", [{"n": -math.inf}])),
    "a key that is no text": (NotJson, lambda log: log.submit("t", [{1: 2}])),
    "a set": (NotJson, lambda log: log.submit("t", [{"n": {1}}])),
    "deep": (TooLarge, lambda log: log.submit("t", deep(JSON_DEPTH_MAX))),
    "very deep": (TooLarge, lambda log: log.submit("t", deep(5_000))),
    "large": (TooLarge, lambda log: log.submit("t", "x" * SUBMISSION_BYTES_MAX)),
    "large once escaped": (TooLarge, lambda log: log.submit("t", "\x00" * (BODY_BYTES_MAX // 6))),
    "an attachment that is none": (InvalidInput, lambda log: log.submit("t", "x", attachments=[{"nome": "x"}])),
    "attachments that are none": (InvalidInput, lambda log: log.submit("t", "x", attachments=[7])),  # type: ignore[list-item]
    "a large attachment": (TooLarge, lambda log: log.submit("t", "x", attachments=[{"name": "x" * BODY_BYTES_MAX}])),
    "a message that is no JSON": (NotJson, lambda log: log.append_message("t", b"{")),
    "a large message": (TooLarge, lambda log: log.append_message("t", b"{" + b" " * BODY_BYTES_MAX + b"}")),
    "a request of nothing": (InvalidInput, lambda log: log.request("t", "x", "pause")),  # type: ignore[arg-type]
    "a decision about nothing": (InvalidInput, lambda log: log.request("t", "x", "decide")),
    "a model that is no text": (InvalidInput, lambda log: log.submit("t", "x", model=5)),  # type: ignore[arg-type]
    "a path for a workspace": (InvalidInput, lambda log: log.submit("t", "x", workspace=Path())),  # type: ignore[arg-type]
    "an asker that is no text": (InvalidInput, lambda log: log.request("t", "x", by=5)),  # type: ignore[arg-type]
    "a decision without a name": (InvalidInput, lambda log: log.request("t", "x", "decide", approval="")),
    "a large decision": (
        TooLarge,
        lambda log: log.request("t", "x", "decide", approval="a", value="x" * BODY_BYTES_MAX),
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_raises_at_once_and_stores_nothing(log: Log, what: str) -> None:
    """C21, P4: invalid input of every kind is refused typed, by the call itself, and no thread is made by it."""
    error, action = BAD[what]
    with pytest.raises(error):
        action(log)
    log.submit("sentinel", "x").result()
    assert [row.thread for row in log.threads().rows] == ["sentinel"]


@pytest.mark.parametrize("size", [SUBMISSION_BYTES_MAX, BODY_BYTES_MAX, 2 * BODY_BYTES_MAX])
@pytest.mark.parametrize("field", ["content", "attachments", "workspace"])
def test_what_is_too_large_is_named(log: Log, size: int, field: str) -> None:
    """P4: however large a submission is, it is refused by the one limit of submissions, and the field that makes it so
    is named as the caller knows it."""
    large: dict[str, Any] = {
        "content": "x" * size,
        "attachments": [{"name": "x" * size}],
        "workspace": "x" * size,
    }
    with pytest.raises(TooLarge) as refused:
        log.submit("t", **{"content": "x", field: large[field]})
    error = refused.value
    assert (error.field, error.limit, error.limit_value) == (field, "SUBMISSION_BYTES_MAX", SUBMISSION_BYTES_MAX)
    assert error.given is not None
    assert error.given > size


@pytest.mark.parametrize(
    ("field", "asked"), [("value", {"what": "decide", "approval": "a", "value": "x" * BODY_BYTES_MAX}), ("by", {})]
)
def test_what_makes_a_request_too_large_is_named(log: Log, field: str, asked: dict[str, Any]) -> None:
    """P4: of a request that is too large, the field that makes it so is named as the caller knows it."""
    with pytest.raises(TooLarge) as refused:
        log.request("t", "x", **{"by": "x" * BODY_BYTES_MAX if field == "by" else None, **asked})
    assert refused.value.field == field


def test_what_is_just_small_enough_is_kept(log: Log) -> None:
    """P4: ids and contents of exactly the allowed size are accepted and come back whole."""
    thread, turn = "é" * (THREAD_ID_BYTES_MAX // 2), "x" * TURN_ID_BYTES_MAX
    content = deep(JSON_DEPTH_MAX - 3)
    log.submit(thread, content, turn=turn, key="k" * TURN_ID_BYTES_MAX).result()
    (submitted,) = [event.body for event in log.events(thread, turn=turn)]
    assert isinstance(submitted, Submitted)
    assert submitted.content == content
    big = "x" * (SUBMISSION_BYTES_MAX - 100)
    log.submit("big", big).result()
    assert any(isinstance(event.body, Submitted) and event.body.content == big for event in log.events("big"))


@pytest.mark.parametrize(
    "pair", [("a:b", "a-b"), ("A", "a"), ("é", "e\u0301"), ("a", "a "), ("..", "../x"), ("\ud83d", "?")]
)
def test_threads_are_never_merged(log: Log, pair: tuple[str, str]) -> None:
    """C33, C34: threads whose ids differ in anything are two threads, listed by the ids they were given."""
    for thread in pair:
        log.submit(thread, thread).result()
    assert sorted(row.thread for row in log.threads().rows) == sorted(pair)
    assert all(len(kinds(log, thread)) == 2 for thread in pair)


def test_ids_are_given_by_the_source(store: Store) -> None:
    """Turn ids that nobody gave are dated, and come from the source of ids that the log was opened with."""
    log = store.open(ids=CountedIds())
    turn = log.submit("t", "x").result()
    assert turn.id.endswith("Z-000000000002")
    assert turn.id[8] == "T"


def test_a_turn_that_comes_while_it_is_looked_is_in_the_way(store: Store) -> None:
    """P5: a turn that another process submits between two readings of a thread makes a submission `Busy` too."""
    log, other = store.open(), store.open()
    first = other.submit("t", "one").result()
    with pytest.raises(Busy):
        log.submit("t", "two").result()
    first.interrupt("cancelled").result()

    def third(_: Place) -> None:
        other.submit("t", "three", turn="third").result()

    store.faults(log).traps.set("turns.before", third)
    with pytest.raises(Busy) as busy:
        log.submit("t", "four").result()
    assert busy.value.running == "third"
