"""What the memory engine keeps, how a decision is stored in it, and the order of its lists."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from turnlog.engines.asked import NUMBER_BYTES
from turnlog.engines.decide import Decision
from turnlog.engines.protocol import Chunk, OwnerId, Phase, Record, SnapshotPart, ThreadId, ThreadRow, TurnRow
from turnlog.errors import StoreError


@dataclass
class Snapshot:
    """A turn's snapshot, as far as it is stored."""

    seq: int
    pages: list[bytes]
    whole: bool


@dataclass
class StoredThread:
    """A thread: `number` is its place among all that was ever created, `mark` that of its last change."""

    number: int
    row: ThreadRow
    mark: int = 0
    events: list[Record] = field(default_factory=list)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    """In order of creation."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Of turns, from the same counter as `number`."""
    keys: dict[str, str] = field(default_factory=dict)
    retries: dict[str, str] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)


class MemoryStore:
    """What the engines of several imagined processes share."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(8)
        self.changed = threading.Condition()
        self.threads: dict[str, StoredThread] = {}
        self.leases: dict[OwnerId, float] = {}
        self.locks: dict[OwnerId, object] = {}
        self.count = 0

    def next_number(self) -> int:
        """A number greater than all before it."""
        self.count += 1
        return self.count


def store(store: MemoryStore, decision: Decision) -> None:
    """Keep what was decided."""
    for name, row in decision.threads.items():
        if name not in store.threads:
            store.threads[name] = StoredThread(store.next_number(), row)
        store.threads[name].row = row
    for (name, turn), turn_row in decision.turns.items():
        thread = store.threads[name]
        if turn not in thread.turns:
            thread.numbers[turn] = store.next_number()
        thread.turns[turn] = turn_row
        if turn_row.key is not None:
            thread.keys[turn_row.key] = turn
        if turn_row.retry_of is not None:
            thread.retries[turn_row.retry_of] = turn
    for name, event in decision.events:
        store.threads[name].events.append(event)
    for (name, turn), drafts in decision.drops.items():
        thread = store.threads[name]
        thread.chunks = [c for c in thread.chunks if c.turn != turn or c.draft not in drafts]
    for (name, _), chunks in decision.chunks.items():
        store.threads[name].chunks += chunks
    for (name, turn), part in decision.snapshots:
        _store_part(store.threads[name], turn, part)
    for name in decision.threads:
        store.threads[name].chunks.sort(key=lambda chunk: chunk.chunk_rev)
        store.threads[name].mark = store.next_number()


def _store_part(thread: StoredThread, turn: str, part: SnapshotPart) -> None:
    if part.first == 0:
        thread.snapshots[turn] = Snapshot(part.seq, [], whole=False)
    elif turn not in thread.snapshots:
        return
    thread.snapshots[turn].pages += part.pages
    thread.snapshots[turn].whole = part.last
    if part.last:
        newest = sorted(thread.snapshots, key=lambda turn: thread.numbers[turn], reverse=True)
        thread.snapshots = {turn: thread.snapshots[turn] for turn in newest[: part.keep]}


def check_unique(store: MemoryStore, decision: Decision) -> None:
    """Raise `StoreError` if storing the decision would break promise 5: a defect of the caller, not a refusal."""
    for name, event in decision.events:
        if name in store.threads and event.seq <= len(store.threads[name].events):
            raise StoreError(detail=f"seq {event.seq} exists")
    for name in {name for name, _ in decision.turns}:
        rows = dict(store.threads[name].turns) if name in store.threads else {}
        rows |= {turn: row for (thread, turn), row in decision.turns.items() if thread == name}
        if sum(row.phase is Phase.STARTED for row in rows.values()) > 1:
            raise StoreError(detail="a thread has at most one started turn")
        for names in ([row.key for row in rows.values()], [row.retry_of for row in rows.values()]):
            given = [text for text in names if text is not None]
            if len(given) != len(set(given)):
                raise StoreError(detail="a key and a retried turn name one turn")


def threads_newest_first(store: MemoryStore, *, importing: bool = False) -> list[StoredThread]:
    """Those that lists show, or those that are being imported."""
    return sorted(_listed(store, importing=importing), key=thread_place, reverse=True)


def _listed(store: MemoryStore, *, importing: bool = False) -> list[StoredThread]:
    return [thread for thread in store.threads.values() if thread.row.importing == importing]


def turns_newest_first(store: MemoryStore, name: ThreadId | None, latest_each: bool) -> Iterator[tuple[bytes, TurnRow]]:
    """Turn rows with their places: one order for all turns, and the order of threads for their latest turns."""
    if name is not None:
        thread = store.threads.get(name)
        turns = {} if thread is None else thread.turns
        for row in islice(reversed(turns.values()), 1 if latest_each else None):
            yield number_bytes(store.threads[name].numbers[row.turn]), row
    elif latest_each:
        for thread in threads_newest_first(store):
            if thread.turns:
                yield thread_place(thread), next(reversed(thread.turns.values()))
    else:
        rows = [
            (number_bytes(thread.numbers[row.turn]), row) for thread in _listed(store) for row in thread.turns.values()
        ]
        yield from sorted(rows, key=lambda pair: pair[0], reverse=True)


def thread_place(thread: StoredThread) -> bytes:
    """Bytes that sort as (pinned, updated_at, number): the offset makes negative times sort below positive ones."""
    return bytes([thread.row.pinned]) + number_bytes(thread.row.updated_at + 2**63) + number_bytes(thread.number)


def number_bytes(number: int) -> bytes:
    """A place in a list of turns, events or changes."""
    return number.to_bytes(NUMBER_BYTES, "big")


def marked_since(store: MemoryStore, since: int) -> list[tuple[str, StoredThread]]:
    """Threads that were changed since, but for those that are being imported."""
    return [
        (name, thread) for name, thread in store.threads.items() if thread.mark > since and not thread.row.importing
    ]
