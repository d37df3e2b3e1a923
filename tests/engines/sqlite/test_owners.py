"""Owner locks on files."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.engines.sqlite.owners import OwnerLocks
from turnlog.errors import StoreError
from turnlog.events.clock import SystemClock
from turnlog.limits import DEAD_OWNERS_MAX
from turnlog.testing.clock import ManualClock


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "store.db"
    store.touch()
    return store


@pytest.fixture
def folder(store: Path) -> Path:
    return store.with_name("store.db.owners")


def test_a_forked_child_does_not_hold_the_lock(store: Path) -> None:
    """P8: a child that outlives its parent's lock does not keep the parent alive for others."""
    locks = OwnerLocks(store)
    locks.take("a")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    # Closing a descriptor frees a lock only when no copy is open: the death of the parent does just that.
    for file in locks._locks.values():
        os.close(file)
    locks._locks.clear()
    held = OwnerLocks(store).is_held("a")
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for file in (*ready, *go):
        os.close(file)
    assert not held


def test_a_fork_leaves_the_lock_to_the_parent(store: Path) -> None:
    """P7: what a forked child does at its end takes nothing from its parent."""
    locks = OwnerLocks(store)
    locks.take("a")
    child = os.fork()
    if child == 0:
        locks.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert OwnerLocks(store).is_held("a")
    locks.close()


_HOLDER = """
import sys, time
from pathlib import Path
from turnlog.engines.sqlite.owners import OwnerLocks
locks = OwnerLocks(Path(sys.argv[1]))
locks.take("a")
print("held", flush=True)
time.sleep(600)
"""


def test_the_kernel_frees_the_lock_of_a_killed_process(store: Path, folder: Path) -> None:
    """P8: SIGKILL ends a lock, at once, and leaves the file."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(store)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    locks = OwnerLocks(store)
    assert locks.is_held("a")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not locks.is_held("a")
    assert [path.name for path in folder.iterdir()] == ["a.lock"]


def test_a_missing_file_counts_as_free(store: Path) -> None:
    """P8: no file, no holder."""
    assert not OwnerLocks(store).is_held("a")


def test_two_who_look_do_not_take_each_other_for_the_holder(store: Path, folder: Path) -> None:
    """P8: a lock that somebody is just looking at is still free."""
    locks = OwnerLocks(store)
    locks.take("a")
    locks.close()
    with (folder / "a.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not locks.is_held("a")


def test_a_file_is_removed_only_under_its_lock(store: Path, folder: Path) -> None:
    """P7: others cannot remove the file of a lock that is held."""
    locks, other = OwnerLocks(store), OwnerLocks(store)
    locks.take("a")
    other.remove("a")
    assert (folder / "a.lock").exists()
    with pytest.raises(StoreError):
        other.take("a")
    locks.remove("a")
    assert list(folder.iterdir()) == []


def test_lock_files_do_not_pile_up(tmp_path: Path) -> None:
    """P11: owners that end, and dead ones that are cleaned up, leave no files."""
    path = tmp_path / "store.db"
    for n in range(3):
        engine = SqliteEngine(path, SystemClock())
        engine.lease(f"ended{n}", 30.0)
        engine.lease(f"ended{n}", 0.0)
        engine.lease(f"died{n}", 30.0)
        engine.close()
    engine = SqliteEngine(path, SystemClock())
    for owner in engine.dead_owners(limit=99):
        engine.lease(owner, 0.0)
    assert list((tmp_path / "store.db.owners").glob("*.lock")) == []
    engine.close()


def test_a_lock_on_a_file_that_was_just_removed_is_none(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: when somebody removes the file between its opening and its locking, the lock is taken on a new file."""
    real, calls = fcntl.flock, []

    def flock(file: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (folder / "a.lock").unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    locks = OwnerLocks(store)
    locks.take("a")
    assert OwnerLocks(store).is_held("a")
    locks.close()


@pytest.mark.parametrize("owner", ["../x", "", "A", "a/b", "x" * 300, "\x00", "\ud83d", "."])
def test_no_owner_id_leaves_the_folder(store: Path, folder: Path, owner: str) -> None:
    """C33: whatever its id, an owner has one file in the folder, and it is not another one's."""
    locks = OwnerLocks(store)
    locks.take(owner)
    locks.take("a")
    assert len(list(folder.iterdir())) == 2
    assert sorted(folder.parent.iterdir()) == [store, folder]
    locks.close()


def test_what_root_makes_belongs_to_the_owner_of_the_store(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: lock file and folder that root makes are given to the store's owner, whose service could not look at them."""
    given = {}

    def fchown(file: int, user: int, group: int) -> None:
        given[os.fstat(file).st_ino] = (user, group)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", fchown)
    OwnerLocks(store).take("a")
    owner = (store.stat().st_uid, store.stat().st_gid)
    assert given == {path.stat().st_ino: owner for path in (folder, folder / "a.lock")}


def _keep_from_us(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let opening files of this name be refused, as it is to everybody but root."""
    real = os.open

    def refusing(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).endswith(name):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)


def test_the_lease_decides_about_a_lock_that_we_may_not_look_at(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7, P8: the owner of a lock file that may not be opened is alive while its lease runs, and then dead; ending its
    lease works."""
    clock = ManualClock()
    other, engine = SqliteEngine(store, clock), SqliteEngine(store, clock)
    other.lease("roots", 30.0)
    other.close()
    _keep_from_us(monkeypatch, "roots.lock")
    assert engine.dead_owners(limit=9) == []
    clock.advance(30.0)
    assert engine.dead_owners(limit=9) == ["roots"]
    engine.lease("roots", 0.0)
    assert engine.dead_owners(limit=9) == []
    engine.lease("ours", 30.0)
    engine.close()


def test_lock_files_without_a_row_go(store: Path, folder: Path) -> None:
    """P11: what processes left that were killed between lock and row goes with the next one that starts to write; locks
    that are held, or whose owner has a row, and files of others stay."""
    living = OwnerLocks(store)
    living.take("living")
    killed = OwnerLocks(store)
    for n in range(DEAD_OWNERS_MAX + 5):
        killed.take(f"killed{n}")
    killed.close()
    (folder / "notes.txt").touch()
    (folder / "folder.lock").mkdir()
    engine = SqliteEngine(store, SystemClock())
    engine.lease("dead", 30.0)
    assert len(list(folder.glob("*.lock"))) - 3 in (5, 6)  # whether the living one was among those looked at
    engine.close()
    engine = SqliteEngine(store, SystemClock())
    engine.lease("new", 30.0)
    left = {path.name for path in folder.iterdir()} - {"line", "gate"}
    assert left == {"living.lock", "dead.lock", "new.lock", "notes.txt", "folder.lock"}
    engine.close()
    living.close()
