"""Receipts: what a write returns at once, and what it becomes when the write is durable.

One kind serves both colours: `await receipt` in asyncio, `receipt.result()` in threads. A group commit settles hundreds
of receipts at once, so each event loop is woken once a batch, not once a receipt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# One lock for all receipts: it is held for a few instructions, and a lock each would cost more than it spares.
_LOCK = threading.Lock()


class Receipt(Generic[T]):
    """The outcome of one write, known when it is durable or refused. Cancelling who waits does not cancel the write."""

    __slots__ = ("_done", "_error", "_events", "_futures", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._futures: list[asyncio.Future[None]] | None = None
        self._events: list[threading.Event] | None = None

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Wait in this thread, at most `timeout` seconds (else `TimeoutError`); return the value or raise the error."""
        if not self._done:
            event = threading.Event()
            with _LOCK:
                if self.done():
                    event.set()
                else:
                    self._events = [*(self._events or ()), event]
            if not event.wait(timeout):
                raise TimeoutError
        return self._outcome()

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            future = asyncio.get_running_loop().create_future()
            with _LOCK:
                if self.done():
                    future.set_result(None)
                else:
                    self._futures = [*(self._futures or ()), future]
            yield from future
        return self._outcome()

    def refuse(self, error: BaseException) -> None:
        """Make `error` its outcome."""
        settle([(self, None, error)])

    def _outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # a settled receipt without an error has its value

    def __repr__(self) -> str:
        state = "waiting" if not self._done else "refused" if self._error is not None else "durable"
        return f"<Receipt {state}>"


Settlement = tuple[Receipt[Any], Any, BaseException | None]
"""A receipt with its value or its error."""


def settled(value: T) -> Receipt[T]:
    """A receipt whose outcome is known from the start."""
    receipt: Receipt[T] = Receipt()
    settle([(receipt, value, None)])
    return receipt


def settle(
    settlements: Iterable[Settlement], wake: Iterable[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = ()
) -> None:
    """Make outcomes known, and run each `wake` callback in its loop; every loop is woken once for all of it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    with _LOCK:
        for receipt, value, error in settlements:
            receipt._value, receipt._error, receipt._done = value, error, True
            for event in receipt._events or ():
                event.set()
            for future in receipt._futures or ():
                by_loop.setdefault(future.get_loop(), []).append(_resolver(future))
            receipt._events = receipt._futures = None
    for loop, callback in wake:
        by_loop.setdefault(loop, []).append(callback)
    for loop, callbacks in by_loop.items():
        _call_in(loop, callbacks)


def _resolver(future: asyncio.Future[None]) -> Callable[[], None]:
    def resolve() -> None:
        if not future.done():  # who waited may have been cancelled meanwhile
            future.set_result(None)

    return resolve


def _call_in(loop: asyncio.AbstractEventLoop, callbacks: list[Callable[[], None]]) -> None:
    def run_all() -> None:
        for callback in callbacks:
            callback()

    try:
        loop.call_soon_threadsafe(run_all)
    except RuntimeError:
        if not loop.is_closed():
            raise
        # Nobody is left in it who could be told.
