"""What the children of a random mix have in common: they report what they know at once."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import msgspec

from tests.crash.http.speaking import Speaker
from tests.crash.ledger import note
from tests.proof.facts import Account, Fact
from tests.proof.playing import Reader
from turnlog.journal.log import Log
from turnlog.testing.killing import report


def tell(fact: Fact) -> None:
    """Report a fact. As text of ASCII, for there are halves of characters in it."""
    report(json.dumps(msgspec.to_builtins(fact)))


class Voice:
    """Makes speakers: the factory that a server or a runner is given. They share one reader of the log."""

    def __init__(self, log: Log, folder: Path) -> None:
        self._account = Account(tell=tell)
        self._reader = Reader(log, self._account)
        self._readings: dict[str, asyncio.Task[None]] = {}
        self._note = partial(note, folder)

    def __call__(self) -> Speaker:
        """A speaker for one turn."""
        return Speaker(self._account, self._reader, self._readings, self._note)

    def listen(self, thread: str) -> None:
        """Follow a thread, if that has not begun."""
        if thread not in self._readings:
            self._readings[thread] = asyncio.create_task(self._reader.read(thread))
