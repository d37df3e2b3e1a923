"""The embedded engine: one SQLite file, any number of processes.

One connection writes, under a lock; reads have their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import apsw

from turnlog.engines.asked import (
    check_limit,
    check_page,
    check_position,
    check_read,
    check_snapshot_page,
    check_tail,
)
from turnlog.engines.decide import Decision, decide, needs
from turnlog.engines.protocol import (
    Caps,
    Damage,
    Outcome,
    OwnerId,
    Page,
    Record,
    SnapshotPage,
    Tail,
    ThreadId,
    ThreadRow,
    TurnRow,
    Write,
)
from turnlog.engines.sqlite import indexes, reads
from turnlog.engines.sqlite.checking import Checker
from turnlog.engines.sqlite.connect import BusyWait, check_header, check_version, open_reader, open_writer, prepare_file
from turnlog.engines.sqlite.cursors import number_bytes, number_of
from turnlog.engines.sqlite.facts import read_facts
from turnlog.engines.sqlite.faults import translated
from turnlog.engines.sqlite.files import StoreFiles
from turnlog.engines.sqlite.leases import lease_end_of, read_leases, read_owners
from turnlog.engines.sqlite.owners import OwnerLocks
from turnlog.engines.sqlite.readers import Readers
from turnlog.engines.sqlite.snapshots import read_snapshot
from turnlog.engines.sqlite.store import store
from turnlog.engines.sqlite.turns import TurnQuery, read_turns
from turnlog.engines.sqlite.turnstile import Turnstile
from turnlog.engines.sqlite.wal import WriteAheadLog
from turnlog.errors import StoreClosed, StoreDamaged, StoreUnavailable
from turnlog.events.clock import Clock
from turnlog.events.ids import text_bytes
from turnlog.limits import GATE_WAIT_S, STORE_BUSY_WAIT_S, WAL_PREGROWN_BYTES, WRITER_POLL_S

T = TypeVar("T")


class SqliteEngine:
    """See `Engine`. `vfs` names a registered SQLite file layer, for tests of what disks do."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        vfs: str | None = None,
        wal_pregrown_bytes: int = WAL_PREGROWN_BYTES,
        busy_wait_s: float = STORE_BUSY_WAIT_S,
    ) -> None:
        # Whatever links lead to the file: the owners' folder is beside the file itself, one for all its names.
        path = Path(os.path.realpath(path))
        self._clock = clock
        self._lock = threading.Lock()
        # Entered as a bare lock: an interrupt from the keyboard cannot leave that taken, as it can a condition.
        self._news = threading.Lock()
        self._changed = threading.Condition(self._news)
        self._commits = 0
        self._closed = False
        self._proven = True
        self._locks = OwnerLocks(path)
        self._files = files = StoreFiles(path)
        self._readers = Readers(lambda: _checked(open_reader(path, vfs, busy_wait_s), files))
        with translated(), ExitStack() as opened:
            files.refuse_inherited()
            prepare_file(path, vfs)
            opened.callback(self._files.release)
            self._files.hold_database()
            check_header(path, vfs)
            opened.callback(self._locks.close)
            gate_wait_s = min(GATE_WAIT_S, busy_wait_s / 2)
            busy_wait_s -= gate_wait_s
            self._turnstile = Turnstile(path, self._locks.make_folder(), gate_wait_s)
            opened.callback(self._turnstile.close)
            with self._turnstile.passed():
                self._db = opened.enter_context(closing(open_writer(path, vfs, busy_wait_s)))
                files.hold()
                log = path.with_name(f"{path.name}-wal")
                self._log = WriteAheadLog(self._db, log, BusyWait(busy_wait_s), wal_pregrown_bytes)
                # After a kill between a write and its sync, the log shows a commit that a power loss would still take:
                # nothing may be read before it is synced.
                self._prove()
            self._files.hold()
            self._epoch = str(self._db.execute("SELECT epoch FROM store").get)
            opened.pop_all()

    @property
    def caps(self) -> Caps:
        """See `Engine`."""
        return Caps(durable=True, shared=True)

    @property
    def epoch(self) -> str:
        """See `Engine`."""
        return self._epoch

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """See `Engine`."""
        if not writes:
            return []
        decision = self._write(lambda db: self._decided(db, writes))
        if decision.threads:
            with self._news:
                self._commits += 1
                self._changed.notify_all()
        return decision.outcomes

    def _decided(self, db: apsw.Connection, writes: Sequence[Write]) -> Decision:
        stored = read_facts(db, needs(writes), lambda owner: self._alive(db, owner))
        decision = decide(writes, stored.facts)
        if decision.threads or decision.snapshots:
            store(db, decision, stored)
        return decision

    def _write(self, act: Callable[[apsw.Connection], T]) -> T:
        """Do something in a write transaction: committed when it returns, rolled back when it raises.

        No context manager, as in `Readers.read`.
        Any error but `StoreBusy` leaves in doubt what the disk holds, so the next one proves first that it can write.
        """
        with self._lock:
            self._check_open()
            with translated(), self._turnstile.passed():
                if not self._proven:
                    self._prove_again()
                self._begin()
                try:
                    self._files.check()
                    check_version(self._db)
                    done = act(self._db)
                    self._db.execute("COMMIT")
                except BaseException:
                    self._proven = False
                    self._roll_back()
                    raise
                self._log.after_commit()
                return done

    def _begin(self) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            raise
        except BaseException:
            self._proven = False
            raise

    def _roll_back(self) -> None:
        """End what is left of a failed transaction. SQLite may have ended it, or be unable to: proving shows that."""
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error:
            self._proven = False

    def _prove_again(self) -> None:
        try:
            self._roll_back()
            self._prove()
        except (apsw.Error, OSError) as error:
            if isinstance(error, apsw.BusyError):
                raise
            raise StoreUnavailable(detail=f"still cannot write: {error}") from error
        self._proven = True

    def _prove(self) -> None:
        """Make one small write durable. It also overwrites the traces of a failed commit."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._files.check()
            self._db.execute("UPDATE store SET proofs = proofs + 1")
            self._db.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _alive(self, db: apsw.Connection, owner: OwnerId) -> bool:
        end = lease_end_of(db, owner)
        return end is not None and end > self._clock.boot_s() and self._locks.is_held(owner)

    def lease(self, owner: OwnerId, seconds: float) -> None:
        """See `Engine`. Raises `StoreError` when another engine holds the owner's lock."""
        if seconds > 0:
            self._write(lambda db: self._keep_lease(db, owner, seconds))
        elif self._write(lambda db: self._end_lease(db, owner)):
            with translated():
                self._locks.remove(owner)

    def _keep_lease(self, db: apsw.Connection, owner: OwnerId, seconds: float) -> None:
        new = owner not in self._locks.held
        self._locks.take(owner)
        end = self._clock.boot_s() + seconds
        db.execute("INSERT OR REPLACE INTO owner VALUES (?, ?)", (text_bytes(owner), end))
        if new:
            self._locks.sweep(known for known, _ in read_leases(db))

    def _end_lease(self, db: apsw.Connection, owner: OwnerId) -> bool:
        """Whether it was ours, or a dead owner's."""
        if owner not in self._locks.held and self._alive(db, owner):
            return False
        db.execute("DELETE FROM owner WHERE owner = ?", (text_bytes(owner),))
        return True

    def dead_owners(self, *, limit: int) -> list[OwnerId]:
        """See `Engine`."""
        check_limit(limit)
        return self._read(
            lambda db: list(islice((owner for owner in read_owners(db) if not self._alive(db, owner)), limit))
        )

    def lease_end(self) -> float | None:
        """See `Engine`."""
        leases = self._read(read_leases)
        now, held = self._clock.boot_s(), self._locks.held
        ends = [end for owner, end in leases if owner not in held]
        return min((end - now for end in ends if end > now), default=None)

    def _read(self, use: Callable[[apsw.Connection], T]) -> T:
        self._check_open()
        return self._readers.read(use)

    def tail(self, thread: ThreadId, *, after: int, rev: int, limit: int) -> Tail:
        """See `Engine`."""
        check_tail(after, rev, limit)
        return self._read(lambda db: reads.read_tail(db, self._epoch, thread, after=after, rev=rev, limit=limit))

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
        return self._read(
            lambda db: reads.read_events(
                db,
                thread,
                after=after,
                before=before,
                turn=turn,
                kinds=kinds,
                reverse=reverse,
                limit=limit,
                bytes_max=bytes_max,
            )
        )

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
        query = TurnQuery(
            thread=thread,
            turn=turn,
            key=key,
            owner=owner,
            retry_of=retry_of,
            open_only=open_only,
            latest_each=latest_each,
        )
        check_page(before, limit, by_thread=query.by_thread)
        return self._read(lambda db: read_turns(db, query, before, limit))

    def threads(
        self, *, thread: ThreadId | None = None, importing: bool = False, before: bytes | None = None, limit: int
    ) -> Page[ThreadRow]:
        """See `Engine`."""
        check_page(before, limit, by_thread=True)
        return self._read(lambda db: reads.read_threads(db, thread, before, limit, importing=importing))

    def snapshot(self, thread: ThreadId, turn: str, *, page: int = 0) -> SnapshotPage | None:
        """See `Engine`."""
        check_snapshot_page(page)
        return self._read(lambda db: read_snapshot(db, thread, turn, page))

    def check(self, thread: ThreadId | None = None) -> Iterator[Damage]:
        """See `Engine`. The damage that SQLite itself can see is looked for in the whole store only."""
        self._check_open()
        checker = Checker(self._read)
        return checker.store() if thread is None else checker.thread(thread)

    def reindex(self) -> None:
        """See `Engine`. Raises `StoreDamaged` where a page of a table cannot be read either, and `StoreError` where
        rows are there twice."""
        try:
            self._write(indexes.reindex)
        except StoreDamaged:
            self._write(indexes.remake)

    def changes(self, position: bytes, timeout: float) -> tuple[list[ThreadId], bytes]:
        """See `Engine`. At most `READ_EVENTS_MAX` threads at once; other processes are noticed by polling."""
        if position:
            check_position("position", position)
        left = timeout
        while True:
            seen = self._commits
            if not position:
                return [], number_bytes(self._read(reads.read_mark))
            threads, mark = self._read(partial(reads.read_changes, since=number_of(position)))
            position = number_bytes(mark)
            if threads or left <= 0:
                return threads, position
            wait = min(left, WRITER_POLL_S)
            with self._news:
                if seen == self._commits and not self._closed:
                    self._changed.wait(wait)
            left -= wait

    def rest(self) -> None:
        """See `Engine`. Grows the write-ahead log before it is needed, and empties it when it is long."""
        with self._lock, translated():
            self._check_open()
            self._log.rest()

    def close(self) -> None:
        """See `Engine`. Whoever closes a store last empties its write-ahead log and deletes it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with self._news:
            self._changed.notify_all()
        with translated():
            self._readers.close()
            self._locks.close()
            with self._lock, self._turnstile.passed():
                self._db.close()
            self._turnstile.close()
            self._files.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed


def _checked(db: apsw.Connection, files: StoreFiles) -> apsw.Connection:
    """A connection just made, once it is known to be one to this store and not to what lies there now."""
    try:
        files.check()
    except BaseException:
        db.close()
        raise
    return db
