"""Many processes that open, write, read and checkpoint one store at once: nobody is told that it is locked."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable
from contextlib import closing
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import apsw

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.limits import WAL_PAGES_CHECKPOINT
from turnlog.testing import writes
from turnlog.testing.vfs import PowerVFS

from ..power.recording import NAME, open_log

PROCESSES = 8
STORES = 20
WAIT_S = 120.0

Told = tuple[int, str]
"""Which process, and what it has to say: a turn that it completed, or an error."""


def started(context: SpawnContext, processes: Iterable[SpawnProcess]) -> list[SpawnProcess]:
    running = list(processes)
    for process in running:
        process.start()
    return running


def ended(running: Iterable[SpawnProcess], results: SimpleQueue[Told]) -> list[Told]:
    """What all of them told, once they have ended."""
    told = []
    for process in running:
        while process.is_alive() or not results.empty():
            if results.empty():
                process.join(0.01)
            else:
                told.append(results.get())
    while not results.empty():
        told.append(results.get())
    return told


def open_all(folder: Path, number: int, gate: Barrier, results: SimpleQueue[Told]) -> None:
    """In a process: at one instant with the others, open each fresh store, write a turn, and close it again."""
    for store in range(STORES):
        gate.wait(WAIT_S)
        try:
            with open_log(folder / f"{store}") as log:
                turn = log.submit(f"T{number}", "hello").result()
                turn.start().result()
                turn.complete().result()
        except Exception as error:
            results.put((number, f"store {store}: {error!r}"))


def test_eight_processes_open_fresh_stores(tmp_path: Path) -> None:
    """C31: eight processes that make, open, write and close the same twenty stores at one instant meet no error, and
    each store has the turn of each."""
    for store in range(STORES):
        (tmp_path / f"{store}").mkdir()
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(PROCESSES), context.SimpleQueue()
    openers = [context.Process(target=open_all, args=(tmp_path, n, gate, results)) for n in range(PROCESSES)]
    assert ended(started(context, openers), results) == []
    assert [opener.exitcode for opener in openers] == [0] * PROCESSES
    for store in range(STORES):
        with open_log(tmp_path / f"{store}") as log:
            states = {row.thread: log.turns(row.thread).rows[0].state for row in log.threads().rows}
            assert states == {f"T{n}": "completed" for n in range(PROCESSES)}
            assert log.recovered == []


TURNS = 60


def write_turns(folder: Path, number: int, gate: Barrier, results: SimpleQueue[Told]) -> None:
    """In a process: one turn after the other, each told once it was acknowledged."""
    with open_log(folder) as log:
        gate.wait(WAIT_S)
        for n in range(TURNS):
            try:
                turn = log.submit(f"T{number}", "x" * 3_000, turn=f"{number}.{n}").result()
                turn.start().result()
                turn.complete().result()
            except Exception as error:
                results.put((number, repr(error)))
            else:
                results.put((number, turn.id))


def die_in_a_transaction(folder: Path, gate: Barrier) -> None:
    """In a process: SIGKILL itself between the write and the sync of a commit, with SQLite's lock and the gate held."""
    with PowerVFS("dying") as vfs:
        clock = SystemClock()
        log = Log(SqliteEngine(folder / NAME, clock, vfs=vfs.name), clock=clock)
        log.submit("dying", "acknowledged").result().interrupt("failed").result()
        gate.wait(WAIT_S)
        vfs.traps.set("sync.before", lambda place: os.kill(os.getpid(), signal.SIGKILL), part="wal", k=20)
        for n in range(100):
            log.submit(f"D{n}", "y").result()


def told_and_stored(folder: Path, told: list[Told]) -> None:
    """All was acknowledged, and all that was acknowledged is there."""
    assert sorted(told) == sorted(
        (number, f"{number}.{n}") for number in {number for number, _ in told} for n in range(TURNS)
    )
    with open_log(folder) as log:
        for number, turn in told:
            assert log.turn_view(f"T{number}", turn).state == "completed"
            heads = log.thread(f"T{number}").head
            assert heads == 1 + 3 * TURNS


