"""Forks: the beginning of a thread, copied byte for byte into a new one that is there only when it is whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.journal.stores import Store, events, kinds, message, run, take, together, unavailable
from tests.journal.test_thread_operations import again, answered, interrupted, shown
from turnlog.engines.protocol import Done, Record, Write
from turnlog.errors import (
    Busy,
    InvalidInput,
    StoreClosed,
    StoreError,
    ThreadExists,
    ThreadImporting,
    TurnHidden,
    UnknownThread,
    UnknownTurn,
)
from turnlog.events.kinds import Event, ThreadCreated
from turnlog.events.thread_kinds import ThreadForked
from turnlog.journal import fork_job
from turnlog.journal.log import Log
from turnlog.journal.reading import ThreadView
from turnlog.testing.traps import Place, raising
from turnlog.testing.writes import commit


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events a page, so that every fork here has several."""
    monkeypatch.setattr(fork_job, "FORK_PAGE_EVENTS", 4)


def fill(log: Log, thread: str = "t") -> list[str]:
    """A thread with a bit of everything that can be copied."""
    one = answered(log, "one", key="k1")
    two = interrupted(log, "two")
    child = again(log, two)
    log.append_message(thread, message("loose")).result()
    gone = answered(log, "gone")
    log.truncate(thread, gone).result()
    log.rename(thread, "A title").result()
    last = answered(log, "last", edit_of=answered(log, "first try"))
    return [one, two, child, gone, last]


def bytes_of(found: list[Event]) -> list[tuple[object, ...]]:
    return [(it.seq, it.turn, it.at, it.kind, it.v, it.data) for it in found]


def check_copy(log: Log, to: str, end: int) -> None:
    """Events 1 to `end`, the rows of their turns and what is shown of them are as they are in the thread itself."""
    copied = events(log, to)
    assert bytes_of(copied[:end]) == bytes_of(events(log)[:end])
    assert copied[end].kind == "thread_forked"
    rows = {row.turn: row for row in log.turns("t", limit=1_000).rows}
    for row in log.turns(to, limit=1_000).rows:
        assert row.owner is None
        assert row.view == replace(rows[row.turn].view, late=[seq for seq in rows[row.turn].late if seq <= end])
        assert log.timeline(to, row.turn).entries[:3] == log.timeline("t", row.turn).entries[:3]


def test_a_fork_is_a_copy(log: Log) -> None:
    """C12, P10: a fork has the same events under the same seqs and ids, hidden turns too, and says where it is from."""
    turns = fill(log)
    head = log.thread("t").head
    fork = log.fork("t", "f").result()
    check_copy(log, "f", head)
    assert fork == log.thread("f")
    assert (fork.title, fork.head, fork.latest) == ("A title", head + 1, turns[-1])
    body = events(log, "f")[-1].body
    assert body == ThreadForked(of="t", epoch=log.epoch, seq=head)
    assert shown(log, "f") == shown(log)
    assert log.transcript("f").messages == log.transcript("t").messages
    assert log.history("f").items == log.history("t").items
    assert log.transcript("f").notices[-1].kind == "forked"


def test_a_fork_goes_its_own_way(log: Log) -> None:
    """What is written to a fork or its thread afterwards is in that one alone."""
    answered(log, "one")
    log.fork("t", "f").result()
    answered(log, "left", "t")
    answered(log, "right", "f")
    assert shown(log) == ["one", "To one", "left", "To left"]
    assert shown(log, "f") == ["one", "To one", "right", "To right"]


def test_a_fork_gets_a_name(log: Log) -> None:
    """Without a name a fork gets a new one each time."""
    answered(log, "one")
    names = {log.fork("t").result().thread for _ in range(3)}
    assert len(names) == 3
    assert {row.thread for row in log.threads().rows} == {"t", *names}


def test_a_fork_ends_with_a_turn(log: Log) -> None:
    """A fork up to a turn has nothing behind its end; one that was taken back since is shown in it again."""
    one, two, three = (answered(log, text) for text in ("one", "two", "three"))
    log.truncate("t", two).result()
    log.fork("t", "f", turn=two).result()
    check_copy(log, "f", log.turn_view("t", two).seq_last)
    assert shown(log, "f") == ["one", "To one", "two", "To two"]
    assert (log.thread("f").latest, {row.turn for row in log.turns("f").rows}) == (two, {one, two})
    with pytest.raises(UnknownTurn):
        log.turn_view("f", three)


