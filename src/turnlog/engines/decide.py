"""Which writes of a batch are accepted: one pure function for every engine.

An engine holds its write lock, reads the facts that `needs` names, calls `decide`, and stores what the `Decision` says.
Later writes of a batch see the effect of earlier accepted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from turnlog.engines.protocol import (
    Chunk,
    Done,
    Duplicate,
    Fenced,
    KeyConflict,
    Moved,
    Outcome,
    OwnerAlive,
    OwnerId,
    Phase,
    Record,
    SnapshotPart,
    ThreadRow,
    TurnRow,
    Write,
)

Pair = tuple[str, str]
"""(thread, turn id or key or retried turn)."""


@dataclass(frozen=True)
class Needs:
    """What must be known to decide a batch."""

    threads: frozenset[str]
    turns: frozenset[Pair]
    keys: frozenset[Pair]
    retries: frozenset[Pair]
    snapshots: frozenset[Pair]
    """Of turns whose snapshot is to go on."""


@dataclass(frozen=True)
class SnapshotState:
    """What is stored of a turn's snapshot: the seq that it covers, how many pages, and whether that is all of them."""

    seq: int
    pages: int
    whole: bool


@dataclass
class Facts:
    """What is stored now, of what `Needs` names. `alive` tells whether an owner is."""

    alive: Callable[[OwnerId], bool]
    threads: dict[str, ThreadRow] = field(default_factory=dict)
    turns: dict[Pair, TurnRow] = field(default_factory=dict)
    keys: dict[Pair, TurnRow] = field(default_factory=dict)
    retries: dict[Pair, TurnRow] = field(default_factory=dict)
    snapshots: dict[Pair, SnapshotState] = field(default_factory=dict)

    def learn(self, row: TurnRow) -> None:
        """Take a turn row in under all its names."""
        self.turns[row.thread, row.turn] = row
        if row.key is not None:
            self.keys[row.thread, row.key] = row
        if row.retry_of is not None:
            self.retries[row.thread, row.retry_of] = row


@dataclass
class Decision:
    """What to answer and what to store. Chunks that the same batch drops again are not in it."""

    outcomes: list[Outcome] = field(default_factory=list)
    threads: dict[str, ThreadRow] = field(default_factory=dict)
    turns: dict[Pair, TurnRow] = field(default_factory=dict)
    events: list[tuple[str, Record]] = field(default_factory=list)
    chunks: dict[Pair, list[Chunk]] = field(default_factory=dict)
    """By (thread, turn), in order."""
    drops: dict[Pair, set[str]] = field(default_factory=dict)
    rebuilt: set[Pair] = field(default_factory=set)
    """Turns in `turns` that were rebuilt: whatever an engine keeps beside their rows is to be found again."""
    snapshots: list[tuple[Pair, SnapshotPart]] = field(default_factory=list)
    """In order. A part whose snapshot the ring took away earlier in this batch is to be left out."""


def needs(writes: Iterable[Write]) -> Needs:
    """Name what `decide` will ask for."""
    threads, turns, keys, retries, snapshots = set(), set(), set(), set(), set()
    for write in writes:
        threads.add(write.thread)
        turns |= {(write.thread, row.turn) for row in write.ingest}
        if write.turn is not None:
            turns.add((write.thread, write.turn))
            if write.snapshot is not None and write.snapshot.first > 0:
                snapshots.add((write.thread, write.turn))
        if write.submission and (row := write.turn_row) is not None:
            if row.key is not None:
                keys.add((write.thread, row.key))
            if row.retry_of is not None:
                retries.add((write.thread, row.retry_of))
    return Needs(frozenset(threads), frozenset(turns), frozenset(keys), frozenset(retries), frozenset(snapshots))


def decide(writes: Sequence[Write], facts: Facts) -> Decision:
    """Decide a batch in order. `facts` is updated on the way."""
    decision = Decision()
    for write in writes:
        refusal = _refusal(write, facts)
        decision.outcomes.append(_accept(write, facts, decision) if refusal is None else refusal)
    return decision


def _refusal(write: Write, facts: Facts) -> Outcome | None:
    row = None if write.turn is None else facts.turns.get((write.thread, write.turn))
    if write.submission:
        known = _known_submission(write, row, facts)
        if known is not None:
            return known
    elif write.claim is not None:
        refused = _claim_refusal(write, row, facts)
        if refused is not None:
            return refused
    elif write.turn is not None and row is None:
        return Fenced(fence=0)
    if write.fence is not None and (row is None or row.fence != write.fence or row.phase is Phase.SETTLED):
        return Fenced(fence=0 if row is None else row.fence)
    thread = facts.threads.get(write.thread)
    head = 0 if thread is None else thread.head
    if (write.ingest and thread is not None and not thread.importing) or (write.rebuild and thread is None):
        return Moved(head=head)
    return None if write.base is None or write.base == head else Moved(head=head)


