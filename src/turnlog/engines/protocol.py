"""The contract between the journal and what keeps its bytes.

An engine sees no meaning beyond the columns of a row: bodies and folds are bytes to it. It blocks, may be called from
any thread, and promises:

1. `commit` returns only after everything it accepted is durable, and no reader sees a write before that.
2. Writes are taken in order; each is stored whole or refused alone, by `decide`, the same on every engine.
3. After `commit` raises, the outcome of its writes is unknown, and found by reading. Further writes are refused with
   `StoreUnavailable` until the engine has itself proved that it can write durably again.
4. Every read is one consistent snapshot; bytes come back as they were given.
5. (thread, seq), (thread, turn) and (thread, key) are unique, a thread has at most one started turn, a turn at most one
   retry child: held by the engine itself, whatever the journal believes.
6. An owner is alive while its lease runs and its lock is held; the lock ends with the process, however it ends.
7. Reading and appending cost the same however long a thread or store has become.
8. `rev` of a thread grows by one with each accepted write that adds or drops drafts, and never otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
OwnerId: TypeAlias = str
ThreadId: TypeAlias = str


class Phase(IntEnum):
    """What an engine knows of a turn's state: enough for its indexes and for claims."""

    SUBMITTED = 0
    STARTED = 1
    SETTLED = 2


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all rows are."""


class Record(Row, frozen=True, kw_only=True):
    """One event as kept: `body` is opaque, `at` wall time in µs, `turn` None for events of the thread itself."""

    seq: int
    turn: str | None
    at: int
    v: int
    kind: str
    body: bytes


class Chunk(Row, frozen=True, kw_only=True):
    """One chunk of a draft. (`after`, `rev`) is the draft's place; `offset` counts code points of the draft.

    In a `Write`, `chunk_rev` is 0, and so are `after` and `rev` of the chunk that opens its draft: the engine fills in
    the head and the revision that the write makes. A write opens at most one draft, so a place belongs to one draft. A
    dropped draft's id is never used again in its turn.
    """

    turn: str
    draft: str
    after: int = 0
    rev: int = 0
    chunk_rev: int = 0
    offset: int
    text: bytes


class ThreadRow(Row, frozen=True, kw_only=True):
    """A thread. `head` and `rev` are set by the engine; lists are sorted by `pinned`, then `updated_at` (µs), newest
    first. One that is `importing` is found by its name, and in a list of such alone: its events
    are still being brought in."""

    thread: str
    head: int = 0
    rev: int = 0
    updated_at: int
    pinned: bool = False
    importing: bool = False
    fold: bytes


class TurnRow(Row, frozen=True, kw_only=True):
    """A turn. `owner` and `fence` are set by the engine from claims, whatever a `Write` says."""

    thread: str
    turn: str
    key: str | None = None
    digest: str
    retry_of: str | None = None
    phase: Phase
    owner: OwnerId | None = None
    fence: int = 0
    seq_first: int
    seq_last: int
    fold: bytes


class Claim(Row, frozen=True, kw_only=True):
    """Make `owner` the owner of the write's turn if its owner still is `expected` (None: the turn is new)."""

    owner: OwnerId
    expected: OwnerId | None = None


class SnapshotPart(Row, frozen=True, kw_only=True):
    """Some pages of a turn's snapshot, from the index `first` on. `seq` is what the snapshot covers.

    The part with `first` 0 takes the place of what was stored before; the one with `last` makes the snapshot whole, and
    of the thread's snapshots only those of the newest `keep` turns that have one stay. A part that does not go on where
    the stored ones end, with their `seq`, is `Done` and changes nothing: somebody else began the snapshot again.
    """

    seq: int
    first: int
    pages: tuple[bytes, ...]
    last: bool
    keep: int


class Write(Row, frozen=True, kw_only=True):
    """One atomic change of one thread.

    `base` is the head the journal saw, None exactly when there are no events and nothing is rebuilt; `events` continue
    it without a gap. `fence` is the one the writer knows, None only for submissions, requests, claims, events of the
    thread itself, and the last three below. A *submission* has a `claim` and a `turn_row`; a claim alone has neither
    events nor rows. `drop` names drafts of `turn` that go in this write. Besides:

    - `ingest`: `events` of any turns, brought into a thread that is new or `importing`; of each turn that has some it
      holds the row as it will be in the end. Such turns have no owner. A thread that is neither is answered `Moved`.
    - `rebuild`: no events, but rows that take the place of what differs from its events, the thread's `head` included;
      of a turn phase, seqs and fold. It may `drop` drafts. An unknown thread is answered `Moved`.
    - `snapshot`: pages of a snapshot of `turn` and nothing else. It changes neither thread nor turn and is no news.
    """

    thread: str
    base: int | None = None
    turn: str | None = None
    fence: int | None = None
    claim: Claim | None = None
    events: tuple[Record, ...] = ()
    turn_row: TurnRow | None = None
    thread_row: ThreadRow | None = None
    chunks: tuple[Chunk, ...] = ()
    drop: tuple[str, ...] = ()
    ingest: tuple[TurnRow, ...] = ()
    rebuild: bool = False
    snapshot: SnapshotPart | None = None

    @property
    def submission(self) -> bool:
        """Whether this write brings a new turn."""
        return self.claim is not None and self.turn_row is not None


class Done(Row, frozen=True, kw_only=True):
    """Accepted and durable: the thread's head and rev after it, and the turn's fence (0 without a turn)."""

    head: int
    rev: int
    fence: int


class Duplicate(Row, frozen=True, kw_only=True):
    """This submission is `row` already."""

    row: TurnRow


class KeyConflict(Row, frozen=True, kw_only=True):
    """The key or turn id names `row`, whose content is another; `digest` is the one that was refused."""

    row: TurnRow
    digest: str


