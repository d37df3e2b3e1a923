"""The pieces of a history: items in their place, and what can be said of those that are not given."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from turnlog.folds.turn import is_call, is_call_output

NAMED_BY_ID: Final = frozenset({"local_shell_call_output"})
"""Types of outputs that may name their call in `id`."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One raw item and what is known of it.

    `begun` is the seq with which its turn began, its own without a turn; `place` its seq in that turn, which for the
    agent's form of a submission is the submission's. `section` is equal for the items of one turn, and `attempt` for
    those of one attempt in it. `format` is as in the log. `whole` tells that it has what each Responses item must have.
    """

    seq: int
    begun: int
    place: int
    section: int
    raw: bytes
    type: str
    attempt: int = 0
    role: str | None = None
    call_id: str | None = None
    format: str = "responses"
    readable: bool = True
    whole: bool = True
    synthesized: bool = False

    @property
    def of_agent(self) -> bool:
        """Whether the model made it: no output, and no message of anybody else."""
        return not is_call_output(self.type) and self.role in (None, "assistant")

    @property
    def awaits_output(self) -> bool:
        """Whether the client carries the call out: the model's own side gives its calls no call id."""
        return is_call(self.type) and self.call_id is not None

    def same_attempt(self, other: Piece) -> bool:
        """Whether both are of one attempt of one turn."""
        return (self.section, self.attempt) == (other.section, other.attempt)


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """An item that nobody wrote: its index, and why it is there."""

    at: int
    why: str


class Omitted(msgspec.Struct, frozen=True, kw_only=True):
    """An event that gave no item, or not all of it: its seq, and why.

    With `until` it is a range: everything that was begun at the seqs from `seq` to `until`, each turn whole.
    """

    seq: int
    why: str
    until: int | None = None


def output_types(call_type: str) -> tuple[str, ...]:
    """The types an output of a call may have, the one we would write first."""
    own = f"{call_type}_output" if call_type.endswith("_call") else call_type
    if call_type == "local_shell_call":
        return (own, "function_call_output")
    if call_type == "tool_search_call":
        return ("tool_search_output",)
    return (own,)


_RANKS: Final = range(2)
"""A call has at most two types of outputs, see `output_types`."""


class Pairs:
    """Which output answers which call, by index: `outputs` by call, and `orphans` without one.

    An output answers the oldest such call of its own turn; where there is none, the newest one of a turn before (a call
    that waited for a person is carried out when another turn goes on with it). Calls whose own output has another type
    come after those whose own it is.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.outputs: dict[int, int] = {}
        self.orphans: list[int] = []
        self._own: dict[tuple[int, str, str, int], deque[int]] = {}
        self._all: dict[tuple[int, str, str], list[int]] = {}
        for at, piece in enumerate(pieces):
            call_id = piece.call_id or ""
            if piece.awaits_output:
                for rank, output_type in enumerate(output_types(piece.type)):
                    self._own.setdefault((rank, output_type, call_id, piece.section), deque()).append(at)
                    self._all.setdefault((rank, output_type, call_id), []).append(at)
            elif is_call_output(piece.type):
                self._answer(at, piece, call_id)

    def _answer(self, at: int, output: Piece, call_id: str) -> None:
        for rank in _RANKS:
            own = self._own.get((rank, output.type, call_id, output.section), deque())
            while own and own[0] in self.outputs:
                own.popleft()
            if own:
                self.outputs[own.popleft()] = at
                return
        for rank in _RANKS:
            every = self._all.get((rank, output.type, call_id), [])
            while every and every[-1] in self.outputs:
                every.pop()
            if every:
                self.outputs[every.pop()] = at
                return
        self.orphans.append(at)
