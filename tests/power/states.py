"""A scripted store of some turns, what it held after each commit, and what an image of its disk holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import apsw
from msgspec.structs import replace

from turnlog.engines.protocol import Done, Engine, Phase, Tail, ThreadRow, TurnRow, Write
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock
from turnlog.testing.disk import Disk, Image
from turnlog.testing.writes import append, draft, settle, start, stored_turn, submission

NAME = "store.db"
OWNER = "owner1"
LARGE = b'"' + b"x" * 20_000 + b'"'
"""A body over several pages, so that one commit is several writes to be torn and lost apart."""

STEPS = ("submit", "start", "draft", "item", "draft more", "item", "settle")
"""One turn, by the writes that make it."""

State: TypeAlias = dict[str, tuple[ThreadRow, Tail, tuple[TurnRow, ...]]]
"""Everything an engine shows of its threads."""


def state_of(engine: Engine) -> State:
    return {
        row.thread: (
            row,
            engine.tail(row.thread, after=0, rev=0, limit=1_000),
            engine.turns(thread=row.thread, limit=100).rows,
        )
        for row in engine.threads(limit=100).rows
    }


def open_store(folder: Path, vfs: str | None, *, wal_pregrown_bytes: int = 0) -> SqliteEngine:
    return SqliteEngine(folder / NAME, SystemClock(), vfs=vfs, wal_pregrown_bytes=wal_pregrown_bytes)


@dataclass
class Script:
    """Commits one write at a time, and remembers the state after each, with the disk's position when it returned."""

    engine: SqliteEngine
    disk: Disk
    states: list[tuple[int, State]] = field(default_factory=list)

    def remember(self) -> None:
        self.states.append((self.disk.position, state_of(self.engine)))

    def commit(self, write: Write) -> None:
        (outcome,) = self.engine.commit([write])
        assert isinstance(outcome, Done), outcome
        self.remember()

    def row(self, thread: str, turn: str) -> TurnRow:
        return stored_turn(self.engine, thread, turn)

    def head(self, thread: str) -> int:
        return self.engine.tail(thread, after=0, rev=0, limit=1).head

    def write(self, step: str, thread: str, turn: str) -> Write:
        """The write of one step, for the state the store has now."""
        head = self.head(thread)
        if step == "submit":
            return submission(thread, turn, base=head, owner=OWNER, key=f"key of {turn}")
        row = self.row(thread, turn)
        if step == "start":
            return start(row, base=head)
        if step == "draft":
            return draft(row, "1/~1/text/0", b"shown", after=head)
        if step == "draft more":
            (first, *_) = self.engine.tail(thread, after=0, rev=0, limit=1_000).chunks
            return draft(row, "1/~1/text/0", b" too", after=first.after, offset=5, rev=first.rev)
        if step == "settle":
            return settle(row, base=head, drop=("1/~1/text/0",))
        return append(replace(row, phase=Phase.STARTED), base=head, bodies=(LARGE,))

    def turn(self, thread: str, turn: str) -> None:
        for step in STEPS:
            self.commit(self.write(step, thread, turn))

    def expected_at(self, position: int) -> list[State]:
        """The states a disk may have at `position`: the last acknowledged one, and those not acknowledged yet."""
        acknowledged = max((n for n, (at, _) in enumerate(self.states) if at <= position), default=0)
        return [state for _, state in self.states[acknowledged:]]


def state_in(image: Image, folder: Path) -> State:
    """What a restart finds on this disk, which must be whole."""
    image.write(folder)
    engine = open_store(folder, None)
    try:
        state = state_of(engine)
    finally:
        engine.close()
    database = apsw.Connection(str(folder / NAME))
    try:
        assert database.execute("PRAGMA integrity_check").get == "ok"
    finally:
        database.close()
    return state
