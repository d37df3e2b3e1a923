"""Promises 1 and 3 on a disk that fails: what is synced, what is proved, and what is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from turnlog.engines.protocol import Done, Duplicate, Moved
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreBusy, StoreDamaged, StoreUnavailable
from turnlog.events.clock import SystemClock
from turnlog.limits import WAL_PAGES_CHECKPOINT, WAL_PREGROWN_BYTES
from turnlog.testing import writes
from turnlog.testing.vfs import PowerVFS
from turnlog.testing.writes import commit


@pytest.fixture
def vfs() -> Iterator[PowerVFS]:
    with PowerVFS("durable") as vfs:
        yield vfs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def _open(path: Path, vfs: PowerVFS | None = None) -> SqliteEngine:
    return SqliteEngine(path, SystemClock(), vfs=None if vfs is None else vfs.name, busy_wait_s=0.02)


@pytest.fixture
def engine(path: Path, vfs: PowerVFS) -> Iterator[SqliteEngine]:
    engine = _open(path, vfs)
    yield engine
    vfs.heal()
    engine.close()


def _syncs(vfs: PowerVFS) -> int:
    return vfs.traps.reached("sync.after", "wal")


def test_a_batch_is_one_sync(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """P1: however many writes a batch has, it is durable by exactly one sync, and not returned without it."""
    for size in (1, 100):
        before = _syncs(vfs)
        commit(engine, *[writes.note(f"T{size}-{n}", base=0) for n in range(size)])
        assert _syncs(vfs) == before + 1


def test_opening_syncs_before_it_reads(path: Path, vfs: PowerVFS) -> None:
    """P2: a store that a killed process left unsynced is made durable before anything of it can be shown."""
    _open(path, vfs).close()
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), part="wal")
    with pytest.raises(StoreUnavailable):
        _open(path, vfs)
    before = _syncs(vfs)
    engine = _open(path, vfs)
    assert _syncs(vfs) > before
    engine.close()


@pytest.mark.parametrize("code", [apsw.SQLITE_FULL, apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_WRITE])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_a_failed_commit_is_found_by_reading(engine: SqliteEngine, vfs: PowerVFS, code: int, k: int) -> None:
    """P1, C16: a commit that raised is stored or not, and submitting the same key again tells and completes it."""
    commit(engine, writes.note("T", base=0))
    vfs.fail(code, k=k, part="wal")
    try:
        commit(engine, writes.submission("T", "t1", base=1, key="k"))
    except StoreUnavailable:
        vfs.heal()
        (outcome,) = commit(engine, writes.submission("T", "t1", base=1, key="k"))
        assert isinstance(outcome, Done | Duplicate)
    finally:
        vfs.heal()
    assert engine.tail("T", after=1, rev=0, limit=9).head == 2
    assert len(engine.turns(thread="T", key="k", limit=9).rows) == 1


def test_a_disk_that_stays_full_refuses_every_write(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """Promise 3, C16: while no small write can be proved, commits and leases are refused; then all works again by
    itself, and nothing of the refused ones is there."""
    commit(engine, writes.note("T", base=0))
    vfs.fail(apsw.SQLITE_FULL, forever=True)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            commit(engine, writes.note("T", base=1))
        with pytest.raises(StoreUnavailable):
            engine.lease("owner1", 30.0)
    assert engine.tail("T", after=0, rev=0, limit=9).head == 1
    vfs.heal()
    assert commit(engine, writes.note("T", base=1)) == [Done(head=2, rev=0, fence=0)]


def test_after_a_raise_it_proves_before_it_decides(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """Promise 3: the first write after a raise is preceded by a synced one of its own; a later one is not."""
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), part="wal")
    with pytest.raises(StoreUnavailable):
        commit(engine, writes.note("T", base=0))
    counts = []
    for base in (0, 1):
        before = _syncs(vfs)
        assert commit(engine, writes.note("T", base=base)) == [Done(head=base + 1, rev=0, fence=0)]
        counts.append(_syncs(vfs) - before)
    assert counts == [2, 1]


def test_a_proof_that_fails_refuses_the_write(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """Promise 3: a write behind a failed proof is not tried, though it would succeed."""
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), k=1, part="wal")
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), k=2, part="wal")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            commit(engine, writes.note("T", base=0))
    assert engine.threads(limit=9).rows == ()
    assert commit(engine, writes.note("T", base=0)) == [Done(head=1, rev=0, fence=0)]


def test_what_a_failed_commit_wrote_does_not_come_back(path: Path, vfs: PowerVFS) -> None:
    """Promise 3: after the engine has proved itself, a commit that failed in its sync is gone for good, also for a
    process that recovers the log from its file."""
    engine = _open(path, vfs)
    commit(engine, writes.note("T", base=0))
    vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), part="wal")
    with pytest.raises(StoreUnavailable):
        commit(engine, writes.note("lost", base=0))
    commit(engine, writes.note("T", base=1))
    copy = path.parent / "copy" / "store.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    engine.close()
    recovered = _open(copy)
    assert [row.thread for row in recovered.threads(limit=9).rows] == ["T"]
    recovered.close()


def test_a_writer_elsewhere_makes_it_busy(path: Path, engine: SqliteEngine, vfs: PowerVFS) -> None:
    """P8: a process that stopped inside a commit costs others a bounded wait; nothing is written, and they go on by
    themselves, with nothing to prove."""
    other = apsw.Connection(str(path), vfs=vfs.name)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        commit(engine, writes.note("T", base=0))
    other.execute("ROLLBACK")
    other.close()
    before = _syncs(vfs)
    assert commit(engine, writes.note("T", base=0)) == [Done(head=1, rev=0, fence=0)]
    assert _syncs(vfs) == before + 1


def test_a_failed_checkpoint_fails_no_commit(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """P1: when the log grows long, a commit empties it after it is durable, and is not undone if that fails."""
    vfs.fail(apsw.SQLITE_IOERR_WRITE, on=("write",), part="db", forever=True)
    big = [writes.note(f"T{n}", base=0, body=b"x" * 60_000) for n in range(300)]
    assert {type(outcome) for outcome in engine.commit(big)} == {Done}
    vfs.heal()
    assert commit(engine, writes.note("T0", base=0)) == [Moved(head=1)]
    assert len(engine.threads(limit=999).rows) == 300


def test_the_log_stays_bounded_when_busy(path: Path) -> None:
    """P11: without a pause to rest, the write-ahead log does not outgrow four times its mark by more than a batch."""
    engine = _open(path)
    log = path.with_name("store.db-wal")
    for base in range(60):
        engine.commit([writes.note(f"T{n}", base=base, body=b"x" * 60_000) for n in range(20)])
    pages = log.stat().st_size / 4_096
    engine.close()
    assert pages < 5 * WAL_PAGES_CHECKPOINT


def test_resting_grows_the_log_and_not_the_store(path: Path) -> None:
    """C30: the log is grown once, before it is needed, and neither grows nor shrinks by what follows; the file of the
    store stays small."""
    engine = _open(path)
    log = path.with_name("store.db-wal")
    commit(engine, writes.note("T", base=0))
    engine.rest()
    grown = log.stat().st_size
    assert grown >= WAL_PREGROWN_BYTES
    for base in range(1, 200):
        engine.commit([writes.note("T", base=base, body=b"x" * 60_000)])
        engine.rest()
    assert log.stat().st_size == grown
    assert engine.tail("T", after=0, rev=0, limit=99).head == 200
    engine.close()
    assert not log.exists()
    assert path.stat().st_size < 1.1 * 200 * 60_000


def test_a_disk_without_room_for_the_log_is_no_error(engine: SqliteEngine, vfs: PowerVFS) -> None:
    """C16: growing the log ahead is only for speed; where it fails, or another writer is busy, resting goes on."""
    vfs.fail(apsw.SQLITE_FULL, on=("write",), k=50, part="wal")
    engine.rest()
    assert commit(engine, writes.note("T", base=0)) == [Done(head=1, rev=0, fence=0)]


def test_resting_waits_for_no_other_writer(path: Path) -> None:
    """P8: a process stopped inside a commit holds nobody up that has nothing to write."""
    engine = SqliteEngine(path, SystemClock(), busy_wait_s=3_600.0)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    engine.rest()
    other.close()
    log = path.with_name("store.db-wal")
    assert log.stat().st_size < WAL_PREGROWN_BYTES
    engine.rest()
    assert log.stat().st_size >= WAL_PREGROWN_BYTES
    engine.close()


def test_two_may_rest_at_once(path: Path, engine: SqliteEngine, vfs: PowerVFS) -> None:
    """C31: emptying the log while another engine is at it is no error, and waits for nobody."""
    other = _open(path, vfs)
    for writer, thread in ((engine, "A"), (other, "B")):
        writer.commit([writes.note(thread, base=base, body=b"x" * 60_000) for base in range(80)])
    with vfs.traps.hold("write.before", part="db") as hold:
        resting = threading.Thread(target=other.rest)
        resting.start()
        hold.wait_held()
        engine.rest()
        hold.release()
        resting.join()
    other.close()
    assert [engine.tail(thread, after=0, rev=0, limit=1).head for thread in "AB"] == [80, 80]


def test_the_last_one_out_leaves_one_file(path: Path) -> None:
    """After every engine is closed, all is in the store's own file; only lock files lie beside it."""
    first, second = _open(path), _open(path)
    commit(first, writes.note("T", base=0))
    first.close()
    commit(second, writes.note("T", base=1))
    second.close()
    assert sorted(found.name for found in path.parent.rglob("*")) == ["gate", "line", "store.db", "store.db.owners"]


def test_damage_is_told_as_damage(path: Path) -> None:
    """P4: pages that are no database pages raise `StoreDamaged`."""
    engine = _open(path)
    engine.commit([writes.note(f"T{n}", base=0, body=b"x" * 5_000) for n in range(50)])
    engine.close()
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        _open(path)
