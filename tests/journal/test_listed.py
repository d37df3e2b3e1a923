"""Rows of turns in lists: what only the neighbours and the writer of a turn tell."""

from __future__ import annotations

from tests.journal.stores import Store
from turnlog.folds.turn import TurnView
from turnlog.journal.log import Log


def test_a_row_tells_its_owner(store: Store, log: Log) -> None:
    """P7: a row names the log that may write the turn, and after a takeover the one that took it."""
    turn = log.submit("t", "x").result()
    assert log.turn_view("t", turn.id).owner == log.owner
    store.kill(log)
    other = store.open()
    assert other.turn_view("t", turn.id).owner == other.owner


def test_a_place_counts_the_open_turns_before_it(log: Log) -> None:
    """A submitted turn's place is the number of open turns before it in its thread, and no other turn has one."""
    log.submit("t", "settled").result().interrupt("failed").result()
    one = log.submit("t", "one").result()
    log.submit("u", "elsewhere").result()
    two = log.submit("t", "two", when_busy="queue").result()
    assert [row.queue_place for row in log.turns("t").rows] == [1, 0, None]
    one.start().result()
    assert [row.queue_place for row in log.turns("t").rows] == [1, None, None]
    assert (log.turn_view("t", two.id).queue_place, log.transcript("t").turns[0].queue_place) == (1, 1)
    one.complete().result()
    assert log.turn_view("t", two.id).queue_place == 0


def test_a_retried_turn_is_hidden_on_every_page(log: Log) -> None:
    """A turn that a later one asks again names it and is hidden, wherever that one stands; it and others are not."""
    for text in ("one", "two"):
        log.submit("t", text).result().interrupt("failed").result()
    first = log.turns("t").rows[1].turn
    log.retry("t", first).result()
    whole = [row.hidden for row in log.turns("t").rows]
    assert whole == [False, False, True]
    paged, before = list[bool](), None
    while True:
        page = log.turns("t", limit=1, before=before)
        paged += [row.hidden for row in page.rows]
        if (before := page.next) is None:
            break
    assert paged == whole
    assert log.turn_view("t", first).retried_by == log.turns("t").rows[0].turn


def test_a_row_and_a_trace_are_put_together(log: Log) -> None:
    """P9: a row's fold is the fold of its events; beside a later trace its other facts stay as read."""
    running = log.submit("t", "one").result()
    turn = log.submit("t", "two", when_busy="queue").result()
    row = log.turn_view("t", turn.id)
    assert type(row.view) is TurnView
    assert row.view == log.timeline("t", turn.id).turn
    log.request("t", turn.id).result()
    later = log.timeline("t", turn.id).turn
    assert (row.beside(later).interrupt_requested, row.beside(later).queue_place) == (True, 1)
    running.start().result()
    running.complete().result()
    turn.interrupt("cancelled").result()
    settled = row.beside(log.timeline("t", turn.id).turn)
    assert (settled.state, settled.queue_place) == ("interrupted", None)


def test_the_newest_turn_of_each_thread(log: Log) -> None:
    """One row a thread, its newest turn, the last changed thread first; threads without a turn are not among them."""
    for thread in ("a", "b", "c"):
        for text in ("old", "new"):
            with log.turn(thread, text):
                pass
    log.append_message("no turn", {}).result()
    log.submit("a", "last").result()
    expected = [("a", "last", 0), ("c", "new", None), ("b", "new", None)]
    rows = log.newest_turns().rows
    assert [(row.thread, row.preview, row.queue_place) for row in rows] == expected
    paged, before = list[str](), None
    while True:
        page = log.newest_turns(limit=1, before=before)
        paged += [row.thread for row in page.rows]
        if (before := page.next) is None:
            break
    assert paged == ["a", "c", "b"]
