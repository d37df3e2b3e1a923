"""The turnstile: who wants to write is let in in the order of coming, and nobody is kept out by who stands still."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.engines.sqlite.turnstile import Turnstile, _Place
from turnlog.errors import StoreBusy
from turnlog.events.clock import SystemClock
from turnlog.held import is_held
from turnlog.testing import writes
from turnlog.testing.writes import commit

WAIT_S = 30.0


class Stands:
    """Turnstiles of one store, each standing for a process, and who is inside in which order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inside: list[str] = []
        self._made: list[Turnstile] = []

    def one(self, wait_s: float = WAIT_S) -> Turnstile:
        self._made.append(Turnstile(self.folder / "store.db", self.folder, wait_s))
        return self._made[-1]

    def enter(self, name: str, turnstile: Turnstile) -> threading.Thread:
        """Pass in a thread of its own."""

        def enter() -> None:
            with turnstile.passed():
                self.inside.append(name)

        thread = threading.Thread(target=enter)
        thread.start()
        return thread

    def close(self) -> None:
        for turnstile in self._made:
            turnstile.close()


@pytest.fixture
def stands(tmp_path: Path) -> Iterator[Stands]:
    stands = Stands(tmp_path)
    yield stands
    stands.close()


def locked(path: Path) -> bool:
    """Whether anybody holds the lock of a file."""
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another thread or process brings about."""
    pause, end = threading.Event(), time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        pause.wait(0.001)


def test_who_comes_out_does_not_overtake_who_waits(stands: Stands) -> None:
    """P8: who leaves the gate and wants in again at once is let in only after the one that waited."""
    first, second = stands.one(), stands.one()
    for _ in range(200):
        stands.inside.clear()
        with first.passed():
            waiting = stands.enter("second", second)
            eventually(lambda: locked(stands.folder / "line"))
        with first.passed():
            stands.inside.append("first again")
        waiting.join(WAIT_S)
        assert stands.inside == ["second", "first again"]


def test_who_waits_in_vain_goes_on(stands: Stands) -> None:
    """P8: somebody who stands still inside keeps each of the others for their wait, once; then they go on without."""
    still, other = stands.one(), stands.one(wait_s=0.05)
    with still.passed():
        for n in range(3):
            with other.passed():
                stands.inside.append(f"{n}")
    assert stands.inside == ["0", "1", "2"]


def test_giving_up_takes_the_turn_from_nobody(stands: Stands) -> None:
    """P8: when who stood still goes on, those who had given up do not keep the gate, and later pass it as ever."""
    still, other, third = stands.one(), stands.one(wait_s=0.05), stands.one()
    with still.passed(), other.passed():
        pass
    eventually(lambda: other._place is _Place.AWAY)
    with third.passed():
        stands.enter("other", other).join(WAIT_S)
        assert locked(stands.folder / "gate")
    eventually(lambda: other._place is _Place.AWAY)
    with other.passed():
        assert locked(stands.folder / "gate")


def test_closing_does_not_wait_for_who_stands_still(stands: Stands) -> None:
    """A store is closed though another process never leaves the gate, and the lock that was waited for is not kept."""
    still, other = stands.one(), stands.one(wait_s=0.05)
    with still.passed():
        with other.passed():
            pass
        other.close()
        other.close()
        assert locked(stands.folder / "gate")
    eventually(lambda: not locked(stands.folder / "gate") and not locked(stands.folder / "line"))
    eventually(lambda: not _open_files_of(stands.folder / "gate") - {still._gate})


def test_who_is_interrupted_while_waiting_leaves_the_line(stands: Stands, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: Ctrl-C ends the waiting; closing then waits for nobody, and the files are closed once, at the latest by who
    gets through."""
    holder, waiter = stands.one(), stands.one()
    wait_for = waiter._moved.wait_for

    def interrupted(condition: Callable[[], bool], timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return wait_for(condition, timeout)

    monkeypatch.setattr(waiter._moved, "wait_for", interrupted)
    files = (waiter._line, waiter._gate)
    with holder.passed():
        with pytest.raises(KeyboardInterrupt), waiter.passed():
            pytest.fail("it is not its turn")
        waiter.close()
    assert waiter._thread is not None
    waiter._thread.join(WAIT_S)
    assert not waiter._thread.is_alive()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def _open_files_of(path: Path) -> set[int]:
    if sys.platform != "linux":
        pytest.skip("only on Linux: the open files of a process")
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        try:
            if os.path.samestat(file.stat(), path.stat()):
                found.add(int(file.name))
        except FileNotFoundError:
            continue
    return found


def test_a_forked_child_holds_nothing(stands: Stands) -> None:
    """P8: a child that outlives its parent keeps nobody out, and what it closes takes nothing from its parent."""
    turnstile = stands.one()
    ready, go = os.pipe(), os.pipe()
    with turnstile.passed():
        child = os.fork()
        if child == 0:
            with turnstile.passed():
                turnstile.close()
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
        assert locked(stands.folder / "gate")
        # Closing a descriptor frees a lock only when no copy is open: the death of the parent does just that.
        os.close(turnstile._gate)
        assert not locked(stands.folder / "gate")
        turnstile._gate = os.open(stands.folder / "gate", os.O_RDWR)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for file in (*ready, *go):
        os.close(file)


def test_another_program_does_not_inherit_the_files(stands: Stands) -> None:
    """P8: a program that is started keeps no descriptor of the lock files, so it cannot keep a lock."""
    turnstile = stands.one()
    with turnstile.passed():
        program = "import os, sys; print([os.path.exists(f'/dev/fd/{n}') for n in map(int, sys.argv[1:])])"
        numbers = [str(turnstile._line), str(turnstile._gate)]
        told = subprocess.check_output([sys.executable, "-c", program, *numbers], close_fds=False, text=True)
    assert told.strip() == "[False, False]"


def test_the_files_are_private_and_held(stands: Stands, tmp_path: Path) -> None:
    """C37: the lock files are 0600 under any umask, and no tool of an agent opens them while they are in use."""
    before = os.umask(0o000)
    turnstile = stands.one()
    os.umask(before)
    found = [(tmp_path / name).lstat() for name in ("line", "gate")]
    assert [stat.S_IMODE(file.st_mode) for file in found] == [0o600] * 2
    assert [is_held(file) for file in found] == [True] * 2
    turnstile.close()
    assert [is_held(file) for file in found] == [False] * 2


def test_no_link_is_followed(tmp_path: Path) -> None:
    """C33: a link in the place of a lock file is refused, and what it leads to stays as it is."""
    (tmp_path / "precious").write_text("x")
    (tmp_path / "line").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        Turnstile(tmp_path / "store.db", tmp_path, WAIT_S)
    assert stat.S_IMODE((tmp_path / "precious").stat().st_mode) != 0o600


_STANDING_STILL = """
import os, signal, sys
from pathlib import Path
from turnlog.engines.sqlite.turnstile import Turnstile
folder = Path(sys.argv[1])
with Turnstile(folder.with_suffix(""), folder, 30.0).passed():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_process_that_stands_still_at_the_gate_blocks_no_commit(tmp_path: Path) -> None:
    """P8: a process stopped with the gate in its hand, but outside of a commit, keeps nobody from writing."""
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, SystemClock(), busy_wait_s=0.4)
    stopped = subprocess.Popen([sys.executable, "-c", _STANDING_STILL, f"{path}.owners"])
    os.waitpid(stopped.pid, os.WUNTRACED)
    try:
        for base in range(3):
            commit(engine, writes.note("T", base=base))
        SqliteEngine(path, SystemClock(), busy_wait_s=0.4).close()
        engine.close()
    finally:
        stopped.send_signal(signal.SIGKILL)
        stopped.wait()


def test_a_store_stays_busy_for_its_bound_and_no_longer(tmp_path: Path) -> None:
    """P8: who holds both the gate and SQLite's lock makes others busy within the bound; afterwards all goes on."""
    path = tmp_path / "store.db"
    engine, other = (SqliteEngine(path, SystemClock(), busy_wait_s=wait) for wait in (10.0, 0.4))

    def others_are_busy(db: apsw.Connection) -> float:
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            commit(other, writes.note("T", base=0))
        return time.monotonic() - began

    assert engine._write(others_are_busy) < 5.0
    commit(other, writes.note("T", base=0))
    commit(engine, writes.note("T", base=1))
    other.close()
    engine.close()


@pytest.mark.parametrize("step", ["opening", "closing"])
def test_opening_and_closing_wait_for_their_turn(tmp_path: Path, step: str) -> None:
    """C31: what opening and closing do to the whole file is done by one process at a time."""
    path = tmp_path / "store.db"
    first = SqliteEngine(path, SystemClock())
    stands = Stands(tmp_path / "store.db.owners")
    turnstile, done = stands.one(), threading.Event()

    def act() -> None:
        (SqliteEngine(path, SystemClock()) if step == "opening" else first).close()
        done.set()

    with turnstile.passed():
        acting = threading.Thread(target=act)
        acting.start()
        eventually(lambda: locked(path.with_name("store.db.owners") / "line"))
        assert not done.is_set()
    acting.join(WAIT_S)
    assert done.is_set()
    first.close()
    stands.close()
