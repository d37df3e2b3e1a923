"""What is done to a thread as a whole: renamed, pinned, truncated, edited, compacted; all of it events."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.journal.stores import Store, events, kinds, message, together, unavailable
from turnlog.engines.protocol import Outcome, Write
from turnlog.errors import (
    Busy,
    InvalidInput,
    NotRetryable,
    StoreError,
    TooLarge,
    TurnHidden,
    UnknownThread,
    UnknownTurn,
)
from turnlog.events.kinds import Submitted
from turnlog.events.thread_kinds import ThreadCompacted, ThreadTruncated
from turnlog.journal import truncating
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import TITLE_GIVEN_CHARS_MAX
from turnlog.testing.writes import commit


def answered(log: Log, text: str, thread: str = "t", **given: Any) -> str:
    turn = log.submit(thread, text, **given).result()
    turn.start().result()
    turn.item(message(f"To {text}")).result()
    turn.complete().result()
    return turn.id


def interrupted(log: Log, text: str, thread: str = "t") -> str:
    turn = log.submit(thread, text).result()
    turn.start().result()
    turn.interrupt("failed").result()
    return turn.id


def again(log: Log, turn: str) -> str:
    child = log.retry("t", turn).result()
    child.start().result()
    child.interrupt("failed").result()
    return child.id


def shown(log: Log, thread: str = "t") -> list[str]:
    """The texts of what is part of the conversation."""
    return [it.text for it in log.transcript(thread).messages if not it.hidden]


def hidden(log: Log) -> list[str]:
    return [it.text for it in log.transcript("t").messages if it.hidden]


def truncations(log: Log) -> list[ThreadTruncated]:
    return [event.body for event in events(log) if isinstance(event.body, ThreadTruncated)]


# --- titles and pins ---------------------------------------------------------------------------------------------


def test_a_title_is_given_and_given_back(log: Log) -> None:
    """A thread has the title it was given, until an empty one gives it back to the first message."""
    answered(log, "First words")
    answered(log, "Second words")
    seq = log.rename("t", "  Notes ").result()
    assert log.thread("t").title == "Notes"
    assert (log.thread("t").head, kinds(log)[-1]) == (seq, "thread_renamed")
    log.rename("t", "").result()
    assert log.thread("t").title == "First words"


@pytest.mark.parametrize("given", ["", "First words", "Notes"])
def test_a_title_that_a_thread_has_is_not_written_again(log: Log, given: str) -> None:
    """Giving a thread the title it has, its first message's by an empty one too, writes nothing; the receipt has the
    head."""
    answered(log, "First words")
    if given == "Notes":
        log.rename("t", given).result()
    head = log.thread("t").head
    assert log.rename("t", f" {given} ").result() == head
    assert log.thread("t").head == head
    answered(log, "Second words")
    log.rename("t", "").result()
    assert log.thread("t").title == "First words"


@pytest.mark.parametrize("title", ["a\nb", "a\u2028b", "a\x85b", 7])
def test_a_title_is_one_line(log: Log, title: Any) -> None:
    """What is not one line of text is no title."""
    with pytest.raises(InvalidInput, match="title"):
        log.rename("t", title)


def test_a_title_has_a_length(log: Log) -> None:
    """A title that is too long is refused by the name of its limit, never cut (P4)."""
    answered(log, "x")
    longest = "ü" * TITLE_GIVEN_CHARS_MAX
    log.rename("t", longest).result()
    assert log.thread("t").title == longest
    with pytest.raises(TooLarge, match="TITLE_GIVEN_CHARS_MAX"):
        log.rename("t", longest + "x")


def test_pinned_threads_come_first(log: Log) -> None:
    """A pinned thread stands before those that changed later, and pinning it again writes nothing."""
    for name in ("a", "b", "c"):
        answered(log, "x", name)
    seq = log.pin("a").result()
    answered(log, "later", "c")
    assert [row.thread for row in log.threads().rows] == ["a", "c", "b"]
    assert log.pin("a").result() == log.thread("a").head == seq
    log.pin("a", False).result()
    answered(log, "later", "b")
    assert [row.thread for row in log.threads().rows] == ["b", "a", "c"]
    assert not log.thread("a").pinned


@pytest.mark.parametrize(
    "act",
    [
        lambda log: log.rename("t", "x"),
        lambda log: log.pin("t"),
        lambda log: log.truncate("t", "x"),
        lambda log: log.compact("t", "x"),
        lambda log: log.submit("t", "x", edit_of="x"),
    ],
    ids=["rename", "pin", "truncate", "compact", "edit"],
)
def test_no_operation_makes_a_thread(log: Log, act: Callable[[Log], Any]) -> None:
    """What is done to a thread that is not there is refused, and makes none."""
    with pytest.raises(UnknownThread):
        act(log).result()
    assert log.threads().rows == ()


# --- truncating --------------------------------------------------------------------------------------------------


def test_a_truncation_hides_and_keeps(log: Log) -> None:
    """C12, P4: what is taken back is no part of the conversation, is listed with what hides it, and can be read."""
    first, second, third = (answered(log, text) for text in ("one", "two", "three"))
    log.append_message("t", message("loose")).result()
    done = log.truncate("t", second, by="me").result()
    assert done.hidden == (second, third)
    assert shown(log) == ["one", "To one"]
    assert hidden(log) == ["two", "To two", "three", "To three", "loose"]
    rows = {row.turn: row.hidden_by for row in log.turns("t").rows}
    assert rows == {first: None, second: done.seq, third: done.seq}
    assert log.thread("t").latest == first
    assert log.newest_turns().rows[0].turn == first
    assert [entry.text for entry in log.timeline("t", second).entries if entry.kind == "message"] == ["To two"]
    (notice,) = log.transcript("t").notices
    assert (notice.kind, notice.seq, notice.turn, notice.hidden) == ("truncated", done.seq, None, False)
    assert truncations(log)[0].by == "me"


def test_the_first_turn_can_be_taken_back(log: Log) -> None:
    """A thread of which everything was taken back has no newest turn, and goes on with the next message."""
    first = answered(log, "one")
    log.truncate("t", first).result()
    assert (shown(log), log.thread("t").latest, log.newest_turns().rows) == ([], None, ())
    answered(log, "two")
    assert shown(log) == ["two", "To two"]


def test_truncations_are_found_from_one_to_the_next(log: Log) -> None:
    """Each truncation names the newest one before it that it does not hide; those that it hides hold no more."""
    first, second = answered(log, "one"), answered(log, "two")
    one = log.truncate("t", second).result().seq
    third, fourth = answered(log, "three"), answered(log, "four")
    two = log.truncate("t", fourth).result().seq
    fifth = answered(log, "five")
    assert [it.earlier for it in truncations(log)] == [None, one]
    three = log.truncate("t", third).result()
    assert three.hidden == (third, fifth)
    assert truncations(log)[-1].earlier == one
    assert {row.turn: row.hidden_by for row in log.turns("t").rows} == {
        first: None,
        second: one,
        third: three.seq,
        fourth: three.seq,
        fifth: three.seq,
    }
    assert two < three.seq


def test_what_is_hidden_is_not_taken_back_again(log: Log) -> None:
    """A turn that is out already, or is not there, cannot be taken back, edited or compacted; nothing is written."""
    answered(log, "one")
    second = answered(log, "two")
    by = log.truncate("t", second).result().seq
    before = log.thread("t").head
    for act in (log.truncate("t", second), log.submit("t", "x", edit_of=second), log.compact("t", "x", until=second)):
        with pytest.raises(TurnHidden) as refused:
            act.result()
        assert refused.value.hidden_by == by
    for act in (log.truncate("t", "no"), log.submit("t", "x", edit_of="no"), log.compact("t", "x", until="no")):
        with pytest.raises(UnknownTurn):
            act.result()
    assert log.thread("t").head == before


def test_nothing_open_is_taken_back(log: Log) -> None:
    """Truncating waits for nobody: while a turn that would go is open it is refused, and names that turn."""
    first = answered(log, "one")
    running = log.submit("t", "two").result()
    for act in (log.truncate("t", first), log.truncate("t", running.id), log.submit("t", "x", edit_of=first)):
        with pytest.raises(Busy) as busy:
            act.result()
        assert busy.value.running == running.id
    with pytest.raises(Busy):
        log.submit("t", "x", edit_of=first, when_busy="queue").result()
    running.interrupt("cancelled").result()
    assert log.truncate("t", first).result().hidden == (first, running.id)


def test_a_queued_turn_is_taken_back_while_the_one_before_it_runs(log: Log) -> None:
    """Only what would go must have ended: an earlier turn runs on, and what it writes later is shown."""
    running = log.submit("t", "one").result()
    running.start().result()
    queued = log.submit("t", "two", when_busy="queue").result()
    queued.interrupt("cancelled").result()
    assert log.truncate("t", queued.id).result().hidden == (queued.id,)
    running.item(message("the answer")).result()
    running.complete().result()
    assert shown(log) == ["one", "the answer"]


def test_a_dead_writers_turn_keeps_nobody_from_truncating(store: Store) -> None:
    """P8: an open turn whose writer is dead is settled first, and then it can be taken back."""
    dying, log = store.open(), store.open()
    turn = dying.submit("t", "one").result().id
    store.kill(dying)
    assert log.truncate("t", turn).result().hidden == (turn,)
    assert kinds(log)[-2:] == ["interrupted", "thread_truncated"]


def test_attempts_at_one_message_go_together(log: Log) -> None:
    """Taking back a turn that was asked again takes the attempts directly before it along: it is one message."""
    first = answered(log, "zero")
    one = interrupted(log, "one")
    two = again(log, one)
    three = again(log, two)
    assert log.truncate("t", three).result().hidden == (one, two, three)
    assert (shown(log), log.thread("t").latest) == (["zero", "To zero"], first)


def test_an_attempt_further_back_is_shown_again(log: Log) -> None:
    """Where other turns lie between a message and its retry, only the retry goes, and the first attempt is shown.

    It was asked again, and is not a second time."""
    one = interrupted(log, "one")
    answered(log, "two")
    child = again(log, one)
    assert log.turn_view("t", one).hidden
    assert log.truncate("t", child).result().hidden == (child,)
    assert shown(log) == ["one", "two", "To two"]
    row = log.turn_view("t", one)
    assert (row.hidden, row.retried_by) == (False, None)
    with pytest.raises(NotRetryable):
        log.retry("t", one).result()
    assert [it.can_retry for it in log.transcript("t").notices if it.turn == one] == [False]


def test_a_hidden_turn_is_not_asked_again(log: Log) -> None:
    """C12: retrying a turn that was taken back is refused, and its notice does not offer it."""
    one = interrupted(log, "one")
    assert [it.can_retry for it in log.transcript("t").notices] == [True]
    log.truncate("t", one).result()
    with pytest.raises(NotRetryable):
        log.retry("t", one).result()
    assert [it.can_retry for it in log.transcript("t").notices if it.turn == one] == [False]


def test_a_key_is_its_turn_hidden_or_not(log: Log) -> None:
    """P6: submitting the key of a turn that was taken back gives that turn."""
    one = answered(log, "one", key="k")
    log.truncate("t", one).result()
    turn = log.submit("t", "one", key="k").result()
    assert (turn.id, turn.duplicate, log.turn_view("t", one).hidden) == (one, True, True)


def test_a_thread_has_so_many_truncations(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: the truncations that hold are bounded, and one too many is refused by the name of its limit."""
    monkeypatch.setattr(truncating, "TRUNCATIONS_MAX", 3)
    first = answered(log, "zero")
    for number in range(3):
        log.truncate("t", answered(log, f"{number}")).result()
    last = answered(log, "last")
    for act in (log.truncate("t", last), log.submit("t", "x", edit_of=last)):
        with pytest.raises(TooLarge, match="TRUNCATIONS_MAX"):
            act.result()
    assert shown(log) == ["zero", "To zero", "last", "To last"]
    assert first == log.turns("t").rows[-1].turn


