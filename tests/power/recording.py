"""Recordings of scripted turns on a disk that can lose what was not synced, and what a crash leaves of them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from turnlog.engines.sqlite import wal
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.disk import Disk, Image, Point
from turnlog.testing.vfs import PowerVFS

from ..proof.checker import check
from ..proof.facts import Account, Fact, ShownEvent
from ..proof.playing import playing
from ..proof.scripts import Script, standard
from ..proof.stored import read_store

NAME = "store.db"

WAL_GROWN_BYTES = 64 * 1_024
PAGES_CHECKPOINT = 80
"""Small enough that scripted turns grow the log, checkpoint it and begin it anew several times."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for thousands of crashed stores: in memory where the system has such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def often_checkpointed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let engines checkpoint within a scripted turn."""
    monkeypatch.setattr(wal, "WAL_PAGES_CHECKPOINT", PAGES_CHECKPOINT)


def open_log(folder: Path, vfs: str | None = None) -> Log:
    """A log on the store in `folder`."""
    clock = SystemClock()
    grown = 0 if vfs is None else WAL_GROWN_BYTES
    return Log(SqliteEngine(folder / NAME, clock, vfs=vfs, wal_pregrown_bytes=grown), clock=clock)


@dataclass
class Recording:
    """What was played, what became known of it when, and the moment (`end`) from which on all is settling."""

    disk: Disk
    account: Account
    scripts: list[Script]
    end: Point


def record(folder: Path) -> Recording:
    """Play the standard scripts in `folder`, from the first byte of the store to the last of its closing."""
    return asyncio.run(_record(folder))


async def _record(folder: Path) -> Recording:
    folder.mkdir()
    disk, scripts = Disk(), standard()
    account = Account(lambda: disk.position)
    with PowerVFS(f"power {folder.name}", disk=disk) as vfs:
        log = open_log(folder, vfs.name)
        try:
            async with playing(log, account, scripts) as stage:
                end = disk.now()
            assert not stage.failures
        finally:
            log.close()
    return Recording(disk, account, scripts, end)


@dataclass
class Recovery:
    """A recovery after a kill, recorded: what the next process showed, and the disk beneath it."""

    disk: Disk
    account: Account


def recover(point: Point, folder: Path) -> Recovery:
    """Kill at `point`, and let the next process recover and show what there is, on the same disk."""
    disk = point.killed(folder)
    account = Account(lambda: disk.position)
    with PowerVFS(f"recovery {folder.name}", disk=disk) as vfs, open_log(folder, vfs.name) as log:
        for thread in log.threads().rows:
            for event in log.events(thread.thread):
                account.add(
                    ShownEvent(
                        thread=thread.thread, turn=event.turn or "", seq=event.seq, kind=event.kind, data=event.data
                    )
                )
    return Recovery(disk, account)


def wrong_after(
    image: Image, folder: Path, facts: list[Fact], scripts: list[Script], *, again: bool = True
) -> list[str]:
    """Start again from `image`: what is wrong with the recovered store, and, `again`, with a second recovery."""
    image.write(folder)
    open_log(folder).close()
    stored = read_store(folder / NAME)
    found = check(stored, facts, scripts)
    if again:
        open_log(folder).close()
        if read_store(folder / NAME) != stored:
            found.append("a second recovery changed something")
    shutil.rmtree(folder)
    return found