def test_overlapping_turns_are_copied_whole_and_hidden(log: Log) -> None:
    """A turn that was waiting when the last one ended is copied to its end, and is hidden in the fork."""
    one = log.submit("t", "one").result()
    one.start().result()
    two = log.submit("t", "two", when_busy="queue").result()
    three = log.submit("t", "three", when_busy="queue").result()
    one.complete().result()
    two.start().result()
    two.complete().result()
    with pytest.raises(Busy) as busy:
        log.fork("t", "f", turn=one.id)
    assert busy.value.running == three.id
    three.interrupt("cancelled").result()
    end = log.thread("t").head
    answered(log, "four")
    log.fork("t", "f", turn=one.id).result()
    check_copy(log, "f", end)
    assert kinds(log, "f")[end:] == ["thread_forked", "thread_truncated"]
    assert (shown(log, "f"), log.thread("f").latest) == (["one"], one.id)
    assert {row.turn: row.hidden for row in log.turns("f").rows} == {one.id: False, two.id: True, three.id: True}
    edited = answered(log, "again", "f")
    log.truncate("f", edited).result()
    assert log.thread("f").latest == one.id


def test_a_fork_has_what_a_newer_version_wrote(log: Log) -> None:
    """C15, P4, P10: kinds and versions that are not known, of a turn and of the thread, are copied byte for byte."""
    turn = log.submit("t", "one").result()
    turn.start().result()
    engine, head = log._engine, log.thread("t").head
    row = engine.turns(thread="t", turn=turn.id, limit=1).rows[0]
    strange = [
        Record(seq=head + 1, turn=turn.id, at=1, v=7, kind="thought", body=b'{"z":1.10,"a":null}'),
        Record(seq=head + 2, turn=None, at=2, v=1, kind="thread_of_next_year", body=b'{"b":"\\ud800"}\nraw'),
    ]
    of_turn = Write(
        thread="t", base=head, turn=turn.id, fence=row.fence, events=(strange[0],), turn_row=replace(row, seq_last=head)
    )
    for write in (of_turn, Write(thread="t", base=head + 1, events=(strange[1],))):
        assert isinstance(commit(engine, write)[0], Done)
    turn.complete().result()
    log.fork("t", "f").result()
    copied = [(it.seq, it.turn, it.v, it.kind, it.data) for it in events(log, "f")[head : head + 2]]
    assert copied == [(it.seq, it.turn, it.v, it.kind, it.body) for it in strange]


def test_a_fork_leaves_out_what_is_running(log: Log) -> None:
    """Without a turn a fork has all that has settled; while nothing has, and for an open turn, it is refused."""
    running = log.submit("t", "one").result()
    with pytest.raises(Busy):
        log.fork("t", "f")
    running.interrupt("cancelled").result()
    log.rename("t", "T").result()
    end = log.thread("t").head
    running = log.submit("t", "two").result()
    running.start().result()
    with pytest.raises(Busy):
        log.fork("t", "f", turn=running.id)
    log.fork("t", "f").result()
    check_copy(log, "f", end)


def test_a_fork_parts_no_edit_from_what_it_takes_back(log: Log) -> None:
    """P1: while an edited message is answered, a fork without a turn still has the message in whose place it is."""
    answered(log, "one")
    wrong = answered(log, "two")
    end = log.thread("t").head
    log.submit("t", "TWO", edit_of=wrong).result()
    log.fork("t", "f").result()
    check_copy(log, "f", end)
    assert not log.turn_view("f", wrong).hidden


def test_a_fork_has_what_was_taken_back(log: Log) -> None:
    """A truncation that nothing takes the place of is copied, whatever is asked next."""
    answered(log, "one")
    log.truncate("t", answered(log, "two")).result()
    end = log.thread("t").head
    log.submit("t", "three").result()
    log.fork("t", "f").result()
    check_copy(log, "f", end)


