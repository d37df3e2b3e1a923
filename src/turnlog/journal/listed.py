"""Rows of turns as lists show them: the fold of the turn, and what only its neighbours and its writer tell.

That is read when it is asked for and stored nowhere: it changes with other turns, whose writes do not touch this one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnlog.engines.protocol import Engine, Phase, TurnRow
from turnlog.folds.turn import TurnView
from turnlog.journal.records import turn_view
from turnlog.limits import PAGE_ROWS_MAX


class ListedTurn(TurnView, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A turn in a list.

    `owner` is the log that may write it, or wrote it last. `queue_place` counts the open turns of its thread that a
    submitted turn waits for, None for all others. `retried_by` is the later turn that asked the same again, `pruned`
    tells that the trace was removed.
    """

    thread: str
    owner: str | None = None
    queue_place: int | None = None
    retried_by: str | None = None
    pruned: bool = False

    @property
    def hidden(self) -> bool:
        """Whether a later turn asked the same again."""
        return self.retried_by is not None

    @property
    def view(self) -> TurnView:
        """The fold alone, which can be compared with one that was followed."""
        return TurnView(**{name: getattr(self, name) for name in _FOLDED})

    def beside(self, view: TurnView) -> ListedTurn:
        """A fold of the same turn with what this row tells beside it: for a trace that was read a moment later."""
        return _listed(self.thread, self.owner, self.queue_place, self.retried_by, view)


_FOLDED: Final = TurnView.__struct_fields__


def _listed(thread: str, owner: str | None, place: int | None, retried_by: str | None, view: TurnView) -> ListedTurn:
    fields = {name: getattr(view, name) for name in _FOLDED}
    place = place if view.state == "submitted" else None
    return ListedTurn(**fields, thread=thread, owner=owner, queue_place=place, retried_by=retried_by)


def listed(engine: Engine, rows: Sequence[TurnRow]) -> tuple[ListedTurn, ...]:
    """The rows of a page, in its order. What stands beside the folds is of now, which may be a moment later."""
    places = _places(engine, {row.thread for row in rows if row.phase is Phase.SUBMITTED})
    children = {(row.thread, row.retry_of): row.turn for row in rows if row.retry_of is not None}
    found = []
    for row in rows:
        view, pair = turn_view(engine, row), (row.thread, row.turn)
        child = children.get(pair)
        if child is None and view.state == "interrupted":
            child = _child(engine, row)
        found.append(_listed(row.thread, row.owner, places.get(pair, 0), child, view))
    return tuple(found)


def _places(engine: Engine, threads: set[str]) -> dict[tuple[str, str], int]:
    """How many open turns come before each open turn of these threads."""
    places = {}
    for thread in threads:
        open_rows = engine.turns(thread=thread, open_only=True, limit=PAGE_ROWS_MAX).rows
        for place, row in enumerate(sorted(open_rows, key=lambda row: row.seq_first)):
            places[thread, row.turn] = place
    return places


def _child(engine: Engine, row: TurnRow) -> str | None:
    """The turn that asked this one again."""
    return next((child.turn for child in engine.turns(thread=row.thread, retry_of=row.turn, limit=1).rows), None)
