"""The reference engine: everything in memory, right by reading.

Several engines on one `MemoryStore` stand for several processes: closing one frees its owner locks, as the death of a
process would, and leaves its lease rows.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from turnlog.engines.asked import NUMBER_BYTES, check_limit, check_page, check_position, check_read, check_tail
from turnlog.engines.decide import Decision, Facts, decide, needs
from turnlog.engines.protocol import (
    Caps,
    Chunk,
    Outcome,
    OwnerId,
    Page,
    Phase,
    Record,
    Tail,
    ThreadId,
    ThreadRow,
    TurnRow,
    Write,
)
from turnlog.errors import StoreClosed, StoreError
from turnlog.events.clock import Clock
from turnlog.limits import READ_EVENTS_MAX

T = TypeVar("T")


@dataclass
class _Thread:
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


class MemoryStore:
    """What the engines of several imagined processes share."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(8)
        self.changed = threading.Condition()
        self.threads: dict[str, _Thread] = {}
        self.leases: dict[OwnerId, float] = {}
        self.locks: dict[OwnerId, MemoryEngine] = {}
        self.count = 0

    def next_number(self) -> int:
        """A number greater than all before it."""
        self.count += 1
        return self.count


class MemoryEngine:
    """See `Engine`. Nothing survives the process."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._closed = False

    @property
    def caps(self) -> Caps:
        """See `Engine`."""
        return Caps(durable=False, shared=True)

    @property
    def epoch(self) -> str:
        """See `Engine`."""
        return self._store.epoch

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """See `Engine`."""
        with self._open_store() as store:
            decision = decide(writes, self._facts(writes))
            _check_unique(store, decision)
            _store(store, decision)
            if decision.threads:
                store.changed.notify_all()
            return decision.outcomes

    def _facts(self, writes: Sequence[Write]) -> Facts:
        facts, wanted, threads = Facts(alive=self._alive), needs(writes), self._store.threads
        facts.threads = {name: threads[name].row for name in wanted.threads if name in threads}
        for name, turn in wanted.turns:
            if name in threads and turn in threads[name].turns:
                facts.learn(threads[name].turns[turn])
        for name, key in wanted.keys:
            if name in threads and key in threads[name].keys:
                facts.learn(threads[name].turns[threads[name].keys[key]])
        for name, retried in wanted.retries:
            if name in threads and retried in threads[name].retries:
                facts.learn(threads[name].turns[threads[name].retries[retried]])
        return facts

    def _alive(self, owner: OwnerId) -> bool:
        return owner in self._store.locks and self._store.leases.get(owner, 0.0) > self._clock.boot_s()

    def lease(self, owner: OwnerId, seconds: float) -> None:
        """See `Engine`. Raises `StoreError` when another engine holds the owner's lock."""
        with self._open_store() as store:
            ours = store.locks.get(owner) is self
            if seconds > 0:
                if store.locks.setdefault(owner, self) is not self:
                    raise StoreError(detail="the owner's lock is held elsewhere")
                store.leases[owner] = self._clock.boot_s() + seconds
            elif ours or not self._alive(owner):
                store.leases.pop(owner, None)
                if ours:
                    del store.locks[owner]

    def dead_owners(self, *, limit: int) -> list[OwnerId]:
        """See `Engine`."""
        check_limit(limit)
        with self._open_store() as store:
            owners = set(store.leases)
            for thread in store.threads.values():
                for row in thread.turns.values():
                    if row.owner is not None and row.phase is not Phase.SETTLED:
                        owners.add(row.owner)
            return [owner for owner in sorted(owners) if not self._alive(owner)][:limit]

    def lease_end(self) -> float | None:
        """See `Engine`."""
        with self._open_store() as store:
            now = self._clock.boot_s()
            others = [end for owner, end in store.leases.items() if store.locks.get(owner) is not self and end > now]
            return min(others) - now if others else None

    def tail(self, thread: ThreadId, *, after: int, rev: int, limit: int) -> Tail:
        """See `Engine`."""
        check_tail(after, rev, limit)
        with self._open_store() as store:
            found = store.threads.get(thread)
            if found is None:
                return Tail(epoch=store.epoch, head=0, rev=0, floor=0, events=(), chunks=())
            events = tuple(found.events[after : after + limit])
            whole = after + len(events) >= found.row.head
            chunks = tuple(chunk for chunk in found.chunks if chunk.chunk_rev > rev) if whole else ()
            return Tail(
                epoch=store.epoch, head=found.row.head, rev=found.row.rev, floor=0, events=events, chunks=chunks
            )

    def read(
        self,
        thread: ThreadId,
        *,
        after: int = 0,
        before: int | None = None,
        turn: str | None = None,
        kinds: Collection[str] | None = None,
        reverse: bool = False,
        limit: int,
        bytes_max: int,
    ) -> Page[Record]:
        """See `Engine`."""
        check_read(after, before, limit, bytes_max)
        with self._open_store() as store:
            found = store.threads.get(thread)
            stored = [] if found is None else found.events[after : None if before is None else max(before - 1, 0)]
            wanted = [r for r in stored if turn in (None, r.turn) and (kinds is None or r.kind in kinds)]
        if reverse:
            wanted.reverse()
        size = count = 0
        while count < min(limit, len(wanted)) and (count == 0 or size < bytes_max):
            size += len(wanted[count].body)
            count += 1
        more = 0 < count < len(wanted)
        return Page(rows=tuple(wanted[:count]), next=_number_bytes(wanted[count - 1].seq) if more else None)

    def turns(
        self,
        *,
        thread: ThreadId | None = None,
        turn: str | None = None,
        key: str | None = None,
        owner: OwnerId | None = None,
        retry_of: str | None = None,
        open_only: bool = False,
        latest_each: bool = False,
        before: bytes | None = None,
        limit: int,
    ) -> Page[TurnRow]:
        """See `Engine`."""
        check_page(before, limit, by_thread=latest_each and thread is None)

        def wanted(row: TurnRow) -> bool:
            return (
                turn in (None, row.turn)
                and key in (None, row.key)
                and owner in (None, row.owner)
                and retry_of in (None, row.retry_of)
                and not (open_only and row.phase is Phase.SETTLED)
            )

        with self._open_store() as store:
            rows = (pair for pair in _turns_newest_first(store, thread, latest_each) if wanted(pair[1]))
            return _page([(place, row) for place, row in rows if before is None or place < before], limit)

    def threads(self, *, thread: ThreadId | None = None, before: bytes | None = None, limit: int) -> Page[ThreadRow]:
        """See `Engine`."""
        check_page(before, limit, by_thread=True)
        with self._open_store() as store:
            if thread is not None:
                return Page(rows=(store.threads[thread].row,) if thread in store.threads else ())
            rows = [(_thread_place(t), t.row) for t in _threads_newest_first(store)]
            return _page([(place, row) for place, row in rows if before is None or place < before], limit)

    def changes(self, position: bytes, timeout: float) -> tuple[list[ThreadId], bytes]:
        """See `Engine`. At most `READ_EVENTS_MAX` threads at once."""
        if position:
            check_position("position", position)
        with self._open_store() as store:
            if not position:
                return [], _number_bytes(store.count)
            since = int.from_bytes(position, "big")
            store.changed.wait_for(lambda: self._closed or _marked_since(store, since), timeout)
            self._check_open()
            marked = sorted((thread.mark, name) for name, thread in _marked_since(store, since))[:READ_EVENTS_MAX]
            return [name for _, name in marked], _number_bytes(marked[-1][0]) if marked else position

    def rest(self) -> None:
        """See `Engine`. There is nothing to do."""

    def close(self) -> None:
        """See `Engine`."""
        with self._store.changed:
            self._closed = True
            self._store.locks = {owner: held for owner, held in self._store.locks.items() if held is not self}
            self._store.changed.notify_all()

    @contextmanager
    def _open_store(self) -> Iterator[MemoryStore]:
        """The store under its lock, while this engine is open."""
        with self._store.changed:
            self._check_open()
            yield self._store

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed


