"""What nobody can have been given is refused, the same by every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.engines.protocol import Engine
from turnlog.errors import InvalidInput
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.writes import commit

_READ: dict[str, Any] = {"limit": 9, "bytes_max": 9}
_TAIL: dict[str, Any] = {"after": 0, "rev": 0, "limit": 9}
_NO_NUMBERS = (-1, 2**63, 2**70, 1.0, 1.5, True, "1")
_NO_LIMITS = (0, *_NO_NUMBERS)
_NO_PLACES = (b"", b"xx", b"\x00" * 9, b"\xff" * 8, "12345678", 1)


class AskedConformance(Conformance):
    """See the module."""

    def test_numbers_that_are_none_are_refused(self, engine: Engine) -> None:
        """A seq or rev below 0, over 63 bits, or no whole number raises `InvalidInput` and names its field."""
        commit(engine, writes.note("T", base=0))
        for bad in _NO_NUMBERS:
            _refused("after", engine.read, "T", **_READ, after=bad)
            _refused("before", engine.read, "T", **_READ, before=bad)
            _refused("after", engine.tail, "T", **{**_TAIL, "after": bad})
            _refused("rev", engine.tail, "T", **{**_TAIL, "rev": bad})
            _refused("limit", engine.tail, "T", **{**_TAIL, "limit": bad})
        for bad in _NO_LIMITS:
            _refused("limit", engine.read, "T", **{**_READ, "limit": bad})
            _refused("bytes_max", engine.read, "T", **{**_READ, "bytes_max": bad})
            _refused("limit", engine.turns, thread="T", limit=bad)
            _refused("limit", engine.threads, limit=bad)
            _refused("limit", engine.dead_owners, limit=bad)

    def test_the_greatest_numbers_are_answered(self, engine: Engine) -> None:
        """The bounds themselves may be asked for, and a limit of 0 tells a head."""
        commit(engine, writes.note("T", base=0))
        most, limit = 2**63 - 1, 2**31 - 1
        assert len(engine.read("T", before=most, limit=limit, bytes_max=limit).rows) == 1
        assert engine.read("T", after=most, limit=1, bytes_max=1).rows == ()
        assert engine.tail("T", after=most, rev=most, limit=limit).head == 1
        assert engine.tail("T", after=0, rev=0, limit=0).head == 1
        assert len(engine.threads(limit=limit).rows) == 1
        assert engine.turns(thread="T", limit=limit).rows == ()

    def test_positions_that_are_none_are_refused(self, engine: Engine) -> None:
        """Bytes that are no position of the list asked for raise `InvalidInput`, those of another list too."""
        commit(engine, *[writes.submission(f"T{n}", "t") for n in range(3)])
        place = engine.turns(open_only=True, limit=1).next
        thread_place = engine.threads(limit=1).next
        for bad in (*_NO_PLACES, thread_place):
            _refused("before", engine.turns, thread="T1", before=bad, limit=9)
            _refused("before", engine.turns, open_only=True, before=bad, limit=9)
            if bad != b"":
                _refused("position", engine.changes, bad, 0.0)
        for bad in (*_NO_PLACES, place):
            _refused("before", engine.turns, latest_each=True, before=bad, limit=9)
            _refused("before", engine.threads, before=bad, limit=9)


def _refused(field: str, ask: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        ask(*arguments, **named)
    assert refusal.value.field == field
