"""What is in a store's file, read by SQL and `json` alone: none of turnlog's own code is trusted here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

WITH_PAYLOAD = ("item", "thread_item", "thread_late")


class StoredEvent(NamedTuple):
    """An event as stored."""

    seq: int
    turn: str | None
    kind: str
    version: int
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its body, without the payload."""
        line = self.body.split(b"\n", 1)[0] if self.kind in WITH_PAYLOAD else self.body
        fields = json.loads(line.decode())
        assert isinstance(fields, dict)
        return fields

    @property
    def raw(self) -> bytes:
        """The payload."""
        assert self.kind in WITH_PAYLOAD
        return self.body.split(b"\n", 1)[1]


class StoredTurn(NamedTuple):
    """A turn's row."""

    turn: str
    phase: int
    owner: str | None
    fence: int
    key: str | None
    seq_first: int
    seq_last: int
    fold: dict[str, Any]


class StoredChunk(NamedTuple):
    """A chunk of a draft."""

    after: int
    rev: int
    chunk_rev: int
    offset: int
    text: str


@dataclass
class StoredThread:
    """A thread with all that belongs to it. Chunks by (turn, draft), in order."""

    name: str
    head: int
    rev: int
    events: list[StoredEvent] = field(default_factory=list)
    turns: dict[str, StoredTurn] = field(default_factory=dict)
    chunks: dict[tuple[str, str], list[StoredChunk]] = field(default_factory=dict)

    def of(self, turn: str) -> list[StoredEvent]:
        """A turn's events."""
        return [event for event in self.events if event.turn == turn]

    def draft(self, turn: str, draft: str) -> str | None:
        """The text of an open draft, None when there is none."""
        chunks = self.chunks.get((turn, draft))
        if chunks is None:
            return None
        text = ""
        for chunk in chunks:
            text = text[: chunk.offset] + chunk.text
        return text


@dataclass
class Stored:
    """All threads of a file; `integrity` is SQLite's own word on it."""

    integrity: str
    threads: dict[str, StoredThread]

    @property
    def drafts_open(self) -> int:
        """Open drafts in all threads."""
        return sum(len(thread.chunks) for thread in self.threads.values())


def read_store(path: Path) -> Stored:
    """Read a file, which no open store of this process may be."""
    db = apsw.Connection(str(path))
    try:
        integrity = str(db.execute("PRAGMA integrity_check").get)
        if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'event'").get:
            return Stored(integrity, {})
        return Stored(integrity, {thread.name: thread for thread in _threads(db)})
    finally:
        db.close()


def _threads(db: apsw.Connection) -> list[StoredThread]:
    threads: dict[int, StoredThread] = {}
    for number, name, head, rev in db.execute("SELECT id, thread, head, rev FROM thread"):
        threads[number] = StoredThread(_text(name), head, rev)
    turns: dict[int, str] = {}
    sql = "SELECT id, thread, turn, phase, owner, fence, key, seq_first, seq_last, fold FROM turn ORDER BY id"
    for number, thread, turn, phase, owner, fence, key, first, last, fold in db.execute(sql):
        turns[number] = _text(turn)
        row = StoredTurn(_text(turn), phase, _maybe(owner), fence, _maybe(key), first, last, json.loads(fold.decode()))
        threads[thread].turns[row.turn] = row
    for place, thread, seq, version, kind, body in db.execute(
        "SELECT id, thread, seq, v, kind, body FROM event ORDER BY thread, seq"
    ):
        threads[thread].events.append(StoredEvent(seq, turns.get(place >> 20), _text(kind), version, body))
    for thread, turn, draft, after, rev, chunk_rev, offset, text in db.execute(
        'SELECT thread, turn, draft, after, rev, chunk_rev, "offset", text FROM chunk ORDER BY chunk_rev, id'
    ):
        pair = (turns[turn], _text(draft))
        threads[thread].chunks.setdefault(pair, []).append(StoredChunk(after, rev, chunk_rev, offset, _text(text)))
    return list(threads.values())


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _maybe(data: bytes | None) -> str | None:
    return None if data is None else _text(data)
