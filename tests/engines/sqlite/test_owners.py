"""Owner locks on files."""

from __future__ import annotations

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "owners"


def test_a_forked_child_does_not_hold_the_lock(folder: Path) -> None:
    """P8: a child that outlives its parent's lock does not keep the parent alive for others."""
    locks = OwnerLocks(folder)
    locks.take("a")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    # Closing a descriptor frees a lock only when no copy is open: the death of the parent does just that.
    for file in locks._held.values():
        os.close(file)
    locks._held.clear()
    held = OwnerLocks(folder).is_held("a")
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for file in (*ready, *go):
        os.close(file)
    assert not held


def test_a_fork_leaves_the_lock_to_the_parent(folder: Path) -> None:
    """P7: what a forked child does at its end takes nothing from its parent."""
    locks = OwnerLocks(folder)
    locks.take("a")
    child = os.fork()
    if child == 0:
        locks.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert OwnerLocks(folder).is_held("a")
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


def test_the_kernel_frees_the_lock_of_a_killed_process(folder: Path) -> None:
    """P8: SIGKILL ends a lock, at once, and leaves the file."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    locks = OwnerLocks(folder)
    assert locks.is_held("a")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not locks.is_held("a")
    assert [path.name for path in folder.iterdir()] == ["a.lock"]


def test_a_missing_file_counts_as_free(folder: Path) -> None:
    """P8: no file, no holder."""
    assert not OwnerLocks(folder).is_held("a")


def test_two_who_look_do_not_take_each_other_for_the_holder(folder: Path) -> None:
    """P8: a lock that somebody is just looking at is still free."""
    locks = OwnerLocks(folder)
    locks.take("a")
    locks.close()
    with (folder / "a.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not locks.is_held("a")


def test_a_file_is_removed_only_under_its_lock(folder: Path) -> None:
    """P7: others cannot remove the file of a lock that is held."""
    locks, other = OwnerLocks(folder), OwnerLocks(folder)
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
    assert list((tmp_path / "store.db.owners").iterdir()) == []
    engine.close()


def test_a_lock_on_a_file_that_was_just_removed_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: when somebody removes the file between its opening and its locking, the lock is taken on a new file."""
    real, calls = fcntl.flock, []

    def flock(file: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (folder / "a.lock").unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    locks = OwnerLocks(folder)
    locks.take("a")
    assert OwnerLocks(folder).is_held("a")
    locks.close()


@pytest.mark.parametrize("owner", ["../x", "", "A", "a/b", "x" * 300, "\x00", "\ud83d", "."])
def test_no_owner_id_leaves_the_folder(folder: Path, owner: str) -> None:
    """C33: whatever its id, an owner has one file in the folder, and it is not another one's."""
    locks = OwnerLocks(folder)
    locks.take(owner)
    locks.take("a")
    assert len(list(folder.iterdir())) == 2
    assert list(folder.parent.iterdir()) == [folder]
    locks.close()
