"""Where a list goes on: the numbers of its last row, as bytes that mean nothing to anybody else."""

from __future__ import annotations

import struct
from typing import Final

from turnlog.engines.asked import INT64_MAX

_NUMBER: Final = struct.Struct(">q")
_THREAD_PLACE: Final = struct.Struct(">Bqq")


def number_bytes(number: int) -> bytes:
    """A position among changes, events or turns."""
    return _NUMBER.pack(number)


def number_of(position: bytes) -> int:
    """The inverse of `number_bytes`."""
    return int(_NUMBER.unpack(position)[0])


def thread_place_bytes(pinned: int, updated_at: int, number: int) -> bytes:
    """A position in the list of threads."""
    return _THREAD_PLACE.pack(pinned, updated_at, number)


def thread_place(before: bytes | None) -> tuple[int, int, int]:
    """The inverse of `thread_place_bytes`; beyond every thread for None."""
    if before is None:
        return 1, INT64_MAX, INT64_MAX
    pinned, updated_at, number = _THREAD_PLACE.unpack(before)
    return pinned, updated_at, number
