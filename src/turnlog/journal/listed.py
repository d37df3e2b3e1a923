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
    submitted turn waits for, None for all others. `hidden` tells that a later turn asked the same again, `pruned` that
    its trace was removed.
    """

    thread: str
    owner: str | None = None
    queue_place: int | None = None
    hidden: bool = False
    pruned: bool = False

    @property
    def view(self) -> TurnView:
        """The fold alone, which can be compared with one that was followed."""
        return TurnView(**{name: getattr(self, name) for name in _FOLDED})

    def beside(self, view: TurnView) -> ListedTurn:
        """A fold of the same turn with what this row tells beside it: for a trace that was read a moment later."""
        return _listed(self.thread, self.owner, self.queue_place, self.hidden, view)


_FOLDED: Final = TurnView.__struct_fields__


def _listed(thread: str, owner: str | None, place: int | None, hidden: bool, view: TurnView) -> ListedTurn:
    fields = {name: getattr(view, name) for name in _FOLDED}
    place = place if view.state == "submitted" else None
    return ListedTurn(**fields, thread=thread, owner=owner, queue_place=place, hidden=hidden)


def listed(engine: Engine, rows: Sequence[TurnRow]) -> tuple[ListedTurn, ...]:
    """The rows of a page, in its order. What stands beside the folds is of now, which may be a moment later."""
    places = _places(engine, {row.thread for row in rows if row.phase is Phase.SUBMITTED})
    asked_again = {(row.thread, row.retry_of) for row in rows if row.retry_of is not None}
    found = []
    for row in rows:
        view, pair = turn_view(engine, row), (row.thread, row.turn)
        hidden = pair in asked_again or (view.state == "interrupted" and _is_asked_again(engine, row))
        found.append(_listed(row.thread, row.owner, places.get(pair, 0), hidden, view))
    return tuple(found)


def _places(engine: Engine, threads: set[str]) -> dict[tuple[str, str], int]:
    """How many open turns come before each open turn of these threads."""
    places = {}
    for thread in threads:
        open_rows = engine.turns(thread=thread, open_only=True, limit=PAGE_ROWS_MAX).rows
        for place, row in enumerate(sorted(open_rows, key=lambda row: row.seq_first)):
            places[thread, row.turn] = place
    return places


def _is_asked_again(engine: Engine, row: TurnRow) -> bool:
    return bool(engine.turns(thread=row.thread, retry_of=row.turn, limit=1).rows)
