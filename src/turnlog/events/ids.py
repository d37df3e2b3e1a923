"""Ids: what an application may choose, and what we make.

A thread id is any text of 1 to 1,024 UTF-8 bytes, a turn id or key any text of 1 to 256. Nothing is normalised, so two
different texts are always two different ids. A lone surrogate counts three bytes, as in WTF-8, and is kept. A pair of
surrogates is refused: JSON cannot tell it from the one character that it would stand for.
"""

from __future__ import annotations

import re
import secrets
import threading
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol

from turnlog.errors import InvalidInput, TooLarge
from turnlog.events.codec import encode_json
from turnlog.limits import NAME_BYTES_MAX, THREAD_ID_BYTES_MAX, TURN_ID_BYTES_MAX

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def text_bytes(text: str) -> bytes:
    """The bytes of a text in UTF-8, a lone surrogate as its three bytes: equal bytes exactly for equal texts."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(data: bytes) -> str:
    """The inverse of `text_bytes`."""
    return data.decode("utf-8", "surrogatepass")


def check_thread_id(thread: str) -> str:
    """Return `thread`, or raise `InvalidInput` (empty, not text) or `TooLarge`."""
    return _check("thread", thread, THREAD_ID_BYTES_MAX, "THREAD_ID_BYTES_MAX")


def check_turn_id(turn: str) -> str:
    """Return `turn`, or raise `InvalidInput` (empty, not text) or `TooLarge`."""
    return _check("turn", turn, TURN_ID_BYTES_MAX, "TURN_ID_BYTES_MAX")


def check_key(key: str) -> str:
    """Return `key`, or raise `InvalidInput` (empty, not text) or `TooLarge`."""
    return _check("key", key, TURN_ID_BYTES_MAX, "TURN_ID_BYTES_MAX")


def check_name(field: str, name: str) -> str:
    """Return the id of a step, call, item, draft target or agent, or raise `InvalidInput` or `TooLarge`.

    What counts is its length as JSON, because an event that settles something may have to repeat it several times.
    """
    _check(field, name, NAME_BYTES_MAX, "NAME_BYTES_MAX")
    if len(name) * 6 > NAME_BYTES_MAX and (given := len(encode_json(name)) - 2) > NAME_BYTES_MAX:
        raise TooLarge(field=field, limit="NAME_BYTES_MAX", limit_value=NAME_BYTES_MAX, given=given)
    return name


def _check(field: str, text: str, limit: int, limit_name: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(field=field, problem=f"must be text, not {type(text).__name__}")
    if not text:
        raise InvalidInput(field=field, problem="must not be empty")
    if not text.isascii() and _PAIR.search(text):
        raise InvalidInput(field=field, problem="two surrogates in a row must be the one character they stand for")
    # A character is at most four bytes, so most ids need no encoding to be known as short enough.
    if len(text) * 4 > limit and (given := len(text_bytes(text))) > limit:
        raise TooLarge(field=field, limit=limit_name, limit_value=limit, given=given)
    return text


class IdSource(Protocol):
    """Where new ids come from; tests pass one that counts."""

    def turn_id(self, now_us: int) -> str:
        """A new turn id, in the dated form `YYYYMMDDTHHMMSSZ-` + 12 hex digits."""
        ...

    def owner_id(self) -> str:
        """A new owner id, never used before: 32 hex digits."""
        ...


class RandomIds:
    """Ids from the system's randomness."""

    def turn_id(self, now_us: int) -> str:
        """See `IdSource`. 48 random bits: two ids of one second collide with probability 1 in 2.8e14."""
        return dated_id(now_us, secrets.token_hex(6))

    def owner_id(self) -> str:
        """See `IdSource`."""
        return secrets.token_hex(16)


class CountedIds:
    """Ids that count from 1, for tests and reproducible runs."""

    def __init__(self, start: int = 1) -> None:
        self._next = start
        self._lock = threading.Lock()

    def _take(self) -> int:
        with self._lock:
            taken = self._next
            self._next += 1
        return taken

    def turn_id(self, now_us: int) -> str:
        """See `IdSource`."""
        return dated_id(now_us, f"{self._take():012x}")

    def owner_id(self) -> str:
        """See `IdSource`."""
        return f"{self._take():032x}"


def dated_id(now_us: int, suffix: str) -> str:
    """The dated form of an id: readable, sortable by eye, of the shape the first ancestor used."""
    return f"{_dated(now_us // 1_000_000)}-{suffix}"


@lru_cache(maxsize=8)
def _dated(now_s: int) -> str:
    return f"{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}"
