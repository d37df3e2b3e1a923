"""What a new truncation of a thread would hide, and why it may not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.engines.protocol import Engine, TurnRow
from turnlog.errors import Busy, TooLarge, TurnHidden, UnknownTurn
from turnlog.events.thread_kinds import ThreadTruncated, TruncateWhy
from turnlog.folds.hidden import Hidden
from turnlog.journal.hiding import hidden_in
from turnlog.journal.plan import Desk
from turnlog.journal.state import ThreadState
from turnlog.limits import HIDDEN_NAMED_MAX, PAGE_ROWS, TRUNCATIONS_MAX


def newest_first(engine: Engine, thread: str) -> Iterator[TurnRow]:
    """The rows of a thread's turns from the newest on, page by page."""
    before = None
    while True:
        page = engine.turns(thread=thread, before=before, limit=PAGE_ROWS)
        yield from page.rows
        if page.next is None:
            return
        before = page.next


@dataclass(frozen=True)
class Cut:
    """A truncation to be written, and the turns that it would hide, in order; `more` when there are older ones too."""

    body: ThreadTruncated
    hidden: tuple[str, ...]
    more: bool


def cut(
    state: ThreadState, desk: Desk, turn: str, *, why: TruncateWhy, by: str | None = None, open_too: bool = False
) -> Cut:
    """What hides `turn` and everything begun after it, and attempts at the same message directly before it.

    Raises `UnknownTurn`, `TurnHidden`, `TooLarge` when the thread has as many truncations as it may, or `Busy` when a
    turn that it would hide is open, unless `open_too`.
    """
    row = shown_turn(state, desk, turn, hidden := hidden_of(state, desk))
    if len(hidden) >= TRUNCATIONS_MAX:
        problem = "has been truncated too often: fork it at an earlier turn"
        raise TooLarge(field="thread", problem=problem, limit="TRUNCATIONS_MAX", limit_value=TRUNCATIONS_MAX)
    gone: list[str] = []
    latest = None
    for earlier in newest_first(desk.engine, state.thread):
        if hidden.by(earlier.seq_first) is not None:
            continue
        if earlier.seq_first < row.seq_first and earlier.turn != row.retry_of:
            latest = earlier.turn
            break
        row = min(row, earlier, key=lambda it: it.seq_first)
        if len(gone) <= HIDDEN_NAMED_MAX:
            gone.append(earlier.turn)
    if not open_too:
        refuse_open(state, turn, row.seq_first)
    body = ThreadTruncated(
        after=row.seq_first - 1,
        turn=row.turn,
        latest=latest,
        earlier=hidden.newest_up_to(row.seq_first - 1),
        why=why,
        by=by,
    )
    return Cut(body, tuple(reversed(gone[:HIDDEN_NAMED_MAX])), len(gone) > HIDDEN_NAMED_MAX)


def hidden_of(state: ThreadState, desk: Desk) -> Hidden:
    """All truncations of a thread that hold."""
    return hidden_in(desk.engine, state.thread, None if state.fold is None else state.fold.truncated)


def shown_turn(state: ThreadState, desk: Desk, turn: str, hidden: Hidden) -> TurnRow:
    """The row of a turn that is part of the conversation. Raises `UnknownTurn` or `TurnHidden`."""
    row = desk.row(state.thread, turn=turn)
    if row is None:
        raise UnknownTurn(thread=state.thread, turn=turn)
    by = hidden.by(row.seq_first)
    if by is not None:
        raise TurnHidden(thread=state.thread, turn=turn, hidden_by=by)
    return row


def refuse_open(state: ThreadState, turn: str, first: int) -> None:
    """Raise `Busy` when a turn submitted at the seq `first` or later is open."""
    for running in sorted(state.open.values(), key=lambda it: it.row.seq_first):
        if running.row.seq_first >= first:
            raise Busy(thread=state.thread, turn=turn, running=running.row.turn)