def test_a_turn_that_was_hidden_while_it_ran_is_no_end_of_a_fork(log: Log) -> None:
    """An answer that was edited away while it ran is hidden at every point where it has ended."""
    running = log.submit("t", "one").result()
    running.start().result()
    edit = log.submit("t", "ONE", edit_of=running.id, when_busy="replace").result()
    running.interrupt("cancelled").result()
    edit.interrupt("cancelled").result()
    with pytest.raises(TurnHidden):
        log.fork("t", "f", turn=running.id)


def test_late_events_behind_the_end_are_not_told(log: Log) -> None:
    """A copied turn's row names the late events that were copied, and no others."""
    turn = log.submit("t", "one").result()
    turn.start().result()
    turn.complete().result()
    with suppress(Exception):
        turn.item(message("late")).result()
    seq = log.thread("t").head
    log.fork("t", "with").result()
    log.fork("t", "without", turn=turn.id).result()
    assert kinds(log)[-1] == "thread_late"
    assert log.turn_view("with", turn.id).late == [seq]
    assert log.turn_view("without", turn.id).late == []


def test_keys_are_keys_of_the_copies(log: Log) -> None:
    """P6: in a fork a key is the copied turn; in its thread it stays the first one."""
    one, *_ = fill(log)
    log.fork("t", "f").result()
    for thread in ("t", "f"):
        turn = log.submit(thread, "one", key="k1").result()
        assert (turn.id, turn.duplicate) == (one, True)


# --- the same call again -----------------------------------------------------------------------------------------


def test_a_fork_is_idempotent(store: Store, log: Log) -> None:
    """P6: the same call again, from any process, gives the fork that is there, however the thread went on."""
    one = answered(log, "one")
    first = [log.fork("t", "f").result(), log.fork("t", "g", turn=one).result()]
    log.submit("t", "two").result()
    other = store.open()
    assert [other.fork("t", "f").result(), other.fork("t", "g", turn=one).result()] == first


def test_a_fork_overwrites_nothing(log: Log) -> None:
    """Another thread, or another fork, of that name is left alone."""
    one = answered(log, "one")
    answered(log, "other", "other")
    log.fork("t", "f").result()
    head = log.thread("other").head
    for act in (log.fork("t", "other"), log.fork("other", "f"), log.fork("t", "f", turn=one)):
        with pytest.raises(ThreadExists):
            act.result()
    assert (log.thread("other").head, kinds(log, "f")[-1]) == (head, "thread_forked")
    with pytest.raises(InvalidInput, match="to"):
        log.fork("t", "t")
    with pytest.raises(UnknownThread):
        log.fork("never", "g")
    with pytest.raises(UnknownTurn):
        log.fork("t", "g", turn="never")
    with pytest.raises(UnknownThread):
        log.thread("g")


def test_two_processes_make_one_fork(store: Store) -> None:
    """P7: two processes that make the same fork at once go on with each other's pages, and get the same one."""
    logs = [store.open(), store.open()]
    fill(logs[0])
    done = together(2, lambda number: logs[number].fork("t", "f").result())
    assert isinstance(done[0], ThreadView)
    assert done[0] == done[1]
    check_copy(logs[0], "f", logs[0].thread("t").head)
    assert kinds(logs[0], "f").count("thread_forked") == 1


# --- crashes -----------------------------------------------------------------------------------------------------


def commits_of_a_fork(store: Store, log: Log) -> int:
    """How many commits the fork of the filled thread takes."""
    reached: list[Place] = []
    store.faults(log).traps.set("commit.before", reached.append, forever=True)
    log.fork("t", "counted").result()
    store.faults(log).heal()
    return len(reached)


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
def test_a_fork_that_dies_in_any_write_goes_on(store: Store, place: str) -> None:
    """P8: killed in its k-th write, for every k, a fork is not there, and the same call in another process ends it as
    if nothing had been."""
    log = store.open()
    fill(log)
    head = log.thread("t").head
    last = commits_of_a_fork(store, log)
    assert last > 5
    for k in range(1, last + 1):
        name, dying = f"f{k}", store.open()
        store.faults(dying).traps.set(place, raising(StoreClosed), k=k, forever=True)
        with pytest.raises(StoreError):
            dying.fork("t", name).result()
        store.kill(dying)
        whole = place == "commit.after" and k == last
        assert (name in {row.thread for row in log.threads().rows}) == whole
        if not whole:
            check_not_there(log, name)
        log.fork("t", name).result()
        check_copy(log, name, head)
        assert kinds(log, name)[head:] == ["thread_forked"]


