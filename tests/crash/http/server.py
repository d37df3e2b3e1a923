"""A server that is meant to be killed: the real one, with a scripted agent, on a store with named places."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

import msgspec
from starlette.types import ASGIApp

from tests.crash.http.places import NamedEngine, NamedSending
from tests.crash.http.plan import Kill
from tests.crash.http.speaking import EXIT, Speakers
from tests.crash.ledger import note
from tests.proof.facts import Account, Fact, ShownDraft
from tests.proof.scripts import Effect, Script
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import Clock, SystemClock
from turnlog.journal.log import Log
from turnlog.testing.killing import report
from turnlog.testing.traps import Traps, kill_self
from turnlog.testing.vfs import PowerVFS
from turnlog.web import server
from turnlog.web.app import create_app
from turnlog.web.guard import Guard, loopback_hosts
from turnlog.web.site import Site

HURRY: int = 20
"""How much quicker a hurried clock runs: a lease of 30 seconds is over after one and a half."""


class HurriedClock(SystemClock):
    """Time since boot passes quicker, so that a lease ends soon. All processes of a store must have the same."""

    def boot_s(self) -> float:
        """See `Clock`."""
        return super().boot_s() * HURRY


class Doomed:
    """Arms the trap when it is time."""

    def __init__(self, kill: Kill | None, traps: Traps) -> None:
        self._kill = kill
        self._traps = traps
        self._armed = False
        if kill is not None and not kill.in_draft:
            self._arm(kill)

    def _arm(self, kill: Kill) -> None:
        self._armed = True
        if kill.place is not None:
            self._traps.set(kill.place, kill_self, k=kill.k)

    def saw(self, fact: Fact) -> None:
        """The log's reader in this process saw something."""
        if self._kill is None or self._armed or not isinstance(fact, ShownDraft):
            return
        if fact.text.startswith(self._kill.mark):
            self._arm(self._kill)


def tell(fact: Fact) -> None:
    """Report a fact. As text of ASCII, for there are halves of characters in it."""
    report(json.dumps(msgspec.to_builtins(fact)))


def act(folder: Path, script: Script, effect: Effect) -> None:
    """Do something in the world."""
    if effect.call == EXIT:
        os._exit(137)
    note(folder, script, effect)


def serve(folder: Path, kill: Kill | None, vfs: PowerVFS, clock: Clock) -> None:
    """Open the store and serve it until death, or a signal."""

    def named_app(site: Site, *, guard: Guard) -> ASGIApp:
        return NamedSending(create_app(site, guard=guard), vfs.traps)

    doomed = Doomed(kill, vfs.traps)
    engine = SqliteEngine(folder / "store.db", clock, vfs=vfs.name)
    sock = server.listening("127.0.0.1", 0)
    with sock, Log(NamedEngine(engine, vfs.traps), clock=clock) as log, patch.object(server, "create_app", named_app):
        speakers = Speakers(log, Account(tell=tell), Account(tell=doomed.saw), partial(act, folder))
        server.run_server(
            log,
            {"speaker": speakers},
            agent="speaker",
            sock=sock,
            guard=Guard(hosts=loopback_hosts(server.port_of(sock))),
            ready=lambda: report({"port": server.port_of(sock)}),
        )


def main() -> None:
    """Arguments: the store's folder, the kill as JSON (or `null`), and `hurried` for leases that end soon."""
    folder, kill = Path(sys.argv[1]), msgspec.json.decode(sys.argv[2].encode(), type=Kill | None)
    clock = HurriedClock() if "hurried" in sys.argv[3:] else SystemClock()
    with PowerVFS("doomed") as vfs:
        serve(folder, kill, vfs, clock)


if __name__ == "__main__":
    main()
