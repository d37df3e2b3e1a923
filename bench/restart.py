"""Opening a store whose process was killed: it costs what was open, not what was ever written.

`python -m bench.restart STORE SETTLED OPEN` is the process that is killed, by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import turnlog
from bench.measure import TEXT, Rounds
from bench.table import Line
from turnlog.journal.log import Log

OPEN = 10
FEW = 200
ROUNDS = 5
BAR_S = 1.0
_TOGETHER = 200


def run(folder: Path, settled: int) -> Iterator[Line]:
    """A store of few settled turns and one of many, each killed with open turns and opened again, in turn."""
    rounds = Rounds()
    for number in range(ROUNDS):
        for turns in (FEW, settled):
            store = f"sqlite:///{folder}/restart-{turns}.db"
            _be_killed(store, 0 if number else turns)
            started = time.perf_counter()
            with turnlog.open(store) as log:
                rounds.add(str(turns), time.perf_counter() - started)
                if len(log.recovered) != OPEN:
                    raise RuntimeError(f"{len(log.recovered)} turns recovered, not {OPEN}")
    taken, few = rounds.of(str(settled)), rounds.of(str(FEW))
    what = f"open, {OPEN} turns to recover among {settled:,} settled"
    beside = f"{few * 1e3:.0f} ms among {FEW:,}"
    yield Line(what, f"{taken * 1e3:.0f} ms", beside, f"{taken / few:.2f}x", f"< {BAR_S:.0f} s", taken < BAR_S)


def _be_killed(store: str, settled: int) -> None:
    child = subprocess.run([sys.executable, "-m", "bench.restart", store, str(settled), str(OPEN)], check=False)
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the process that should be killed ended with {child.returncode}")


def _write_and_die(store: str, settled: int, left_open: int) -> None:
    log = turnlog.open(store)
    asyncio.run(_settle(log, settled))
    for number in range(left_open):
        turn = log.submit(f"open-{time.time_ns()}-{number}", TEXT).result()
        turn.start().result()
        turn.draft("It begins with ").result()
    os.kill(os.getpid(), signal.SIGKILL)


async def _settle(log: Log, settled: int) -> None:
    async def settle(thread: str) -> None:
        for _ in range(settled // _TOGETHER):
            turn = await log.submit(thread, TEXT)
            await turn.interrupt("cancelled")

    await asyncio.gather(*(settle(f"settled-{number}") for number in range(_TOGETHER)))


if __name__ == "__main__":
    _write_and_die(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
