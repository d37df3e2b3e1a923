"""Where a list goes on: the numbers of its last row, as bytes that mean nothing to anybody else."""

from __future__ import annotations

import struct
from typing import Final

from turnlog.errors import InvalidInput

INT64_MAX: Final = 2**63 - 1

_NUMBER: Final = struct.Struct(">q")
_THREAD_PLACE: Final = struct.Struct(">qq")


def number_bytes(number: int) -> bytes:
    """A position among changes, events or turns."""
    return _NUMBER.pack(number)


def number_of(position: bytes) -> int:
    """The inverse of `number_bytes`. Raises `InvalidInput` for bytes that are no position."""
    return int(_unpack(_NUMBER, position)[0])


def thread_place_bytes(updated_at: int, number: int) -> bytes:
    """A position in the list of threads."""
    return _THREAD_PLACE.pack(updated_at, number)


def thread_place(before: bytes | None) -> tuple[int, int]:
    """The inverse of `thread_place_bytes`; beyond every thread for None. Raises `InvalidInput`."""
    if before is None:
        return INT64_MAX, INT64_MAX
    updated_at, number = _unpack(_THREAD_PLACE, before)
    return updated_at, number


def _unpack(form: struct.Struct, data: bytes) -> tuple[int, ...]:
    try:
        return form.unpack(data)
    except struct.error as error:
        raise InvalidInput(field="before", problem="is no position in this list") from error
