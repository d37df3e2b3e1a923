"""The reference engine: everything in memory, right by reading.

Several engines on one `MemoryStore` stand for several processes: closing one frees its owner locks, as the death of a
process would, and leaves its lease rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from turnlog.engines.asked import (
    check_limit,
    check_page,
    check_position,
    check_read,
    check_snapshot_page,
    check_tail,
)
from turnlog.engines.decide import Facts, SnapshotState, decide, needs
from turnlog.engines.memory.checking import damage_of
from turnlog.engines.memory.store import (
    MemoryStore,
    check_unique,
    marked_since,
    number_bytes,
    store,
    thread_place,
    threads_newest_first,
    turns_newest_first,
)
from turnlog.engines.protocol import (
    Caps,
    Damage,
    Outcome,
    OwnerId,
    Page,
    Phase,
    Record,
    SnapshotPage,
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
        with self._open_store() as kept:
            decision = decide(writes, self._facts(writes))
            check_unique(kept, decision)
            store(kept, decision)
            if decision.threads:
                kept.changed.notify_all()
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
        for name, turn in wanted.snapshots:
            if name in threads and (found := threads[name].snapshots.get(turn)) is not None:
                facts.snapshots[name, turn] = SnapshotState(found.seq, len(found.pages), found.whole)
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
            first = _index(found.events, after)
            events = tuple(found.events[first : first + limit])
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
            events = [] if found is None else found.events
            end = len(events) if before is None else _index(events, max(before - 1, 0))
            stored = events[_index(events, after) : end]
            wanted = [r for r in stored if turn in (None, r.turn) and (kinds is None or r.kind in kinds)]
        if reverse:
            wanted.reverse()
        size = count = 0
        while count < min(limit, len(wanted)) and (count == 0 or size < bytes_max):
            size += len(wanted[count].body)
            count += 1
        more = 0 < count < len(wanted)
        return Page(rows=tuple(wanted[:count]), next=number_bytes(wanted[count - 1].seq) if more else None)

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
            rows = (pair for pair in turns_newest_first(store, thread, latest_each) if wanted(pair[1]))
            return _page([(place, row) for place, row in rows if before is None or place < before], limit)

    def threads(
        self, *, thread: ThreadId | None = None, importing: bool = False, before: bytes | None = None, limit: int
    ) -> Page[ThreadRow]:
        """See `Engine`."""
        check_page(before, limit, by_thread=True)
        with self._open_store() as store:
            if thread is not None:
                return Page(rows=(store.threads[thread].row,) if thread in store.threads else ())
            rows = [(thread_place(t), t.row) for t in threads_newest_first(store, importing=importing)]
            return _page([(place, row) for place, row in rows if before is None or place < before], limit)

    def snapshot(self, thread: ThreadId, turn: str, *, page: int = 0) -> SnapshotPage | None:
        """See `Engine`."""
        check_snapshot_page(page)
        with self._open_store() as store:
            found = store.threads[thread].snapshots.get(turn) if thread in store.threads else None
            if found is None or not found.whole or page >= len(found.pages):
                return None
            return SnapshotPage(seq=found.seq, page=page, pages=len(found.pages), body=found.pages[page])

    def check(self, thread: ThreadId | None = None) -> Iterator[Damage]:
        """See `Engine`."""
        with self._open_store() as store:
            wanted = [name for name in store.threads if thread in (None, name)]
            return iter([damage for name in wanted for damage in damage_of(store.threads[name])])

    def reindex(self) -> None:
        """See `Engine`. There is nothing that could differ."""
        self._check_open()

    def changes(self, position: bytes, timeout: float) -> tuple[list[ThreadId], bytes]:
        """See `Engine`. At most `READ_EVENTS_MAX` threads at once."""
        if position:
            check_position("position", position)
        with self._open_store() as store:
            if not position:
                return [], number_bytes(store.count)
            since = int.from_bytes(position, "big")
            store.changed.wait_for(lambda: self._closed or marked_since(store, since), timeout)
            self._check_open()
            marked = sorted((thread.mark, name) for name, thread in marked_since(store, since))[:READ_EVENTS_MAX]
            return [name for _, name in marked], number_bytes(marked[-1][0]) if marked else position

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


def _page(rows: Sequence[tuple[bytes, T]], limit: int) -> Page[T]:
    shown = rows[:limit]
    return Page(rows=tuple(row for _, row in shown), next=shown[-1][0] if shown and len(rows) > limit else None)


def _index(events: Sequence[Record], after: int) -> int:
    """Where the events behind a seq begin, also where some are missing."""
    return bisect_right(events, after, key=lambda event: event.seq)