def test_writers_beside_a_reader_and_a_death(tmp_path: Path) -> None:
    """C31, P1, P8: eight processes write while a reader holds a cursor and one more is killed inside a transaction:
    nobody meets an error, and nothing that was acknowledged is lost."""
    with open_log(tmp_path) as log:
        log.submit("first", "hello").result().interrupt("failed").result()
        context = multiprocessing.get_context("spawn")
        gate, results = context.Barrier(PROCESSES + 1), context.SimpleQueue()
        writers = [context.Process(target=write_turns, args=(tmp_path, n, gate, results)) for n in range(PROCESSES)]
        dying = context.Process(target=die_in_a_transaction, args=(tmp_path, gate))
        with closing(apsw.Connection(str(tmp_path / NAME), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
            cursor = reader.execute("SELECT seq FROM event")
            assert next(cursor) is not None
            told = ended(started(context, [*writers, dying]), results)
            assert dying.exitcode == -signal.SIGKILL
            assert len(list(cursor)) < 10, "the cursor saw what came after it"
        told_and_stored(tmp_path, told)
        assert log.turn_view("dying", log.turns("dying").rows[0].turn).state == "interrupted"
        log.recover()
        rows = [row for thread in log.threads(limit=200).rows for row in log.turns(thread.thread, limit=1).rows]
        assert {row.state for row in rows} <= {"completed", "interrupted"}


def checkpoint(folder: Path, stop: Event, results: SimpleQueue[Told]) -> None:
    """In a process: force checkpoints that empty the log, one after the other, with a plain connection."""
    db = apsw.Connection(str(folder / NAME))
    db.set_busy_timeout(10_000)
    emptied = 0
    while not stop.is_set():
        try:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            continue
        emptied += 1
    results.put((-1, f"{emptied}"))
    db.close()


def test_nothing_is_lost_beside_forced_checkpoints(tmp_path: Path) -> None:
    """C32, P1: while another program empties the write-ahead log again and again, four processes commit: no error, and
    every acknowledged turn is there."""
    open_log(tmp_path).close()
    context = multiprocessing.get_context("spawn")
    gate, results, stop = context.Barrier(4), context.SimpleQueue(), context.Event()
    writers = [context.Process(target=write_turns, args=(tmp_path, n, gate, results)) for n in range(4)]
    emptying = context.Process(target=checkpoint, args=(tmp_path, stop, results))
    started(context, [*writers, emptying])
    told = ended(writers, results)
    stop.set()
    told += ended([emptying], results)
    emptied = [int(text) for number, text in told if number == -1]
    assert emptied > [0], "nothing was checkpointed"
    told_and_stored(tmp_path, [one for one in told if one[0] >= 0])


def commit_large(folder: Path, number: int, gate: Barrier, results: SimpleQueue[Told]) -> None:
    """In a process: so many pages that several checkpoints are due, without a rest."""
    engine = SqliteEngine(folder / NAME, SystemClock(), wal_pregrown_bytes=0)
    gate.wait(WAIT_S)
    for n in range(WAL_PAGES_CHECKPOINT // 4):
        engine.commit([writes.note(f"T{number}", base=n, body=b"z" * 4_096 * 16)])
    results.put((number, str((folder / f"{NAME}-wal").stat().st_size)))
    engine.close()


def test_the_log_stays_short_however_many_write(tmp_path: Path) -> None:
    """C30, P11: the write-ahead log of processes that write without a rest is emptied by them, and does not grow on."""
    SqliteEngine(tmp_path / NAME, SystemClock()).close()
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(4), context.SimpleQueue()
    writers = [context.Process(target=commit_large, args=(tmp_path, n, gate, results)) for n in range(4)]
    sizes = [int(size) for _, size in ended(started(context, writers), results)]
    assert len(sizes) == 4
    assert max(sizes) < 1.5 * 4 * WAL_PAGES_CHECKPOINT * 4_096
