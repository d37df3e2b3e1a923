"""Rows of turns as lists show them: the fold of the turn, and what only its neighbours and its writer tell.

That is read when it is asked for and stored nowhere: it changes with other turns, whose writes do not touch this one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from turnlog.engines.protocol import Engine, Phase, TurnRow
from turnlog.folds.hidden import Hidden
from turnlog.folds.turn import TurnView
from turnlog.journal.hiding import hidden_in
from turnlog.journal.records import thread_fold, turn_view
from turnlog.limits import PAGE_ROWS_MAX


class ListedTurn(TurnView, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A turn in a list.

    `owner` is the log that may write it, or wrote it last. `queue_place` counts the open turns of its thread that a
    submitted turn waits for, None for all others. `retried_by` is the later turn that asked the same again and is not
    hidden while this one is shown, `hidden_by` the seq of the truncation that took the turn out of the conversation,
    `pruned` tells that the trace was removed.
    """

    thread: str
    owner: str | None = None
    queue_place: int | None = None
    retried_by: str | None = None
    hidden_by: int | None = None
    pruned: bool = False

    @property
    def hidden(self) -> bool:
        """Whether a later turn asked the same again, or a truncation took this one out of the conversation."""
        return self.retried_by is not None or self.hidden_by is not None

    @property
    def view(self) -> TurnView:
        """The fold alone, which can be compared with one that was followed."""
        return TurnView(**{name: getattr(self, name) for name in _FOLDED})

    def beside(self, view: TurnView) -> ListedTurn:
        """A fold of the same turn with what this row tells beside it: for a trace that was read a moment later."""
        place = self.queue_place if view.state == "submitted" else None
        folded = {name: getattr(view, name) for name in _FOLDED}
        return replace(self, **folded, queue_place=place)


_FOLDED: Final = TurnView.__struct_fields__


def listed(engine: Engine, rows: Sequence[TurnRow]) -> tuple[ListedTurn, ...]:
    """The rows of a page, in its order. What stands beside the folds is of now, which may be a moment later."""
    places = _places(engine, {row.thread for row in rows if row.phase is Phase.SUBMITTED})
    hidden = {thread: _hidden(engine, thread, rows) for thread in {row.thread for row in rows}}
    children = {(row.thread, row.retry_of): row for row in rows if row.retry_of is not None}
    found = []
    for row in rows:
        view, pair = turn_view(engine, row), (row.thread, row.turn)
        child = children.get(pair)
        if child is None and view.state == "interrupted":
            child = _child(engine, row)
        by = hidden[row.thread].by(row.seq_first)
        takes_its_place = child is not None and hidden[row.thread].by(child.seq_first) == by
        found.append(
            ListedTurn(
                **{name: getattr(view, name) for name in _FOLDED},
                thread=row.thread,
                owner=row.owner,
                queue_place=places.get(pair, 0) if view.state == "submitted" else None,
                retried_by=child.turn if child is not None and takes_its_place else None,
                hidden_by=by,
            )
        )
    return tuple(found)


def _hidden(engine: Engine, thread: str, rows: Sequence[TurnRow]) -> Hidden:
    """The truncations that may hide one of these rows."""
    first = min(row.seq_first for row in rows if row.thread == thread)
    stored = engine.threads(thread=thread, limit=1).rows
    newest = thread_fold(engine, stored[0]).truncated if stored else None
    return hidden_in(engine, thread, newest, first)


def _places(engine: Engine, threads: set[str]) -> dict[tuple[str, str], int]:
    """How many open turns come before each open turn of these threads."""
    places = {}
    for thread in threads:
        open_rows = engine.turns(thread=thread, open_only=True, limit=PAGE_ROWS_MAX).rows
        for place, row in enumerate(sorted(open_rows, key=lambda row: row.seq_first)):
            places[thread, row.turn] = place
    return places


def _child(engine: Engine, row: TurnRow) -> TurnRow | None:
    """The turn that asked this one again."""
    return next(iter(engine.turns(thread=row.thread, retry_of=row.turn, limit=1).rows), None)
