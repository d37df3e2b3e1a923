"""Following a thread: a cursor into the log and a bell, never a queue.

A follower reads from the store what lies after its cursor, then waits for the bell, which rings after a commit. So what
it yields is always durable, a slow follower is caught up from the log, and the log owes nobody memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from turnlog.engines.protocol import Engine, Tail
from turnlog.errors import CursorUnprovable, StoreClosed
from turnlog.events.kinds import Draft, Event
from turnlog.journal.aside import Aside
from turnlog.journal.receipt import Wake
from turnlog.journal.records import decode_chunk, decode_record
from turnlog.limits import CHANGES_PENDING_MAX, READ_EVENTS_MAX

SEQ_MAX: Final = 2**63 - 1
"""No seq is greater: engines keep 64 bits."""

_SEQ_DIGITS_MAX: Final = len(str(SEQ_MAX))


class Follower:
    """One waiting reader, in its event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._rung = False
        # Not an event of asyncio: for each wait that asks the system for the process's id, and there are thousands.
        self._waiting: asyncio.Future[None] | None = None
        self.closed = False

    def ring(self) -> None:
        """There may be something new. Called in the reader's loop."""
        self._rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def listen(self) -> None:
        """What comes from now on will ring."""
        self._rung = False

    async def wait(self) -> None:
        """Wait for the bell; raises `StoreClosed` when the log is closed."""
        if not (self.closed or self._rung):  # closed while this reader was busy: it may have silenced the last ring
            self._waiting = self.loop.create_future()
            await self._waiting
        if self.closed:
            raise StoreClosed