def check_not_there(log: Log, name: str) -> None:
    """C12: of a fork that is not whole nothing is shown under its name, in lists or to who asks for changes."""
    assert name not in {row.thread for row in log.newest_turns(limit=1_000).rows}
    for read in (
        log.thread,
        log.turns,
        log.transcript,
        log.history,
        log.drafts,
        lambda thread: log.turn_view(thread, log.turns("t").rows[-1].turn),
        lambda thread: log.timeline(thread, log.turns("t").rows[-1].turn),
        lambda thread: list(log.events(thread)),
        lambda thread: log.item(thread, 1),
    ):
        with pytest.raises(UnknownThread):
            read(name)


def test_a_failed_write_is_tried_again_by_the_same_call(store: Store, log: Log) -> None:
    """P8: a fork that the disk refused goes on in the same process, with what it had."""
    fill(log)
    head = log.thread("t").head
    for k in count(1):
        name = f"f{k}"
        trap = store.faults(log).fail("commit.before", unavailable, k=k)
        with suppress(StoreError):
            log.fork("t", name).result()
        store.faults(log).heal()
        log.fork("t", name).result()
        check_copy(log, name, head)
        if not trap.fired:
            break


# --- beside others -----------------------------------------------------------------------------------------------


def test_nobody_writes_to_half_a_fork(store: Store, log: Log) -> None:
    """While it is copied a thread takes nothing but its copy, from whatever process, and is not there for readers."""
    fill(log)
    other = store.open()
    with store.faults(log).hold("commit.before", k=3) as hold:
        fork = log.fork("t", "f")
        hold.wait_held()
        for act in (
            other.submit("f", "x"),
            other.append_message("f", message("x")),
            other.rename("f", "x"),
            other.truncate("f", "x"),
        ):
            with pytest.raises(ThreadImporting):
                act.result()
        with pytest.raises(ThreadExists):
            other.fork("t", "f", turn=other.turns("t").rows[-1].turn).result()
        with pytest.raises(UnknownThread):
            other.fork("f", "g")
        check_not_there(other, "f")
        assert not fork.done()
    fork.result()
    check_copy(log, "f", log.thread("t").head)
    answered(other, "x", "f")


def test_a_follower_sees_a_fork_when_it_is_whole(store: Store, log: Log) -> None:
    """P2, P9: who waits for a thread before it is copied is given all of it at once it is whole, and nothing before."""
    fill(log)

    async def main() -> None:
        async with aclosing(log.follow("f")) as frames:
            hold = store.faults(log).hold("commit.before", k=4)
            waiting = asyncio.ensure_future(anext(frames))
            fork = log.fork("t", "f")
            with hold:
                await asyncio.to_thread(hold.wait_held)
                assert log._engine.threads(thread="f", limit=1).rows != ()
                assert not waiting.done()
            await fork
            first = await waiting
            assert isinstance(first, Event)
            assert isinstance(first.body, ThreadCreated)
            rest = await take(frames, lambda frame: isinstance(frame, Event) and frame.kind == "thread_forked")
            assert len(rest) == log.thread("f").head - 1

    run(main())


def test_a_long_fork_stalls_nobody(store: Store, log: Log) -> None:
    """P11: between two pages of a fork others are served: who submits waits for one page, not for the whole."""
    fill(log)
    first = store.faults(log).hold("commit.before", k=2)
    fork = log.fork("t", "f")
    first.wait_held()
    waiting = log.submit("other", "x")
    later = store.faults(log).hold("commit.before", k=2)
    first.release()
    later.wait_held()
    assert (waiting.done(), fork.done()) == (True, False)
    later.release()
    fork.result()


def test_a_fork_holds_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: what a fork holds in memory does not grow with the thread."""
    monkeypatch.undo()
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        for _ in range(32):
            turn = log.submit("t", "x").result()
            turn.start().result()
            for receipt in [turn.item(message("y" * 900)) for _ in range(350)]:
                receipt.result()
            turn.complete().result()
        tracemalloc.start()
        log.fork("t", "f").result()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert log.thread("f").head > 11_000
    assert peak < 5_000_000, "of 12 MB; beside it, snapshots of the turns are made"
