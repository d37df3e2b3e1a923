"""Things made once for all who use them at the same time, by key: one reader of a thread serves all its watchers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is given back when its last user has gone."""

    async def aclose(self) -> None:
        """Give it back."""
        ...


V = TypeVar("V", bound=Closable)


class Shared(Generic[V]):
    """Of each key at most one value exists, from its first user's coming to its last one's going."""

    def __init__(self, make: Callable[[str], V]) -> None:
        self._make = make
        self._values: dict[str, tuple[V, int]] = {}

    @asynccontextmanager
    async def use(self, key: str) -> AsyncIterator[V]:
        """The value of `key`, for the time of an `async with`."""
        value, users = self._values.get(key) or (self._make(key), 0)
        self._values[key] = (value, users + 1)
        try:
            yield value
        finally:
            value, users = self._values[key]
            if users > 1:
                self._values[key] = (value, users - 1)
            else:
                del self._values[key]
                await value.aclose()
