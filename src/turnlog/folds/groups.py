"""Groups of a history: what cannot be cut.

A group is a message alone; or a run of calls with all their outputs; or reasoning with what it led to. Where calls and
outputs of several groups stand between one another, they are one.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.folds.pieces import Pairs, Piece
from turnlog.folds.turn import is_call


def group_starts(pieces: Sequence[Piece]) -> list[int]:
    """The index of the first piece of each group."""
    pairs = Pairs(pieces)
    starts: list[int] = []
    paired_until = -1
    reasoned = False
    for at, piece in enumerate(pieces):
        before = pieces[at - 1] if at else None
        together = before is not None and _is_one_step(before, piece, reasoned=reasoned)
        if at > paired_until and not together:
            starts.append(at)
        reasoned = piece.type == "reasoning" or (reasoned and together)
        paired_until = max(paired_until, pairs.outputs.get(at, -1))
    return starts


def _is_one_step(before: Piece, piece: Piece, *, reasoned: bool) -> bool:
    """Whether a piece belongs to the one before it, which is of a group that has `reasoned`."""
    if not before.same_attempt(piece):
        return False
    if before.type == "reasoning" or (is_call(before.type) and is_call(piece.type)):
        return True
    return reasoned and before.of_agent and piece.of_agent and piece.type != "reasoning"
