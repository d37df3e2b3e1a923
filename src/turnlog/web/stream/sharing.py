"""Things made once for all who use them at the same time, by key: one reader of a thread serves all its watchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is given back when its last user has gone."""

    async def aclose(self) -> None:
        """Give it back."""
        ...


class Bell:
    """Rings everybody who waits at that moment. Bare futures: a thousand may be rung ten times a second."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Let those who wait go on."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():  # cancelled
                future.set_result(None)

    async def wait(self) -> None:
        """Wait for the next ring."""
        future = self._loop.create_future()
        self._waiting.append(future)
        await future


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
