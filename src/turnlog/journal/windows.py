"""How far back a history with a limit is read: the newest turns, and twice as many as long as they do not tell it."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.engines.protocol import Engine, TurnRow
from turnlog.folds.history import Window
from turnlog.limits import PAGE_ROWS_MAX


def windows(engine: Engine, thread: str, end: int | None, limit: int) -> Iterator[Window]:
    """Windows of the turns submitted before the seq `end`, each larger than the one before it.

    Most turns have a group at least, so the first has one turn more than groups are asked for.
    """
    turns: list[str] = []
    wanted = limit + 1
    for row in _rows(engine, thread, end, min(wanted, PAGE_ROWS_MAX)):
        turns.append(row.turn)
        if len(turns) == wanted:
            yield Window(row.seq_first, frozenset(turns))
            wanted *= 2


def _rows(engine: Engine, thread: str, end: int | None, limit: int) -> Iterator[TurnRow]:
    before: bytes | None = None
    while True:
        page = engine.turns(thread=thread, before=before, limit=limit)
        yield from (row for row in page.rows if end is None or row.seq_first < end)
        if page.next is None:
            return
        before = page.next
