"""A process that is meant to be killed: it plays scripts and reports each fact once it knows it."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path

import msgspec

from tests.crash.ledger import note
from tests.crash.plan import Kill, scripts_of
from tests.proof.facts import Account, Fact, ShownDraft
from tests.proof.playing import playing
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.faults import FaultEngine
from turnlog.testing.killing import report
from turnlog.testing.traps import kill_self
from turnlog.testing.vfs import PowerVFS


class Doomed:
    """Reports facts, and arms the trap when it is time."""

    def __init__(self, kill: Kill, vfs: PowerVFS) -> None:
        self._kill = kill
        self._vfs = vfs
        self._armed = False
        if not kill.in_draft:
            self.arm()

    def arm(self) -> None:
        """From now on the k-th reach of the place is the last one."""
        self._armed = True
        if self._kill.place is not None:
            self._vfs.traps.set(self._kill.place, kill_self, k=self._kill.k)

    def tell(self, fact: Fact) -> None:
        """Report a fact. As text of ASCII, for there are halves of characters in it."""
        report(json.dumps(msgspec.to_builtins(fact)))
        if not self._armed and isinstance(fact, ShownDraft):
            self.arm()


async def play(log: Log, doomed: Doomed, kill: Kill, folder: Path) -> None:
    """Round after round, until death."""

    account = Account(tell=doomed.tell)
    for scripts in scripts_of(kill.number):
        async with playing(log, account, scripts, do=partial(note, folder)) as stage:
            assert not stage.failures, stage.failures


def main() -> None:
    """Arguments: the store's folder, and the kill as JSON."""
    folder, kill = Path(sys.argv[1]), msgspec.json.decode(sys.argv[2].encode(), type=Kill)
    clock = SystemClock()
    with PowerVFS("doomed") as vfs:
        doomed = Doomed(kill, vfs)
        engine = SqliteEngine(folder / "store.db", clock, vfs=vfs.name)
        log = Log(FaultEngine(engine, vfs.traps), clock=clock)
        asyncio.run(play(log, doomed, kill, folder))


if __name__ == "__main__":
    main()
