"""Power loss under the sqlite engine: commits, drafts, checkpoints, the grown log, closing, opening again."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from turnlog.engines.protocol import Phase
from turnlog.errors import StoreError, StoreUnavailable
from turnlog.testing.disk import Disk
from turnlog.testing.traps import raising
from turnlog.testing.vfs import PowerVFS

from .states import OWNER, STEPS, Script, open_store, state_in, state_of

SUBSETS = 6


def run_script(folder: Path, disk: Disk, *, wal_pregrown_bytes: int = 0) -> Script:
    """Three turns, checkpoints between them, the store closed and opened again before the last."""
    folder.mkdir()
    script = Script(open_store(folder, "power", wal_pregrown_bytes=wal_pregrown_bytes), disk)
    script.remember()
    script.engine.lease(OWNER, 30.0)
    script.engine.rest()
    script.turn("a", "first")
    script.turn("b", "second")
    script.engine.rest()
    script.engine.close()
    script.engine = open_store(folder, "power")
    script.engine.lease(OWNER, 30.0)
    script.turn("a", "third")
    script.engine.lease(OWNER, 0)
    script.engine.close()
    return script


@pytest.mark.parametrize("wal_pregrown_bytes", [0, 256 * 1_024])
@pytest.mark.parametrize("checkpoint_pages", [1, 1_000])
def test_no_acknowledged_write_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wal_pregrown_bytes: int, checkpoint_pages: int
) -> None:
    """P1, P2: at every sync, whatever the disk kept, a restart finds a state between the acknowledged one and the next.

    Checkpoints after every commit, or only when the store is closed.
    """
    monkeypatch.setattr("turnlog.engines.sqlite.wal._BUSY_PAGES", checkpoint_pages)
    disk = Disk()
    with PowerVFS("power", disk=disk):
        script = run_script(tmp_path / "live", disk, wal_pregrown_bytes=wal_pregrown_bytes)
    wrong = []
    opened = [point for point in disk.points if point.position >= script.states[0][0]]
    for number, point in enumerate(opened):
        expected = script.expected_at(point.position)
        for n, image in enumerate(point.images(SUBSETS)):
            if state_in(image, tmp_path / f"{number}-{n}") not in expected:
                wrong.append((point, image.kept))
    assert len(opened) > 60
    assert wrong == []


def test_a_store_whose_creation_lost_power_can_be_created_again(tmp_path: Path) -> None:
    """Before the first opening returned, no image of the disk is refused: nobody has anything to lose in it."""
    disk = Disk()
    (tmp_path / "live").mkdir()
    with PowerVFS("power", disk=disk):
        open_store(tmp_path / "live", "power").close()
    refused = []
    for number, point in enumerate(disk.points):
        for n, image in enumerate(point.images(60)):
            try:
                assert state_in(image, tmp_path / f"{number}-{n}") == {}
            except StoreError as error:
                refused.append((point, type(error).__name__, image.kept))
    assert refused == []


def test_what_a_reopened_store_shows_is_durable(tmp_path: Path) -> None:
    """P2: after a kill at any sync, opening makes durable what it shows: a power loss right after takes none of it."""
    disk = Disk()
    with PowerVFS("power", disk=disk):
        run_script(tmp_path / "live", disk)
    for number, point in enumerate(disk.points):
        after = point.killed(tmp_path / f"killed-{number}")
        with PowerVFS("power", disk=after):
            engine = open_store(tmp_path / f"killed-{number}", "power")
            shown = state_of(engine)
            lost = after.now()
            engine.close()
        assert state_in(lost.none(), tmp_path / f"lost-{number}") == shown, point


@pytest.mark.parametrize(
    ("code", "place", "forever"),
    [
        (apsw.SQLITE_FULL, "write.before", False),
        (apsw.SQLITE_FULL, "write.before", True),
        (apsw.SQLITE_IOERR_WRITE, "write.after", False),
        (apsw.SQLITE_IOERR_FSYNC, "sync.before", False),
        (apsw.SQLITE_IOERR_FSYNC, "sync.before", True),
        (apsw.SQLITE_IOERR_FSYNC, "sync.after", False),
    ],
)
def test_the_kth_failure_leaves_one_write_in_doubt(tmp_path: Path, code: int, place: str, forever: bool) -> None:
    """P1: for every k, what failed can be tried again once the disk works, and what is on the disk is known then."""
    for k in range(1, 1_000):
        disk = Disk()
        (tmp_path / f"live-{k}").mkdir()
        with PowerVFS("power", disk=disk) as vfs:
            script = Script(open_store(tmp_path / f"live-{k}", "power"), disk)
            script.engine.lease(OWNER, 30.0)
            script.remember()
            trap = vfs.traps.set(place, raising(lambda: apsw.exception_for(code)), k=k, forever=forever)
            failures = sum(commit_stubbornly(script, vfs, step) for step in STEPS)
            assert failures == (trap.fired > 0)
            end = disk.now()
            vfs.heal()
            script.engine.close()
        assert state_in(end.none(), tmp_path / f"crashed-{k}") == script.states[-1][1]
        assert state_in(end.all(), tmp_path / f"killed-{k}") == script.states[-1][1]
        if not trap.fired:
            break
    else:
        pytest.fail("the script never ran to its end")
    assert k > len(STEPS)


def commit_stubbornly(script: Script, vfs: PowerVFS, step: str) -> int:
    """Commit a step, a second time when it failed; how often it failed."""
    try:
        script.commit(script.write(step, "a", "first"))
    except StoreUnavailable:
        vfs.heal()
        assert state_of(script.engine) == script.states[-1][1]
        script.commit(script.write(step, "a", "first"))
        return 1
    return 0


def test_a_held_sync_shows_nothing(tmp_path: Path) -> None:
    """Promise 1 of engines, P2: while the sync of a commit is held, no reader sees the write."""
    with PowerVFS("power") as vfs:
        engine = open_store(tmp_path, "power")
        engine.lease(OWNER, 30.0)
        script = Script(engine, Disk())
        before = state_of(engine)
        writing = threading.Thread(target=engine.commit, args=([script.write("submit", "a", "first")],))
        with vfs.hold(part="wal") as hold:
            writing.start()
            hold.wait_held()
            assert state_of(engine) == before
        writing.join()
        assert script.row("a", "first").phase is Phase.SUBMITTED
        engine.close()
