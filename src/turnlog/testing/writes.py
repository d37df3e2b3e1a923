"""Small valid writes for tests of engines."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from turnlog.engines.protocol import (
    Chunk,
    Claim,
    Engine,
    Outcome,
    Phase,
    Record,
    SnapshotPart,
    ThreadRow,
    TurnRow,
    Write,
)
from turnlog.testing.clock import START_US


def record(seq: int, turn: str | None = None, *, kind: str = "item", body: bytes = b"{}") -> Record:
    """An event."""
    return Record(seq=seq, turn=turn, at=START_US + seq, v=1, kind=kind, body=body)


def thread_row(thread: str, *, updated_at: int = START_US, fold: bytes = b"thread fold") -> ThreadRow:
    """A thread's row, head and rev being the engine's."""
    return ThreadRow(thread=thread, updated_at=updated_at, fold=fold)


def submission(
    thread: str,
    turn: str,
    *,
    base: int = 0,
    owner: str = "owner1",
    key: str | None = None,
    digest: str = "digest",
    retry_of: str | None = None,
    updated_at: int = START_US,
) -> Write:
    """A new turn, by one `submitted` event."""
    seq = base + 1
    row = TurnRow(
        thread=thread,
        turn=turn,
        key=key,
        digest=digest,
        retry_of=retry_of,
        phase=Phase.SUBMITTED,
        seq_first=seq,
        seq_last=seq,
        fold=b"submitted fold",
    )
    return Write(
        thread=thread,
        base=base,
        turn=turn,
        claim=Claim(owner=owner),
        events=(record(seq, turn, kind="submitted"),),
        turn_row=row,
        thread_row=thread_row(thread, updated_at=updated_at),
    )


def append(
    row: TurnRow,
    *,
    base: int,
    kinds: Sequence[str] = ("item",),
    phase: Phase | None = None,
    fence: int | None = None,
    drop: tuple[str, ...] = (),
    bodies: Sequence[bytes] = (),
) -> Write:
    """Events of a turn by its owner; `fence` is the row's unless another one is given."""
    given = bodies or [b"{}"] * len(kinds)
    events = tuple(
        record(base + n, row.turn, kind=kind, body=body)
        for n, (kind, body) in enumerate(zip(kinds, given, strict=True), start=1)
    )
    after = replace(row, phase=row.phase if phase is None else phase, seq_last=base + len(events), fold=b"later fold")
    return Write(
        thread=row.thread,
        base=base,
        turn=row.turn,
        fence=row.fence if fence is None else fence,
        events=events,
        turn_row=after,
        thread_row=thread_row(row.thread),
        drop=drop,
    )


def start(row: TurnRow, *, base: int, fence: int | None = None) -> Write:
    """The turn's agent starts."""
    return append(row, base=base, kinds=("worker_started",), phase=Phase.STARTED, fence=fence)


def settle(row: TurnRow, *, base: int, fence: int | None = None, drop: tuple[str, ...] = ()) -> Write:
    """The turn ends."""
    return append(row, base=base, kinds=("completed",), phase=Phase.SETTLED, fence=fence, drop=drop)


def draft(
    row: TurnRow, name: str, text: bytes, *, after: int, offset: int = 0, rev: int = 0, fence: int | None = None
) -> Write:
    """One chunk of a draft; `rev` is that of its first chunk, 0 when this is the first."""
    chunk = Chunk(turn=row.turn, draft=name, after=after, rev=rev, offset=offset, text=text)
    return Write(thread=row.thread, turn=row.turn, fence=row.fence if fence is None else fence, chunks=(chunk,))


def claim(row: TurnRow, owner: str, *, expected: str | None) -> Write:
    """Take the turn over from `expected`."""
    return Write(thread=row.thread, turn=row.turn, claim=Claim(owner=owner, expected=expected))


def note(thread: str, *, base: int, count: int = 1, updated_at: int = START_US, body: bytes = b"{}") -> Write:
    """Events of the thread itself."""
    events = tuple(record(base + n, kind="thread_item", body=body) for n in range(1, count + 1))
    return Write(thread=thread, base=base, events=events, thread_row=thread_row(thread, updated_at=updated_at))


def snapshot(
    thread: str, turn: str, *pages: bytes, seq: int, first: int = 0, last: bool = True, keep: int = 20
) -> Write:
    """A part of a turn's snapshot."""
    part = SnapshotPart(seq=seq, first=first, pages=pages, last=last, keep=keep)
    return Write(thread=thread, turn=turn, snapshot=part)


def imported_turn(thread: str, turn: str, *, key: str | None = None, phase: Phase = Phase.SETTLED) -> TurnRow:
    """The row of a turn that is brought in; it names an owner, which the engine is to forget."""
    return TurnRow(
        thread=thread,
        turn=turn,
        key=key,
        digest="digest",
        phase=phase,
        owner="elsewhere",
        fence=9,
        seq_first=1,
        seq_last=9,
        fold=b"imported fold",
    )


def ingest(
    thread: str,
    *events: Record,
    base: int,
    turns: Sequence[TurnRow],
    importing: bool = True,
    updated_at: int = START_US,
) -> Write:
    """A page of a thread that is brought in; of `turns`, the rows of those that have events in it."""
    named = {event.turn for event in events}
    return Write(
        thread=thread,
        base=base,
        events=events,
        thread_row=replace(thread_row(thread, updated_at=updated_at), importing=importing),
        ingest=tuple(row for row in turns if row.turn in named),
    )


def rebuild(thread: str, *, base: int, thread_row: ThreadRow | None = None, turn_row: TurnRow | None = None) -> Write:
    """Rows in the place of wrong ones."""
    turn = None if turn_row is None else turn_row.turn
    return Write(thread=thread, base=base, turn=turn, thread_row=thread_row, turn_row=turn_row, rebuild=True)


def commit(engine: Engine, *writes: Write) -> list[Outcome]:
    """Commit one batch."""
    return engine.commit(writes)


def stored_turn(engine: Engine, thread: str, turn: str) -> TurnRow:
    """The turn's row as it is now."""
    (row,) = engine.turns(thread=thread, turn=turn, limit=1).rows
    return row


def submitted_turn(engine: Engine, thread: str, turn: str, *, base: int = 0, owner: str = "owner1") -> TurnRow:
    """Submit a turn and return its row."""
    commit(engine, submission(thread, turn, base=base, owner=owner))
    return stored_turn(engine, thread, turn)


def started_turn(engine: Engine, thread: str, turn: str, *, base: int = 0, owner: str = "owner1") -> TurnRow:
    """Submit and start a turn, at `base` + 1 and `base` + 2, and return its row."""
    row = submitted_turn(engine, thread, turn, base=base, owner=owner)
    commit(engine, start(row, base=base + 1))
    return stored_turn(engine, thread, turn)
