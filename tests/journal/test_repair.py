"""Audit and repair beside whoever else uses the store: what moves is no finding, what lives is not touched, what was
done is done once and can be undone."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.audit.damaging import both, event, sql, thread_number, turn_number
from tests.audit.rich import write_store
from tests.journal.stores import Store, call, events, eventually, kinds, message
from turnlog.errors import InvalidInput, StoreClosed, StoreError, UnknownThread
from turnlog.events.thread_kinds import ThreadRepaired
from turnlog.folds import repair
from turnlog.folds.findings import Finding
from turnlog.journal import fork_job
from turnlog.journal.auditing import audit_store
from turnlog.journal.log import Log
from turnlog.testing.traps import raising


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("rich"))


@pytest.fixture
def damaged(rich: Path, tmp_path: Path) -> Iterator[Store]:
    """A store with a second end, an end that is gone, text that was left, and a thread's row of another time."""
    path = Path(shutil.copy(rich, tmp_path / "store.db"))
    thread, turn = thread_number("t"), turn_number("t", "d")
    left = f"INSERT INTO chunk VALUES (9999, {thread}, {turn}, CAST('0/~0/text/0' AS BLOB), 8, 1, 1, 0, x'6c656674')"
    both(
        event("b", "interrupted", b'{"reason":"failed"}'),
        sql(f"DELETE FROM event WHERE thread = {thread} AND seq = 38"),
        sql(left),
        sql(f"UPDATE thread SET updated_at = 5 WHERE id = {thread}"),
    )(path)
    with Store("sqlite", tmp_path) as store:
        yield store


def bad(findings: Iterator[Finding]) -> list[tuple[str, str | None]]:
    return [(found.kind, found.turn) for found in findings if found.severity != "info"]


def repaired(log: Log, thread: str = "t") -> list[ThreadRepaired]:
    return [each.body for each in events(log, thread) if isinstance(each.body, ThreadRepaired)]


def repair_all(log: Log) -> set[str]:
    return {step.outcome for step in log.repair(log.plan_repair(log.audit())).steps}


def check_repaired(log: Log) -> None:
    """Every finding was repaired once, and nothing was invented: the lost end became an interruption."""
    assert bad(log.audit()) == []
    assert sorted(body.finding for body in repaired(log)) == ["draft_left_behind", "seq_gap", "terminal_collision"]
    assert [text.text for body in repaired(log) for text in body.dropped] == ["left"]
    assert (log.turn_view("t", "z").state, log.turn_view("t", "z").reason) == ("interrupted", "process_died")
    assert kinds(log, turn="z") == ["submitted", "worker_started", "assistant_started", "item", "interrupted"]
    assert (log.turn_view("t", "b").state, log.turn_view("t", "b").collisions) == ("completed", [39])
    assert log.drafts("t") == []


# --- once -------------------------------------------------------------------------------------------------------


def test_a_repair_is_done_once(damaged: Store) -> None:
    """P4: of a plan that is applied twice, and of two logs that apply the same, each step is done once."""
    log, other = damaged.open(), damaged.open()
    plan = log.plan_repair(log.audit())
    assert {step.outcome for step in log.repair(plan, by="me").steps} == {"done"}
    check_repaired(log)
    head = log.thread("t").head
    for each in (log, other):
        assert {step.outcome for step in each.repair(plan).steps} == {"stale"}
    assert other.thread("t").head == head
    check_repaired(other)


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
def test_a_repair_that_dies_in_any_write_goes_on(rich: Path, damaged: Store, tmp_path: Path, place: str) -> None:
    """P3, P4: a process that dies in any write of a repair, before or after it is stored, leaves a store that the next
    repair brings to the same end."""
    untouched = Path(shutil.copy(damaged.path, tmp_path / "untouched.db"))
    for k in count(1):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        shutil.copy(untouched, folder / "store.db")
        with Store("sqlite", folder) as store:
            log = store.open()
            plan = log.plan_repair(log.audit())
            trap = store.faults(log).traps.set({place}, raising(StoreClosed), k=k, forever=True)
            with suppress(StoreError):
                log.repair(plan)
            fired = trap.fired
            store.kill(log)
            log = store.open()
            assert repair_all(log) <= {"done"}
            check_repaired(log)
        if not fired:
            break
    assert k > 6, "each step has a write"


