"""What a Responses endpoint accepts as input: which items must go, and which must come.

- A call that the client carries out needs exactly one output of its id and type. Where it is missing, the outcome is
  not known, and a neutral output says so, right after the run of calls that the call stands in. A few types have no
  output that claims nothing: such a call is left out.
- An output without its call is left out.
- Reasoning must be followed by what it led to, in its own turn; else it is left out, whole.

Doing it again changes nothing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from turnlog.events.codec import encode_json
from turnlog.folds.items import CLIENT_CALLS
from turnlog.folds.turn import is_call, is_call_output

UNKNOWN_OUTCOME: Final = (
    "[interrupted, outcome unknown] This call was begun, and nothing is recorded of how it ended: "
    "it may or may not have had its effect."
)
"""What stands in for an output that never came."""

_ADDED_WHY: Final = "interrupted, outcome unknown"

NO_NEUTRAL_OUTPUT: Final = frozenset({"shell_call", "apply_patch_call", "computer_call", "tool_search_call"})
"""Types of calls whose outputs must say how it went: with an exit code, a success, a screenshot, a list of tools."""

NAMED_BY_ID: Final = frozenset({"local_shell_call_output"})
"""Types of outputs that may name their call in `id`."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One raw item and what is known of it. `section` is equal for the items of one turn; `format` as in the log."""

    seq: int
    section: int
    raw: bytes
    type: str
    role: str | None = None
    call_id: str | None = None
    format: str = "responses"
    readable: bool = True


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """An item that nobody wrote: its index, and why it is there."""

    at: int
    why: str


class Omitted(msgspec.Struct, frozen=True, kw_only=True):
    """An event that gave no item: its seq, and why."""

    seq: int
    why: str


class Valid(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces in order, those that were added, and those that were left out."""

    pieces: tuple[Piece, ...]
    added: tuple[Added, ...]
    omitted: tuple[Omitted, ...]


def make_valid(pieces: Sequence[Piece]) -> Valid:
    """See the module's docstring."""
    omitted: list[Omitted] = []
    fitting = [piece for piece in pieces if not _left_out(piece, omitted)]
    answered, orphans = _pairs(fitting)
    omitted += [Omitted(seq=fitting[at].seq, why="output without its call") for at in orphans]
    unsayable = _without_neutral_output(fitting, answered)
    omitted += [Omitted(seq=fitting[at].seq, why="interrupted, and its type has no neutral output") for at in unsayable]
    gone = {*orphans, *unsayable}
    gone |= _trailing_reasoning(fitting, gone, omitted)
    kept, added = _with_outputs(fitting, gone, answered)
    return Valid(pieces=tuple(kept), added=tuple(added), omitted=tuple(omitted))


def _left_out(piece: Piece, omitted: list[Omitted]) -> bool:
    """Whether an item can be no part of a valid input by itself."""
    if not piece.readable:
        why = "damaged"
    elif piece.format != "responses":
        why = f"format {piece.format}"
    elif piece.type in CLIENT_CALLS and piece.call_id is None:
        why = "call without a call id"
    else:
        return False
    omitted.append(Omitted(seq=piece.seq, why=why))
    return True


def _awaits_output(piece: Piece) -> bool:
    """Whether the client carries the call out: the model's own side gives its calls no call id."""
    return is_call(piece.type) and piece.call_id is not None


def output_types(call_type: str) -> tuple[str, ...]:
    """The types an output of a call may have, the one we would write first."""
    own = f"{call_type}_output" if call_type.endswith("_call") else call_type
    if call_type == "local_shell_call":
        return (own, "function_call_output")
    if call_type == "tool_search_call":
        return ("tool_search_output",)
    return (own,)


def _pairs(pieces: Sequence[Piece]) -> tuple[set[int], list[int]]:
    """Indexes of calls that have an output, and of outputs that have no call before them."""
    open_calls: dict[tuple[str, str], deque[int]] = {}
    answered: set[int] = set()
    orphans: list[int] = []
    for at, piece in enumerate(pieces):
        if _awaits_output(piece):
            for output_type in output_types(piece.type):
                open_calls.setdefault((output_type, piece.call_id or ""), deque()).append(at)
        elif is_call_output(piece.type):
            waiting = open_calls.get((piece.type, piece.call_id or ""), deque())
            while waiting and waiting[0] in answered:
                waiting.popleft()
            if waiting:
                answered.add(waiting.popleft())
            else:
                orphans.append(at)
    return answered, orphans


def _without_neutral_output(pieces: Sequence[Piece], answered: set[int]) -> list[int]:
    """Indexes of calls whose outcome is unknown and cannot be said to be."""
    return [at for at, piece in enumerate(pieces) if piece.type in NO_NEUTRAL_OUTPUT and at not in answered]


def _trailing_reasoning(pieces: Sequence[Piece], gone: set[int], omitted: list[Omitted]) -> set[int]:
    """Indexes of reasoning that nothing of the agent follows in its turn."""
    alone: set[int] = set()
    follower: Piece | None = None
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if at in gone:
            continue
        if piece.type != "reasoning":
            follower = piece
        elif follower is None or follower.section != piece.section or not _is_of_agent(follower):
            alone.add(at)
            omitted.append(Omitted(seq=piece.seq, why="reasoning without what it led to"))
    return alone


def _is_of_agent(piece: Piece) -> bool:
    if is_call_output(piece.type):
        return False
    return piece.role in (None, "assistant")


def _with_outputs(pieces: Sequence[Piece], gone: set[int], answered: set[int]) -> tuple[list[Piece], list[Added]]:
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
        if not is_call(piece.type):
            add_missing()
        kept.append(piece)
        if _awaits_output(piece) and at not in answered:
            missing.append(piece)
    add_missing()
    return kept, added


def _unknown_output(call: Piece) -> Piece:
    output_type = output_types(call.type)[0]
    fields = {"type": output_type, "call_id": call.call_id, "output": UNKNOWN_OUTCOME}
    if output_type in NAMED_BY_ID:
        fields["id"] = call.call_id
    return Piece(seq=call.seq, section=call.section, raw=encode_json(fields), type=output_type, call_id=call.call_id)


_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def mend_surrogates(raw: bytes) -> bytes:
    r"""The same JSON text with each lone surrogate as `\ufffd`; every other byte stays as it is."""
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], raw)
