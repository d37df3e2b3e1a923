"""How the turns of a random mix are that somebody saw, kept so that what is asked of them costs the same however many
they become."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

Pair = tuple[str, str]
"""A thread, and a turn of it."""

OPEN: Final = "open"
TERMINAL: Final = ("completed", "interrupted")


class Turns:
    """The state of each turn: `open`, or how it ended."""

    def __init__(self) -> None:
        self._states: dict[Pair, str] = {}
        self._in: dict[str, int] = defaultdict(int)
        self._open: dict[str, dict[Pair, None]] = defaultdict(dict)
        self._ended: dict[str, list[str]] = defaultdict(list)
        self._interrupted: dict[str, list[str]] = defaultdict(list)

    def begin(self, pair: Pair) -> None:
        """Somebody saw it; it may have ended already."""
        if pair not in self._states:
            self._states[pair] = OPEN
            self._in[pair[0]] += 1
            self._open[pair[0]][pair] = None

    def end(self, pair: Pair, state: str) -> None:
        """Somebody saw how it ended."""
        self.begin(pair)
        if self._states[pair] == OPEN:
            thread, turn = pair
            del self._open[thread][pair]
            if not self._open[thread]:
                del self._open[thread]
            self._ended[thread].append(turn)
            if state == "interrupted":
                self._interrupted[thread].append(turn)
        self._states[pair] = state

    def state(self, pair: Pair) -> str | None:
        """How it is, None of one that nobody saw."""
        return self._states.get(pair)

    def count(self, thread: str) -> int:
        """How many of a thread were seen."""
        return self._in.get(thread, 0)

    def open(self, thread: str | None = None) -> list[Pair]:
        """Those that nobody saw end, of a thread or of all."""
        if thread is not None:
            return list(self._open.get(thread, ()))
        return [pair for pairs in self._open.values() for pair in pairs]

    def ended(self, thread: str, number: int) -> list[str]:
        """The last so many of a thread that ended."""
        return self._ended.get(thread, [])[-number:]

    def interrupted(self, thread: str, number: int) -> list[str]:
        """Likewise those that were interrupted."""
        return self._interrupted.get(thread, [])[-number:]
