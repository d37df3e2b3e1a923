"""What truncations have hidden of a thread: ranges of seqs in which turns and messages were begun.

A truncation hides what was begun behind `after` and before itself. Two of them never cross: what a later one begins
with is not hidden, so it either lies behind the earlier one or takes it in, and then the later one alone counts.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class Range(NamedTuple):
    """Hidden is what was begun at a seq greater than `after` and less than `seq`, the truncation's own."""

    after: int
    seq: int


class Hidden:
    """The truncations that hold, as far as they are known. They may be told in any order."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def add(self, after: int, seq: int) -> None:
        """Take one truncation; nothing changes when it is known, or one that takes it in is."""
        if after >= seq or any(known.after <= after and seq <= known.seq for known in self._ranges):
            return
        outside = [known for known in self._ranges if known.seq <= after or known.after >= seq]
        self._ranges = sorted([*outside, Range(after, seq)], key=lambda known: known.seq)

    def range_of(self, first: int) -> Range | None:
        """The truncation that hides what was begun at the seq `first`."""
        at = bisect_right(self._ranges, first, key=lambda known: known.seq)
        if at < len(self._ranges) and self._ranges[at].after < first:
            return self._ranges[at]
        return None

    def by(self, first: int) -> int | None:
        """The seq of that truncation."""
        found = self.range_of(first)
        return None if found is None else found.seq

    def newest_up_to(self, seq: int) -> int | None:
        """The seq of the newest truncation at or before `seq`."""
        at = bisect_right(self._ranges, seq, key=lambda known: known.seq)
        return self._ranges[at - 1].seq if at else None

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges that are known, in order."""
        return tuple(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)