def _known_submission(write: Write, row: TurnRow | None, facts: Facts) -> Outcome | None:
    """An earlier submission of this key, of this retry or of this turn id, in this order."""
    new = write.turn_row
    assert new is not None
    if new.key is not None:
        row = facts.keys.get((write.thread, new.key)) or row
    if row is None and new.retry_of is not None:
        row = facts.retries.get((write.thread, new.retry_of))
    if row is None:
        return None
    return Duplicate(row=row) if row.digest == new.digest else KeyConflict(row=row, digest=new.digest)


def _claim_refusal(write: Write, row: TurnRow | None, facts: Facts) -> Outcome | None:
    claim = write.claim
    assert claim is not None
    if row is None or row.phase is Phase.SETTLED:
        return Fenced(fence=0 if row is None else row.fence)
    if row.owner is None or row.owner == claim.owner:
        return None
    alive = facts.alive(row.owner)
    if row.owner != claim.expected:
        return OwnerAlive(owner=row.owner) if alive else Fenced(fence=row.fence)
    if alive and row.phase is not Phase.SUBMITTED:
        return OwnerAlive(owner=row.owner)
    return None


def _accept(write: Write, facts: Facts, decision: Decision) -> Done:
    if write.snapshot is not None:
        return _accept_snapshot(write, write.snapshot, facts, decision)
    thread = _thread_row(write, facts)
    facts.threads[write.thread] = decision.threads[write.thread] = thread
    turn = _turn_row(write, facts)
    for row in (*_ingested(write), *(() if turn is None else (turn,))):
        facts.learn(row)
        decision.turns[row.thread, row.turn] = row
    if turn is not None and write.rebuild:
        decision.rebuilt.add((turn.thread, turn.turn))
    decision.events += [(write.thread, event) for event in write.events]
    _accept_drafts(write, thread.head, thread.rev, decision)
    return Done(head=thread.head, rev=thread.rev, fence=0 if turn is None else turn.fence)


def _ingested(write: Write) -> list[TurnRow]:
    """The rows that are brought in, in the order in which their turns begin: that is the order of lists."""
    first: dict[str | None, int] = {}
    for event in write.events:
        first.setdefault(event.turn, event.seq)
    rows = sorted(write.ingest, key=lambda row: first[row.turn])
    return [replace(row, owner=None, fence=0) for row in rows]


def _thread_row(write: Write, facts: Facts) -> ThreadRow:
    """The thread's row after the write. Its head is that of its events, but when it is rebuilt."""
    old = facts.threads.get(write.thread)
    row = write.thread_row or old
    assert row is not None, "the first write of a thread brings its row"
    head, rev = (0, 0) if old is None else (old.head, old.rev)
    if write.rebuild:
        head = row.head
    elif write.events:
        head = write.events[-1].seq
    rev += bool(write.chunks or write.drop)
    return replace(row, head=head, rev=rev)


def _turn_row(write: Write, facts: Facts) -> TurnRow | None:
    if write.turn is None:
        return None
    old = facts.turns.get((write.thread, write.turn))
    row = write.turn_row or old
    assert row is not None, "the first write of a turn brings its row"
    if write.rebuild and old is not None:
        # Its names are no fold of events: they stay, and so does who may write it.
        return replace(old, phase=row.phase, seq_first=row.seq_first, seq_last=row.seq_last, fold=row.fold)
    owner, fence = (None, 0) if old is None else (old.owner, old.fence)
    if write.claim is not None:
        owner, fence = write.claim.owner, fence + 1
    return replace(row, owner=owner, fence=fence)


def _accept_snapshot(write: Write, part: SnapshotPart, facts: Facts, decision: Decision) -> Done:
    """A part that goes on with what is stored, or begins anew. Another one came too late, and is not needed: somebody
    else began the turn's snapshot again."""
    assert write.turn is not None, "a snapshot is of a turn"
    pair = (write.thread, write.turn)
    thread, known = facts.threads[write.thread], facts.snapshots.get(pair)
    if part.first == 0 or known == SnapshotState(part.seq, part.first, whole=False):
        facts.snapshots[pair] = SnapshotState(part.seq, part.first + len(part.pages), part.last)
        decision.snapshots.append((pair, part))
    return Done(head=thread.head, rev=thread.rev, fence=facts.turns[pair].fence)


def _accept_drafts(write: Write, head: int, rev: int, decision: Decision) -> None:
    if write.turn is None:
        return
    pair = (write.thread, write.turn)
    if write.drop:
        gone = set(write.drop)
        decision.drops.setdefault(pair, set()).update(gone)
        if pair in decision.chunks:
            decision.chunks[pair] = [chunk for chunk in decision.chunks[pair] if chunk.draft not in gone]
    for chunk in write.chunks:
        opens = chunk.rev == 0
        placed = replace(chunk, after=head if opens else chunk.after, rev=rev if opens else chunk.rev, chunk_rev=rev)
        decision.chunks.setdefault(pair, []).append(placed)
