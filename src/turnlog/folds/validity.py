"""What a Responses endpoint accepts as input: which items must go, and which must come.

- A call that the client carries out needs exactly one output of its id and type. Where it is missing, the outcome is
  not known, and a neutral output says so, right after the run of calls that the call stands in. A few types have no
  output that claims nothing: such a call is left out.
- An output without its call is left out, and so is what has no type, or is a message without a role or content.
- Reasoning must be followed by what it led to, in its own attempt of its own turn; else it is left out, whole. Text
  that stands for an item that never came is not what it led to.

Doing it again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

import msgspec

from turnlog.events.codec import encode_json
from turnlog.folds.items import CLIENT_CALLS
from turnlog.folds.pieces import NAMED_BY_ID, Added, Pairs, Piece, output_types
from turnlog.folds.turn import is_call

UNKNOWN_OUTCOME: Final = (
    "[interrupted, outcome unknown] This call was begun, and nothing is recorded of how it ended: "
    "it may or may not have had its effect."
)
"""What stands in for an output that never came."""

_ADDED_WHY: Final = "interrupted, outcome unknown"

NO_NEUTRAL_OUTPUT: Final = frozenset({"shell_call", "apply_patch_call", "computer_call", "tool_search_call"})
"""Types of calls whose outputs must say how it went: with an exit code, a success, a screenshot, a list of tools."""


class Valid(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces in order, those that were added, and those that were left out, each with the reason.

    `orphans` are those of them that are outputs without a call.
    """

    pieces: list[Piece]
    added: list[Added]
    gone: list[tuple[Piece, str]]
    orphans: list[Piece]


def make_valid(pieces: Sequence[Piece]) -> Valid:
    """See the module's docstring."""
    why_gone = {at: why for at, piece in enumerate(pieces) if (why := _why_unfit(piece)) is not None}
    places = [at for at in range(len(pieces)) if at not in why_gone]
    pairs = Pairs([pieces[at] for at in places])
    orphans = [places[at] for at in pairs.orphans]
    answered = {places[at] for at in pairs.outputs}
    why_gone |= dict.fromkeys(orphans, "output without its call")
    for at in places:
        if pieces[at].type in NO_NEUTRAL_OUTPUT and at not in answered:
            why_gone[at] = "interrupted, and its type has no neutral output"
    why_gone |= dict.fromkeys(_reasoning_alone(pieces, why_gone), "reasoning without what it led to")
    kept, added = _with_outputs(pieces, why_gone, answered)
    gone = [(pieces[at], why) for at, why in why_gone.items()]
    return Valid(pieces=kept, added=added, gone=gone, orphans=[pieces[at] for at in orphans])


def _why_unfit(piece: Piece) -> str | None:
    """Why an item can be no part of a valid input by itself, None when it can."""
    if not piece.readable:
        return "damaged"
    if piece.format != "responses":
        return f"format {piece.format}"
    if not piece.whole:
        return "no Responses item"
    if piece.type in CLIENT_CALLS and piece.call_id is None:
        return "call without a call id"
    return None


def _reasoning_alone(pieces: Sequence[Piece], gone: Container[int]) -> list[int]:
    """Indexes of reasoning that is not followed by what it led to. What was left out there has its reason with it."""
    alone: list[int] = []
    follower: Piece | None = None
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if at in gone:
            follower = None
        elif piece.type != "reasoning":
            follower = None if piece.synthesized or not piece.of_agent else piece
        elif follower is None or not follower.same_attempt(piece):
            alone.append(at)
            follower = None
    return alone


def _with_outputs(
    pieces: Sequence[Piece], gone: Container[int], answered: Container[int]
) -> tuple[list[Piece], list[Added]]:
    """The pieces without those gone, and after each run of calls the outputs that never came."""
    kept: list[Piece] = []
    added: list[Added] = []
    missing: list[Piece] = []

    def add_missing() -> None:
        for call in missing:
            added.append(Added(at=len(kept), why=_ADDED_WHY))
            kept.append(_unknown_output(call))
        missing.clear()

    for at, piece in enumerate(pieces):
        if at in gone:
            continue
        if not is_call(piece.type) or (missing and not missing[-1].same_attempt(piece)):
            add_missing()
        kept.append(piece)
        if piece.awaits_output and at not in answered:
            missing.append(piece)
    add_missing()
    return kept, added


def _unknown_output(call: Piece) -> Piece:
    output_type = output_types(call.type)[0]
    fields = {"type": output_type, "call_id": call.call_id, "output": UNKNOWN_OUTCOME}
    if output_type in NAMED_BY_ID:
        fields["id"] = call.call_id
    return msgspec.structs.replace(call, raw=encode_json(fields), type=output_type, role=None)


_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def mend_surrogates(raw: bytes) -> bytes:
    r"""The same JSON text with each lone surrogate as `\ufffd`; every other byte stays as it is."""
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], raw)
