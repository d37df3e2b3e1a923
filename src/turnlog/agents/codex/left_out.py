"""What of a turn is not kept: counted, and told in one note."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from turnlog.agents.protocol import Signal, StepSignal

_DIGESTS_MAX: Final = 20
"""Digests that the note names: a first turn leaves out two or three items."""


class LeftOut:
    """Raw items that are nobody's words, and messages that are not told otherwise."""

    def __init__(self) -> None:
        self._items = Counter[str]()
        self._digests: list[str] = []
        self._messages = Counter[str]()

    def item(self, kind: str, raw: bytes) -> None:
        """A raw item is not kept."""
        self._items[kind] += 1
        if len(self._digests) < _DIGESTS_MAX:
            self._digests.append(hashlib.sha256(raw).hexdigest())

    def message(self, what: str) -> None:
        """A message was not understood, or says nothing to keep."""
        self._messages[what] += 1

    def note(self) -> Iterator[Signal]:
        """The note, if there is anything to say: kinds, counts, digests."""
        args: dict[str, Any] = {}
        if self._items:
            args |= {"items": dict(self._items), "sha256": self._digests}
        if self._messages:
            args["messages"] = dict(self._messages)
        if not args:
            return
        title = f"Not kept: {self._items.total()} items of context, {self._messages.total()} messages"
        yield StepSignal(id="codex-left-out", step="note", name="left_out", title=title, status="succeeded", args=args)
