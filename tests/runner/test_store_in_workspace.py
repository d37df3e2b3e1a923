"""An agent that looks through the folder its own store lies in."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

import turnlog
from tests.runner.running import WAIT_S
from turnlog.agents.demo import DemoAgent, Pace
from turnlog.runner import run_turn

_SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_text("The lease is over.\n", "utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.md").write_text("Another lease.\n", "utf-8")
    return tmp_path


async def _no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def _url(workspace: Path) -> str:
    return f"sqlite:///{workspace}/chat.db"


async def _ask(log: turnlog.Log, workspace: Path) -> list[str | None]:
    """Let the demo agent search the workspace; the names of its sub-agents."""
    turn = await log.submit("t", "Where is the lease?")
    factory = partial(DemoAgent, pace=Pace(sleep=_no_wait))
    assert (await run_turn(turn, factory, log=log, workspace=workspace)).state == "completed"
    return [entry.name for entry in log.timeline("t", turn.id).entries if entry.kind == "subagent"]


def _try_exclusive(path: Path) -> None:
    """In another process: leaving WAL mode needs the lock that every open store shares."""
    db = apsw.Connection(str(path))
    try:
        db.pragma("journal_mode", "delete")
    except apsw.BusyError:
        return
    raise AssertionError("the store's lock was not held")


def test_an_agent_leaves_the_store_its_locks(workspace: Path) -> None:
    """P1: after an agent has read a folder with the open store in it, other processes still find the store locked."""
    with turnlog.open(_url(workspace)) as log:
        (workspace / "hard.md").hardlink_to(workspace / "chat.db")
        subagents = asyncio.run(_ask(log, workspace))
        other = _SPAWN.Process(target=_try_exclusive, args=(workspace / "chat.db",))
        other.start()
        other.join(WAIT_S)
        assert other.exitcode == 0
    assert subagents == ["sub/"]


def _come_and_go(workspace: Path) -> None:
    with turnlog.open(_url(workspace)) as log:
        log.submit("other", "hello").result()


def _live_and_die(workspace: Path, parent: Connection) -> None:
    async def live() -> None:
        log = turnlog.open(_url(workspace))
        await _ask(log, workspace)
        parent.send("asked")
        parent.recv()
        await log.submit("after", "acknowledged")
        parent.send("acknowledged")
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(live())


def test_what_is_acknowledged_after_an_agent_survives_a_kill(workspace: Path) -> None:
    """P1: an agent reads the folder of the store, another process opens and closes the store, a submission is
    acknowledged, the process is killed: the submission is there."""
    ours, theirs = _SPAWN.Pipe()
    doomed = _SPAWN.Process(target=_live_and_die, args=(workspace, theirs))
    doomed.start()
    assert ours.poll(WAIT_S)
    assert ours.recv() == "asked"
    other = _SPAWN.Process(target=_come_and_go, args=(workspace,))
    other.start()
    other.join(WAIT_S)
    assert other.exitcode == 0
    ours.send("go on")
    assert ours.poll(WAIT_S)
    assert ours.recv() == "acknowledged"
    doomed.join(WAIT_S)
    assert doomed.exitcode == -signal.SIGKILL
    with turnlog.open(_url(workspace)) as log:
        assert {row.thread for row in log.threads().rows} == {"t", "other", "after"}
