"""What may be asked of an engine: checked here, so that the same is refused with the same words by every engine."""

from __future__ import annotations

from typing import Final

from turnlog.errors import InvalidInput

INT64_MAX: Final = 2**63 - 1
"""The greatest number a database keeps: of a seq or a rev."""

_LIMIT_MAX: Final = 2**31 - 1
"""The greatest number of rows or bytes to ask for: no answer in memory has more."""

NUMBER_BYTES: Final = 8
"""Bytes of a place in a list of turns or changes."""

THREAD_PLACE_BYTES: Final = 1 + 2 * NUMBER_BYTES
"""Bytes of a place in the list of threads, and of turns in their order: pinned, when updated, and a number."""


def _check(field: str, number: int, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise InvalidInput(field=field, problem=f"must be a whole number from {least} to {most}")


def check_limit(limit: int, *, least: int = 1) -> None:
    """How many rows are wanted. Raises `InvalidInput`, as all of these do."""
    _check("limit", limit, least, _LIMIT_MAX)


def check_position(field: str, position: object) -> None:
    """A place in a list of turns or changes, which is a number above 0."""
    if not isinstance(position, bytes) or len(position) != NUMBER_BYTES or position[0] >= 0x80:
        raise InvalidInput(field=field, problem="is no position in this list")


def check_read(after: int, before: int | None, limit: int, bytes_max: int) -> None:
    """The numbers of `Engine.read`."""
    _check("after", after, 0, INT64_MAX)
    if before is not None:
        _check("before", before, 0, INT64_MAX)
    check_limit(limit)
    _check("bytes_max", bytes_max, 1, _LIMIT_MAX)


def check_tail(after: int, rev: int, limit: int) -> None:
    """The numbers of `Engine.tail`; a `limit` of 0 asks for the head alone."""
    _check("after", after, 0, INT64_MAX)
    _check("rev", rev, 0, INT64_MAX)
    check_limit(limit, least=0)


def check_snapshot_page(page: int) -> None:
    """The index of a snapshot's page."""
    _check("page", page, 0, _LIMIT_MAX)


def check_page(before: object, limit: int, *, by_thread: bool) -> None:
    """Where a list of turns or threads goes on, and how many rows it gives; `by_thread` tells its order."""
    if before is not None and not by_thread:
        check_position("before", before)
    elif before is not None and (not isinstance(before, bytes) or len(before) != THREAD_PLACE_BYTES):
        raise InvalidInput(field="before", problem="is no position in this list")
    check_limit(limit)