def test_a_plan_of_an_older_store_is_looked_at_again(damaged: Store) -> None:
    """P4: of a plan only those steps are done whose findings are still there."""
    log = damaged.open()
    plan = log.plan_repair(log.audit())
    log.repair(log.plan_repair(found for found in log.audit() if found.kind == "terminal_collision"))
    outcomes = {(step.action, step.turn): step.outcome for step in log.repair(plan).steps}
    assert outcomes["set_aside", "b"] == "stale"
    assert outcomes["set_aside", None] == "done"
    check_repaired(log)


def test_a_repair_is_undone(damaged: Store) -> None:
    """P4: what was set aside is a finding again when its repair is undone, once; it can be repaired again."""
    log = damaged.open()
    repair_all(log)
    seq = next(
        each.seq
        for each in events(log)
        if isinstance(each.body, ThreadRepaired) and each.body.finding == "terminal_collision"
    )
    undone = log.undo_repair("t", seq, by="me").result()
    assert kinds(log)[-1] == "thread_repair_undone"
    assert log.undo_repair("t", seq).result() == undone
    assert bad(log.audit()) == [("terminal_collision", "b")]
    assert repair_all(log) == {"done"}
    assert bad(log.audit()) == []


def test_only_what_was_set_aside_is_undone(damaged: Store) -> None:
    """P4: nothing is undone that is no repair, and text that was moved into the log stays there."""
    log = damaged.open()
    repair_all(log)
    moved = next(each.seq for each in events(log) if isinstance(each.body, ThreadRepaired) and each.body.dropped)
    for seq in (moved, 1, 9_999):
        with pytest.raises(InvalidInput, match="no repair"):
            log.undo_repair("t", seq).result()
    with pytest.raises(UnknownThread):
        log.undo_repair("nowhere", 1).result()
    with pytest.raises(UnknownThread):
        log.audit("nowhere")