class Watcher(Follower):
    """One reader of which threads change. `note` and `take` are called under the lock of its hub."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[str] | None = None

    def note(self, threads: Collection[str] | None) -> None:
        """These have changed; None: nobody knows which."""
        if threads is None or self._changed is None:
            self._changed = None
            return
        self._changed.update(threads)
        if len(self._changed) > CHANGES_PENDING_MAX:
            self._changed = None

    def take(self) -> frozenset[str] | None:
        """What has changed since it was taken last; None: everything may have."""
        changed, self._changed = self._changed, set()
        return None if changed is None else frozenset(changed)


class Hub:
    """Who follows which thread, and who watches all of them."""

    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = {}
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.on_watch: Callable[[], None] = lambda: None
        """Called when somebody begins to follow, so that the writer looks at what other processes write."""

    @property
    def watched(self) -> bool:
        """Whether anybody follows anything."""
        return bool(self._followers or self._watchers)

    def threads(self) -> list[str]:
        """The threads that are followed."""
        with self._lock:
            return list(self._followers)

    @contextmanager
    def subscribe(self, thread: str) -> Iterator[Follower]:
        """A follower of `thread` for the time of a `with`."""
        follower = Follower()
        with self._lock:
            if self._closed:
                raise StoreClosed
            self._followers.setdefault(thread, set()).add(follower)
        self.on_watch()
        try:
            yield follower
        finally:
            with self._lock:
                followers = self._followers[thread]
                followers.discard(follower)
                if not followers:
                    del self._followers[thread]

    @contextmanager
    def watch(self) -> Iterator[Watcher]:
        """A watcher of all threads for the time of a `with`."""
        watcher = Watcher()
        with self._lock:
            if self._closed:
                raise StoreClosed
            self._watchers.add(watcher)
        self.on_watch()
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    def taken(self, watcher: Watcher) -> frozenset[str] | None:
        """See `Watcher.take`."""
        with self._lock:
            return watcher.take()

    def wakes(self, threads: Collection[str]) -> list[Wake]:
        """The bells to ring when `threads` have changed."""
        if not threads or not self.watched:
            return []
        with self._lock:
            followers = [follower for thread in threads for follower in self._followers.get(thread, ())]
            return [(follower.loop, follower.ring) for follower in (*followers, *self._noted(threads))]

    def wakes_of_watchers(self) -> list[Wake]:
        """The bells to ring when it is not known what has changed. Followers of a thread look for themselves."""
        with self._lock:
            return [(watcher.loop, watcher.ring) for watcher in self._noted(None)]

    def _noted(self, threads: Collection[str] | None) -> set[Watcher]:
        for watcher in self._watchers:
            watcher.note(threads)
        return self._watchers

    def close(self) -> list[Wake]:
        """No more followers; the bells of those there are, who will find the log closed."""
        with self._lock:
            self._closed = True
            followers = [*self._watchers, *(it for followers in self._followers.values() for it in followers)]
        for follower in followers:
            follower.closed = True
        return [(follower.loop, follower.ring) for follower in followers]


def parse_cursor(engine: Engine, thread: str, after: int | str) -> int:
    """The seq of a cursor: a seq of this log, or `epoch.seq`. Raises `CursorUnprovable`."""
    head = 0 if _is_importing(engine, thread) else engine.tail(thread, after=0, rev=0, limit=0).head
    current = f"{engine.epoch}.{head}"
    if isinstance(after, int):
        seq = after
    else:
        epoch, _, number = after.rpartition(".")
        if not epoch or not is_seq(number):
            raise CursorUnprovable(thread=thread, reason="malformed", head=current)
        if epoch != engine.epoch:
            raise CursorUnprovable(thread=thread, reason="epoch", head=current)
        seq = int(number)
    if not 0 <= seq <= head:
        raise CursorUnprovable(thread=thread, reason="future" if seq > head else "malformed", head=current)
    return seq


def is_seq(text: str) -> bool:
    """Whether a text is a number that a seq could be. Its length comes first: Python reads no number of any length."""
    return text.isascii() and text.isdigit() and len(text) <= _SEQ_DIGITS_MAX and int(text) <= SEQ_MAX


class Batch(NamedTuple):
    """What became durable of a thread since the batch before: events in order, then chunks of open drafts.

    After it the reader is at `head` and, unless more events follow at once, at draft revision `rev`.
    """

    events: list[Event]
    drafts: list[Draft]
    head: int
    rev: int


async def batches(engine: Engine, hub: Hub, aside: Aside, thread: str, after: int) -> AsyncGenerator[Batch, None]:
    """Events after `after` in order, each open draft whole, then everything as it becomes durable. The first comes at
    once, even when it is empty; later ones bring something."""
    rev, first = 0, True
    with hub.subscribe(thread) as follower:
        while True:
            follower.listen()
            batch, caught_up = await aside.read(partial(_next_batch, engine, thread, after, rev))
            after, rev = batch.head, batch.rev
            if batch.events or batch.drafts or first:
                first = False
                yield batch
            if caught_up:
                await follower.wait()


def _next_batch(engine: Engine, thread: str, after: int, rev: int) -> tuple[Batch, bool]:
    """What comes after a position, and whether that was all."""
    tail = engine.tail(thread, after=after, rev=rev, limit=READ_EVENTS_MAX)
    if after == 0 and tail.events and _is_importing(engine, thread):
        return Batch([], [], 0, 0), True
    events = [decode_record(thread, record) for record in tail.events]
    after = events[-1].seq if events else after
    if after < tail.head and events:  # none: the last ones are lost
        return Batch(events, [], after, rev), False
    return Batch(events, joined(tail), after, tail.rev), True


def _is_importing(engine: Engine, thread: str) -> bool:
    """Whether a thread is still being brought in: until it is whole, it is not there for who follows it."""
    rows = engine.threads(thread=thread, limit=1).rows
    return bool(rows) and rows[0].importing


async def follow(
    engine: Engine, hub: Hub, aside: Aside, thread: str, after: int
) -> AsyncGenerator[Event | Draft, None]:
    """What `batches` gives, one by one."""
    async with aclosing(batches(engine, hub, aside, thread, after)) as stream:
        async for batch in stream:
            for event in batch.events:
                yield event
            for draft in batch.drafts:
                yield draft


async def changes(hub: Hub) -> AsyncGenerator[frozenset[str] | None, None]:
    """Which threads changed since it was asked last; None, at first too: everything may have."""
    with hub.watch() as watcher:
        while True:
            watcher.listen()
            changed = hub.taken(watcher)
            if changed is None or changed:
                yield changed
            await watcher.wait()


def joined(tail: Tail) -> list[Draft]:
    """The chunks of a tail, those of one draft joined to one, in the order in which drafts first appear in it."""
    drafts: dict[tuple[str, str], Draft] = {}
    for chunk in map(decode_chunk, tail.chunks):
        whole = drafts.setdefault((chunk.turn, chunk.draft), chunk)
        if whole is not chunk:
            text = whole.text[: chunk.offset - whole.offset] + chunk.text
            drafts[chunk.turn, chunk.draft] = replace(whole, text=text, chunk_rev=chunk.chunk_rev)
    return list(drafts.values())
