"""What processes leave that end in bad ways, and how long others wait for them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreBusy
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Submitted
from turnlog.testing.killing import Child

from ..power.recording import NAME, open_log

ROOT = Path(__file__).parents[2]
BUSY_WAIT_S = 0.2

OPENING = """
import asyncio, os, signal, sys
from pathlib import Path
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.runner import run_turn
from turnlog.testing.killing import report
from turnlog.testing.vfs import PowerVFS

def opened(folder, vfs=None):
    clock = SystemClock()
    return Log(SqliteEngine(Path(folder) / "store.db", clock, vfs=vfs), clock=clock)
"""


def child(folder: Path, body: str, *arguments: str, store: Path | None = None) -> Child:
    """A process whose script begins with `OPENING`. It lies in `folder`, and so does the store unless it is given."""
    script = folder / "script.py"
    script.write_text(OPENING + body)
    given = (str(store or folder), *arguments)
    return Child(script, given, folder=folder, environment={"PYTHONPATH": str(ROOT / "src")})


IN_THE_FIRST_LINE = """
class Agent:
    name = version = "1"
    async def run(self, task, emit):
        os._exit(137)

async def main():
    log = opened(sys.argv[1])
    await run_turn(await log.submit("T", "hello \\u2028"), Agent, log=log)

asyncio.run(main())
"""


def test_death_in_the_first_line_of_the_agent(tmp_path: Path) -> None:
    """C01, P1: the message of a turn whose process dies as the agent begins is there, interrupted, with no answer."""
    with child(tmp_path, IN_THE_FIRST_LINE) as dying:
        assert dying.reap() == 137
    with open_log(tmp_path) as log:
        (row,) = log.turns("T").rows
        events = list(log.events("T", turn=row.turn))
        assert isinstance(events[0].body, Submitted)
        assert events[0].body.content == "hello \u2028"
        assert [event.kind for event in events[1:]] == ["worker_started", "interrupted"]
        assert (row.state, row.reason) == ("interrupted", "process_died")


THREE_TURNS = """
log = opened(sys.argv[1])
for n in range(3):
    turn = log.submit(f"T{n}", "hello").result()
    turn.start().result()
    turn.draft("so far").result()
report("running")
signal.pause()
"""


def test_no_turn_outlives_its_process(tmp_path: Path) -> None:
    """C06, P8: of four killed processes with three turns each nothing runs; a second recovery changes nothing."""
    for _ in range(4):
        with child(tmp_path, THREE_TURNS) as running:
            running.wait_for(lambda lines: lines == ["running"])
            running.kill()
    with open_log(tmp_path) as log:
        rows = [row for n in range(3) for row in log.turns(f"T{n}").rows]
        assert [(row.state, row.reason) for row in rows] == [("interrupted", "process_died")] * 12
        heads = [log.thread(f"T{n}").head for n in range(3)]
        assert log.recover() == []
        assert [log.thread(f"T{n}").head for n in range(3)] == heads


STOPPED_IN_A_COMMIT = """
def stop(place):
    report("in a commit")
    os.kill(os.getpid(), signal.SIGSTOP)

with PowerVFS("stopping") as vfs:
    log = opened(sys.argv[1], "stopping")
    log.submit("T", "before").result().interrupt("failed").result()
    vfs.traps.set("sync.before", stop, part="wal")
    log.submit("T", "in between").result()
    log.close()
"""


def test_a_process_stopped_in_a_commit_blocks_for_a_while(tmp_path: Path) -> None:
    """P8: others are told that the store is busy, within a bound, and go on by themselves once it continues."""
    with child(tmp_path, STOPPED_IN_A_COMMIT) as stopped:
        stopped.wait_for(lambda lines: lines == ["in a commit"])
        with pytest.raises(StoreBusy):
            SqliteEngine(tmp_path / NAME, SystemClock(), busy_wait_s=BUSY_WAIT_S)
        os.kill(stopped.pid, signal.SIGCONT)
        assert stopped.reap() == 0
    with open_log(tmp_path) as log:
        assert len(log.turns("T").rows) == 2