class OwnerAlive(Row, frozen=True, kw_only=True):
    """The turn has started and its owner is alive."""

    owner: OwnerId


class Fenced(Row, frozen=True, kw_only=True):
    """The turn is settled or taken over; `fence` is the one it has now (0: there is no such turn)."""

    fence: int


class Moved(Row, frozen=True, kw_only=True):
    """Somebody else appended first: the head is `head`."""

    head: int


Outcome: TypeAlias = Done | Duplicate | KeyConflict | OwnerAlive | Fenced | Moved


class Page(Row, Generic[T], frozen=True, kw_only=True):
    """A part of a list. `next` is given back as `before` (or `after`) to go on; None when this is the end."""

    rows: tuple[T, ...]
    next: bytes | None = None


class Tail(Row, frozen=True, kw_only=True):
    """A thread from a position on, in one snapshot. `floor` is the last pruned seq (0: none).

    `chunks` belong to `head`; there are none when `limit` cut the events short. An unknown thread has head 0.
    """

    epoch: str
    head: int
    rev: int
    floor: int
    events: tuple[Record, ...]
    chunks: tuple[Chunk, ...]


class SnapshotPage(Row, frozen=True, kw_only=True):
    """One page of a whole snapshot: the seq that it covers, the page's index, and how many there are."""

    seq: int
    page: int
    pages: int
    body: bytes


class Damage(Row, frozen=True, kw_only=True):
    """Something of the store that is not as the engine wrote it, with its place as far as it is known.

    - `unreadable`: bytes that the engine cannot read back;
    - `index`: what the engine keeps to find rows by differs from the rows: see `Engine.reindex`;
    - `orphan`: an event or chunk whose thread or turn is not there;
    - `head`: the thread's head is not its last event;
    - `duplicate`: a place that is taken twice;
    - `places`: what is noted beside a turn's row of the places its events take is not so: a rebuilt row has it right.
    """

    what: Literal["unreadable", "index", "orphan", "head", "duplicate", "places"]
    thread: ThreadId | None = None
    turn: str | None = None
    seq: int | None = None
    detail: str


class Caps(Row, frozen=True, kw_only=True):
    """What an engine can do: `durable` survives power loss, `shared` serves several processes."""

    durable: bool
    shared: bool


class Engine(Protocol):
    """See the module's docstring for the numbered promises. Every method may raise `StoreError`.

    Reads raise `InvalidInput`, by `engines.asked`, for numbers and positions that nobody can have been given.
    """

    @property
    def caps(self) -> Caps:
        """What this engine can do."""
        ...

    @property
    def epoch(self) -> str:
        """The random mark of the store, part of every cursor."""
        ...

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """Take `writes` in order (promises 1-3). One outcome a write, in the order decided by `decide`."""
        ...

    def lease(self, owner: OwnerId, seconds: float) -> None:
        """Make or renew the owner's lease from now, by the engine's own clock; its lock is taken first.

        0 seconds end it: the row goes, and the lock if it is ours. Ending another owner's lease is for owners known to
        be dead; it is refused silently while that owner is alive.
        """
        ...

    def dead_owners(self, *, limit: int) -> list[OwnerId]:
        """Owners of open turns, or of a lease row, whose lock is free or whose lease is out. A hint: claims decide."""
        ...

    def lease_end(self) -> float | None:
        """Seconds until the earliest running lease of another owner ends, None when there is none."""
        ...

    def tail(self, thread: ThreadId, *, after: int, rev: int, limit: int) -> Tail:
        """At most `limit` events after `after`, and the chunks of open drafts with `chunk_rev` over `rev`, in order.

        A `limit` of 0 asks for the head alone.
        """
        ...

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
        """Events with `after` < seq < `before`, of one turn or some kinds, in order of seq (or the reverse).

        A page ends at `limit` events or once its bodies reach `bytes_max` (at least one event); `next` is set when
        there is more. The caller goes on with `after` (or, reversed, `before`) set to the last seq it got.
        """
        ...

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
        """Turn rows, newest first: of a thread; by turn id, key or retried turn in it; open ones; of one owner.

        `latest_each` gives the newest turn of each thread. Without `thread`, only `open_only` and `latest_each` lists
        exist; the latter comes in the order of `threads`. All conditions given hold for every row.
        """
        ...

    def threads(
        self, *, thread: ThreadId | None = None, importing: bool = False, before: bytes | None = None, limit: int
    ) -> Page[ThreadRow]:
        """Thread rows, pinned ones first, then the last updated first; or those that are `importing`, or the one of
        `thread`."""
        ...

    def snapshot(self, thread: ThreadId, turn: str, *, page: int = 0) -> SnapshotPage | None:
        """A page of a turn's snapshot; None when there is no whole one, or not so many pages."""
        ...

    def check(self, thread: ThreadId | None = None) -> Iterator[Damage]:
        """What of the store, or of one thread, is not as it was written. Reads everything, in bounded memory; damage
        in one place ends neither the search nor the reading of what is sound beside it."""
        ...

    def reindex(self) -> None:
        """Make again, from the rows, all that they are found by. Of a sound store it changes nothing that can be read.

        Nobody else writes meanwhile, so it is for repairs.
        """
        ...

    def changes(self, position: bytes, timeout: float) -> tuple[list[ThreadId], bytes]:
        """Threads written since `position` by anybody, each once, and the position to ask from next.

        Waits up to `timeout` seconds for the first one. An empty position means now: it returns at once, with none.
        """
        ...

    def rest(self) -> None:
        """Nothing is waiting to be written: do some milliseconds of housekeeping now, so that no commit pays for it."""
        ...

    def close(self) -> None:
        """Give back files, connections and locks. Idempotent. The owner's lease row is not ended by it."""
        ...