def _store(store: MemoryStore, decision: Decision) -> None:
    for name, row in decision.threads.items():
        if name not in store.threads:
            store.threads[name] = _Thread(store.next_number(), row)
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
    for name in decision.threads:
        store.threads[name].chunks.sort(key=lambda chunk: chunk.chunk_rev)
        store.threads[name].mark = store.next_number()


def _check_unique(store: MemoryStore, decision: Decision) -> None:
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


def _threads_newest_first(store: MemoryStore) -> list[_Thread]:
    return sorted(store.threads.values(), key=_thread_place, reverse=True)


def _turns_newest_first(
    store: MemoryStore, name: ThreadId | None, latest_each: bool
) -> Iterator[tuple[bytes, TurnRow]]:
    """Turn rows with their places: one order for all turns, and the order of threads for their latest turns."""
    if name is not None:
        thread = store.threads.get(name)
        turns = {} if thread is None else thread.turns
        for row in islice(reversed(turns.values()), 1 if latest_each else None):
            yield _number_bytes(store.threads[name].numbers[row.turn]), row
    elif latest_each:
        for thread in _threads_newest_first(store):
            if thread.turns:
                yield _thread_place(thread), next(reversed(thread.turns.values()))
    else:
        rows = [
            (_number_bytes(thread.numbers[row.turn]), row)
            for thread in store.threads.values()
            for row in thread.turns.values()
        ]
        yield from sorted(rows, key=lambda pair: pair[0], reverse=True)


def _thread_place(thread: _Thread) -> bytes:
    """Bytes that sort as (updated_at, number): the offset makes negative times sort below positive ones."""
    return _number_bytes(thread.row.updated_at + 2**63) + _number_bytes(thread.number)


def _number_bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


def _marked_since(store: MemoryStore, since: int) -> list[tuple[str, _Thread]]:
    return [(name, thread) for name, thread in store.threads.items() if thread.mark > since]


def _page(rows: Sequence[tuple[bytes, T]], limit: int) -> Page[T]:
    shown = rows[:limit]
    return Page(rows=tuple(row for _, row in shown), next=shown[-1][0] if shown and len(rows) > limit else None)