def test_a_damaged_row_of_the_thread_forgets_no_truncation(tmp_path: Path) -> None:
    """C12, P4: where the thread's row cannot be read, what is hidden stays hidden, and truncations go on from there."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        answered(log, "one")
        second = answered(log, "two")
        first_seq = log.truncate("t", second).result().seq
        log.rename("t", "Named").result()
        log.pin("t").result()
        rows, row = log.turns("t").rows, log.thread("t")
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE thread SET fold = x'00'")
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        assert (log.turns("t").rows, log.thread("t")) == (rows, replace(row, damaged=True))
        log.truncate("t", answered(log, "three")).result()
        assert truncations(log)[-1].earlier == first_seq
        assert shown(log) == ["one", "To one"]


# --- editing -----------------------------------------------------------------------------------------------------


def test_an_edit_takes_the_place_of_a_message(log: Log) -> None:
    """An edited message hides the one before with all that followed, in one write, and names it."""
    answered(log, "one")
    second, third = answered(log, "two"), answered(log, "three")
    head = log.thread("t").head
    edit = answered(log, "TWO", edit_of=second)
    assert shown(log) == ["one", "To one", "TWO", "To TWO"]
    assert kinds(log)[head : head + 2] == ["thread_truncated", "submitted"]
    assert (truncations(log)[0].why, truncations(log)[0].turn) == ("edit", second)
    row = log.turn_view("t", edit)
    assert (row.edit_of, row.hidden) == (second, False)
    assert {turn for turn in (second, third) if log.turn_view("t", turn).hidden} == {second, third}
    assert log.thread("t").latest == edit


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
def test_an_edit_is_whole_or_not_there(store: Store, log: Log, place: str) -> None:
    """C12, P1: whatever fails, a message is never taken back without the one in its place; the same key tells."""
    first = answered(log, "one")
    head = log.thread("t").head
    store.faults(log).fail(place, unavailable)
    with suppress(StoreError):
        log.submit("t", "ONE", key="k", edit_of=first).result()
    store.faults(log).heal()
    assert kinds(log)[head:] in (
        [],
        ["thread_truncated", "submitted"],
        ["thread_truncated", "submitted", "interrupted"],
    )
    log.submit("t", "ONE", key="k", edit_of=first).result()
    assert kinds(log)[head : head + 2] == ["thread_truncated", "submitted"]
    assert kinds(log).count("thread_truncated") == 1


def test_an_edit_is_one_write(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """C12, P1: the truncation and the message in the place of what it hides are given to the engine as one write."""
    first = answered(log, "one")
    written: list[list[str]] = []
    commit = log._engine.commit

    def spying(writes: Sequence[Write]) -> list[Outcome]:
        written.extend([event.kind for event in write.events] for write in writes if write.events)
        return commit(writes)

    monkeypatch.setattr(log._engine, "commit", spying)
    log.submit("t", "ONE", edit_of=first).result()
    assert written == [["thread_truncated", "submitted"]]


def test_an_edit_is_idempotent(store: Store, log: Log) -> None:
    """P6: the same edit with the same key, from any process and after its target is hidden, is the same turn."""
    first = answered(log, "one")
    edit = answered(log, "ONE", key="k", edit_of=first)
    head = log.thread("t").head
    for other in (log, store.open()):
        turn = other.submit("t", "ONE", key="k", edit_of=first).result()
        assert (turn.id, turn.duplicate) == (edit, True)
    assert log.thread("t").head == head


def test_an_edit_can_replace_a_running_answer(log: Log) -> None:
    """With `replace`, the answer that is being written to the edited message is asked to end, and hidden with it."""
    running = log.submit("t", "one").result()
    running.start().result()
    edit = log.submit("t", "ONE", edit_of=running.id, when_busy="replace").result()
    running.interrupt("cancelled").result()
    edit.ready().result()
    assert shown(log) == ["ONE"]
    assert "requested" in kinds(log, turn=running.id)


def test_a_retry_of_an_edit_edits_nothing(log: Log) -> None:
    """Asking an edited message again is a retry, and takes nothing back."""
    first = answered(log, "one")
    edit = log.submit("t", "ONE", edit_of=first).result()
    edit.interrupt("failed").result()
    child = log.retry("t", edit.id).result()
    (body,) = [event.body for event in events(log, turn=child.id) if isinstance(event.body, Submitted)]
    assert (body.edit_of, body.retry_of, len(truncations(log))) == (None, edit.id, 1)


def test_of_two_edits_of_one_message_one_wins(store: Store) -> None:
    """P7: two processes edit the same message at once: one edit stands, the other is refused, and nothing doubles."""
    logs = [store.open(), store.open()]
    first = answered(logs[0], "one")
    done = together(2, lambda number: logs[number].submit("t", f"edit {number}", edit_of=first).result())
    turns = [it for it in done if isinstance(it, Turn)]
    refused = [it for it in done if isinstance(it, TurnHidden | Busy)]
    assert (len(turns), len(refused), len(truncations(logs[0]))) == (1, 1, 1)


def test_operations_of_two_processes_meet(store: Store) -> None:
    """P7: what one process does to a thread is seen by the next write of the other, which is worked out again."""
    one, two = store.open(), store.open()
    turns = [answered(one, f"{number}") for number in range(4)]
    two.rename("t", "Two").result()
    one.truncate("t", turns[3]).result()
    two.pin("t").result()
    assert two.truncate("t", turns[1]).result().hidden == (turns[1], turns[2])
    with pytest.raises(TurnHidden):
        one.truncate("t", turns[2]).result()
    row = one.thread("t")
    assert (row.title, row.pinned, row.latest) == ("Two", True, turns[0])


# --- compacting --------------------------------------------------------------------------------------------------


def test_a_summary_is_noted_up_to_a_turn(log: Log) -> None:
    """A compaction names the begin of the last turn that it tells of, and a transcript says that there is one."""
    answered(log, "one")
    second = answered(log, "two")
    answered(log, "three")
    seq = log.compact("t", "They talked.", until=second, by="me").result()
    (body,) = [event.body for event in events(log) if isinstance(event.body, ThreadCompacted)]
    assert (body.until, body.summary, body.by) == (log.turn_view("t", second).seq_first, "They talked.", "me")
    assert [(it.kind, it.seq) for it in log.transcript("t").notices] == [("compacted", seq)]
    assert len(shown(log)) == 6


def test_a_summary_tells_of_settled_turns_only(log: Log) -> None:
    """By default a summary tells of the newest turn that has ended with all before it; one that is open is refused."""
    with pytest.raises(InvalidInput, match="summary"):
        log.compact("t", "  ")
    first = answered(log, "one")
    log.truncate("t", answered(log, "gone")).result()
    running = log.submit("t", "two").result()
    with pytest.raises(Busy):
        log.compact("t", "x", until=running.id).result()
    log.compact("t", "x").result()
    body = events(log)[-1].body
    assert isinstance(body, ThreadCompacted)
    assert body.until == log.turn_view("t", first).seq_first


def test_there_is_nothing_to_sum_up_before_an_end(log: Log) -> None:
    """A thread whose only turn is open, or that has none, has nothing that a summary could tell of."""
    running = log.submit("t", "one").result()
    with pytest.raises(Busy):
        log.compact("t", "x").result()
    running.interrupt("cancelled").result()
    log.append_message("loose", message("x")).result()
    with pytest.raises(InvalidInput, match="until"):
        log.compact("loose", "x").result()


def test_what_is_not_there_is_not_edited_in_a_busy_thread(log: Log) -> None:
    """P4: an edit of a turn that there is not, or that was taken back, is refused for that, whatever runs."""
    gone = answered(log, "gone")
    log.truncate("t", gone).result()
    log.submit("t", "running").result()
    for turn, error in (("nowhere", UnknownTurn), (gone, TurnHidden)):
        with pytest.raises(error):
            log.submit("t", "x", edit_of=turn).result()


def test_a_row_of_the_first_version_knows_its_first_message(log: Log) -> None:
    """A thread whose row was written before titles could be given gets its first message's title back, is sound, and
    takes no later message for its first."""
    answered(log, "First words")
    row = next(iter(log._engine.threads(thread="t", limit=1).rows))
    old = replace(row, fold=row.fold.replace(b'"first":"First words",', b""))
    assert old != row
    commit(log._engine, Write(thread="t", base=row.head, thread_row=old, rebuild=True))
    assert [found.kind for found in log.audit("t")] == []
    log.rename("t", "Notes").result()
    answered(log, "Second words")
    log.rename("t", "").result()
    assert log.thread("t").title == "First words"