def test_more_than_one_plan_takes(damaged: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a plan is bounded and says that there is more; planned again and again, everything is repaired."""
    monkeypatch.setattr(repair, "REPAIR_STEPS_MAX", 2)
    log = damaged.open()
    rounds = 0
    while (plan := log.plan_repair(log.audit())).steps:
        assert len(plan.steps) <= 2
        assert plan.more is (rounds < 2)
        log.repair(plan)
        rounds += 1
    assert rounds == 3
    check_repaired(log)


# --- beside others ----------------------------------------------------------------------------------------------


def test_what_a_living_writer_has_open_is_no_finding(store: Store) -> None:
    """C07, P7: turns whose owner lives are no finding and no repair touches them; when it dies they are, and recovery
    settles them."""
    log, other = store.open(), store.open()
    turn = log.submit("t", "question").result()
    turn.start().result()
    turn.draft("half").result()
    assert bad(other.audit()) == []
    before = events(other)
    other.repair(other.plan_repair(other.audit()))
    assert events(other) == before
    turn.draft(" an answer").result()
    store.kill(log)
    pending = other.plan_repair(other.audit())
    assert [(found.kind, found.turn) for step in pending.steps for found in step.findings if found.turn] == [
        ("pending", turn.id)
    ]
    assert {step.outcome for step in other.repair(pending).steps} == {"done"}
    assert {step.outcome for step in other.repair(pending).steps} == {"stale"}
    assert kinds(other)[-2:] == ["item", "interrupted"]
    assert bad(other.audit()) == []


def test_a_repair_touches_no_turn_of_a_living_writer(damaged: Store) -> None:
    """P7: while a thread is repaired by another log, a turn that runs in it goes on and ends as if nothing was."""
    log, other = damaged.open(), damaged.open()
    turn = log.submit("other", "question").result()
    turn.start().result()
    busy = log.submit("t", "question").result()
    busy.start().result()
    busy.draft("ha").result()
    assert repair_all(other) <= {"done", "stale", "failed"}
    busy.draft("lf").result()
    busy.item(message("half")).result()
    busy.complete().result()
    turn.complete().result()
    assert kinds(log, turn=busy.id) == ["submitted", "worker_started", "assistant_started", "item", "completed"]
    repair_all(other)
    check_repaired(other)


def test_a_turn_is_not_opened_again_beside_one_that_runs(damaged: Store) -> None:
    """P7: while a turn of the thread runs, one whose end was lost waits; the step says so, and no write of others
    fails with it."""
    log = damaged.open()
    busy = log.submit("t", "question").result()
    busy.start().result()
    plan = log.plan_repair(log.audit())
    told = {step.action: step for step in log.repair(plan).steps}
    assert (told["reopen"].outcome, busy.id in (told["reopen"].detail or "")) == ("failed", True)
    assert {step.outcome for action, step in told.items() if action != "reopen"} == {"done"}
    busy.item(message("answer")).result()
    busy.complete().result()
    assert {step.outcome for step in log.repair(plan).steps} == {"done", "stale"}
    check_repaired(log)


def test_what_is_being_written_is_no_finding(store: Store) -> None:
    """P4, P7: an audit beside a writer that never rests finds nothing, whenever it looks."""
    log, other = store.open(), store.open()
    ended = threading.Event()

    def write() -> None:
        for number in count():
            with log.turn(f"t{number % 2}", "question") as turn:
                turn.draft("an ans").result()
                turn.item(call("c")).result()
                turn.step("c", kind="tool", status="succeeded").result()
                turn.item(message("an answer")).result()
            turn.item(message("late")).result()
            if ended.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    found: list[tuple[str, str | None]] = []
    try:
        eventually(lambda: "t1" in [row.thread for row in other.threads().rows])
        while other.thread("t0").head < 150:
            found += bad(other.audit())
    finally:
        ended.set()
        writer.join()
    assert found == []


def test_an_audit_does_not_settle(store: Store, log: Log) -> None:
    """P4: an audit by the engine alone tells of dead writers' turns and leaves them as they are."""
    turn = log.submit("t", "question").result()
    turn.start().result()
    store.kill(log)
    engine = store.engine()
    assert bad(audit_store(engine)) == [("pending", turn.id)]
    assert bad(audit_store(engine)) == [("pending", turn.id)]
    engine.close()


# --- what is meant is no damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["commit.before", "commit.after"])
def test_a_truncation_is_not_repaired_back(store: Store, place: str) -> None:
    """C12, P4: a thread that was shortened on purpose stays so, also when the process dies in any write of the
    truncation or of a repair after it: a truncation is no finding."""
    for k in count(1):
        thread = f"t{k}"
        log = store.open()
        turns = []
        for number in range(6):
            with log.turn(thread, f"question {number}") as turn:
                turn.item(message(f"answer {number}")).result()
            turns.append(turn.id)
        trap = store.faults(log).traps.set({place}, raising(StoreClosed), k=k, forever=True)
        with suppress(StoreError):
            log.truncate(thread, turns[2]).result()
            log.repair(log.plan_repair(log.audit()))
        fired = trap.fired
        store.kill(log)
        with store.open() as other:
            truncated = "thread_truncated" in kinds(other, thread)
            assert truncated or fired
            assert bad(other.audit()) == []
            repair_all(other)
            shown = [row.turn for row in other.turns(thread).rows if not row.hidden]
            assert sorted(shown) == sorted(turns[:2] if truncated else turns)
            assert kinds(other, thread).count("thread_truncated") == truncated
            store.kill(other)
        if not fired:
            break


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_a_fork_that_was_broken_off_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    """P4, P8: half a fork is one finding, in the middle of a turn too, of its thread and of the store, and the repair
    makes it whole."""
    monkeypatch.setattr(fork_job, "FORK_PAGE_EVENTS", 3)
    log = store.open()
    for number in range(3):
        with log.turn("t", f"question {number}") as turn:
            turn.item(message("answer")).result()
    store.faults(log).traps.set({"commit.before"}, raising(StoreClosed), k=k, forever=True)
    with suppress(StoreError):
        log.fork("t", "copy").result()
    store.kill(log)
    other = store.open()
    found = list(other.audit("copy"))
    assert [(each.kind, each.severity) for each in found] == [("unfinished_fork", "info")]
    assert found[0] in list(other.audit())
    assert {step.outcome for step in other.repair(other.plan_repair(found)).steps} == {"done"}
    assert [each.data for each in events(other, "copy")[:-1]] == [each.data for each in events(other, "t")]
    assert bad(other.audit("copy")) == []
