"""The k-th durable write fails, for every k, once or for good: what was acknowledged stays, and the log goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw
import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreError, StoreUnavailable
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Trap
from turnlog.testing.vfs import PowerVFS

from ..power.recording import NAME, open_log, record, scratch
from ..proof.checker import check
from ..proof.facts import Accepted, Account
from ..proof.playing import playing
from ..proof.scripts import Script, answering, brief, halting, waiting
from ..proof.stored import read_store

Arm = Callable[[PowerVFS, int], Trap]


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as place:
        yield place


def everything() -> list[Script]:
    """Turns of every kind, in few and large commits."""
    return [
        answering("answered", "a", long=True, key="k-a"),
        halting("halted", "h", long=True),
        waiting("waiting", "w"),
    ]


def shortest() -> list[Script]:
    """One short turn: few enough writes to fail each page of each commit."""
    return [brief("brief", "b", key="k-b")]


def syncs(code: int, *, forever: bool) -> Arm:
    return lambda vfs, k: vfs.fail(code, on=("sync",), k=k, forever=forever)


def writes(code: int, *, forever: bool) -> Arm:
    return lambda vfs, k: vfs.fail(code, on=("write",), k=k, forever=forever)


def commits(place: str, *, forever: bool) -> Arm:
    def fail() -> None:
        raise StoreUnavailable(detail="on purpose")

    return lambda vfs, k: vfs.traps.set(place, lambda _: fail(), k=k, forever=forever)


SWEEPS: list[tuple[str, Arm, Callable[[], list[Script]]]] = [
    ("a sync once", syncs(apsw.SQLITE_IOERR_FSYNC, forever=False), everything),
    ("a sync for good", syncs(apsw.SQLITE_IOERR_FSYNC, forever=True), everything),
    ("a commit before it is stored", commits("commit.before", forever=False), everything),
    ("a commit after it is stored", commits("commit.after", forever=False), everything),
    ("commits for good", commits("commit.before", forever=True), everything),
    ("stored commits for good", commits("commit.after", forever=True), everything),
    ("a full disk once", writes(apsw.SQLITE_FULL, forever=False), shortest),
    ("a full disk for good", writes(apsw.SQLITE_FULL, forever=True), shortest),
]


@pytest.mark.parametrize(("arm", "scripts"), [sweep[1:] for sweep in SWEEPS], ids=[sweep[0] for sweep in SWEEPS])
def test_the_kth_failure_loses_nothing(
    arm: Arm, scripts: Callable[[], list[Script]], folder: Path, record_property: Callable[[str, object], None]
) -> None:
    """C11, C16, P1, P2, P3, P5, P6: at each k nothing acknowledged is lost, and a healed disk is written to again."""
    found = list[str]()
    for k in count(1):
        place = folder / str(k)
        place.mkdir()
        fired, wrong = asyncio.run(failing_at(k, arm, scripts(), place))
        found += [f"k={k}: {problem}" for problem in wrong]
        if not fired:
            break
    record_property("failed_writes", k - 1)
    assert k > 5
    assert not found, "\n".join(found[:20])


def test_a_recovery_that_fails_is_repeated(folder: Path, record_property: Callable[[str, object], None]) -> None:
    """P8: at each k at which the disk fails a recovery, the next one settles what it left, and loses nothing."""
    recording = record(folder / "live")
    facts, found = recording.account.by(recording.end.position), list[str]()
    for k in count(1):
        place = folder / str(k)
        recording.end.all().write(place)
        with PowerVFS(f"failing {k}") as vfs:
            trap = vfs.fail(apsw.SQLITE_IOERR_FSYNC, on=("sync",), k=k)
            with suppress(StoreError):
                open_log(place, vfs.name).close()
        open_log(place).close()
        found += [f"k={k}: {problem}" for problem in check(read_store(place / NAME), facts, recording.scripts)]
        if not trap.fired:
            break
    record_property("failed_writes", k - 1)
    assert k > 5
    assert not found, "\n".join(found[:20])


async def failing_at(k: int, arm: Arm, scripts: Sequence[Script], folder: Path) -> tuple[bool, list[str]]:
    """Play with the k-th failure, heal, submit again, close, reopen: whether it came to that, and what is wrong."""
    account = Account()
    clock = SystemClock()
    with PowerVFS(f"failing {folder.name}") as vfs:
        engine = FaultEngine(SqliteEngine(folder / NAME, clock, vfs=vfs.name, wal_pregrown_bytes=0), vfs.traps)
        log = Log(engine, clock=clock)
        trap = arm(vfs, k)
        async with playing(log, account, scripts, patient=False) as stage:
            vfs.heal()
            odd = [error for error in stage.failures if not isinstance(error, StoreError)]
        problems = [f"told as {error!r}" for error in odd]
        problems += await submit_again(log, account, scripts)
        log.close()
    problems += check(read_store(folder / NAME), account.facts, scripts, settled=False)
    open_log(folder).close()
    return trap.fired > 0, problems + check(read_store(folder / NAME), account.facts, scripts)


async def submit_again(log: Log, account: Account, scripts: Sequence[Script]) -> list[str]:
    """P1, P6: the same submission tells what became of it, and makes it if nothing did."""
    problems = []
    known = {(fact.thread, fact.turn) for fact in account.facts if isinstance(fact, Accepted)}
    for script in scripts:
        turn = await log.submit(script.thread, script.content, key=script.key, turn=script.turn)
        account.add(Accepted(thread=script.thread, turn=turn.id, content=script.content, key=script.key))
        if turn.id != script.turn:
            problems.append(f"{script.turn} became {turn.id}")
        if (script.thread, script.turn) in known and not turn.duplicate:
            problems.append(f"{script.turn} was accepted twice")
    return problems
