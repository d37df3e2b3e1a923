"""Receipts: what a write returns at once, and what it becomes when the write is durable.

One kind serves both colours: `await receipt` in asyncio, `receipt.result()` in threads. A group commit settles hundreds
of receipts at once, so each event loop is woken once a batch, not once a receipt, and resumes a bounded number at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

from turnlog.limits import RESUMED_AT_ONCE_MAX

T = TypeVar("T")

# One lock for all receipts: it is held for a few instructions, and a lock each would cost more than it spares.
_LOCK = threading.Lock()


class Receipt(Generic[T]):
    """The outcome of one write, known when it is durable or refused. Cancelling who waits does not cancel the write."""

    __slots__ = ("_done", "_error", "_futures", "_gates", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._futures: list[asyncio.Future[None]] | None = None
        self._gates: list[threading.Lock] | None = None

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Wait in this thread, at most `timeout` seconds (else `TimeoutError`); return the value or raise the error."""
        if not self._done:
            # A bare lock, not an event: who wakes up has waited for a disk, and every instruction is slow by then.
            gate = threading.Lock()
            gate.acquire()
            with _LOCK:
                if self.done():
                    gate.release()
                else:
                    self._gates = [*(self._gates or ()), gate]
            if not gate.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
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

Wake = tuple[asyncio.AbstractEventLoop, Callable[[], None]]
"""A callback and the loop it is to be run in."""


def outcome_of(task: Callable[[], T], receipt: Receipt[T]) -> Settlement:
    """What running `task` makes of its receipt."""
    try:
        return receipt, task(), None
    except Exception as error:  # it is the answer of who asked
        return receipt, None, error


def settled(value: T) -> Receipt[T]:
    """A receipt whose outcome is known from the start."""
    receipt: Receipt[T] = Receipt()
    settle([(receipt, value, None)])
    return receipt


def settle(settlements: Iterable[Settlement], wake: Iterable[Wake] = ()) -> None:
    """Make outcomes known, and run each `wake` callback in its loop; every loop is woken once for all of it."""
    by_loop: dict[asyncio.AbstractEventLoop, _Resuming] = {}
    with _LOCK:
        for receipt, value, error in settlements:
            receipt._value, receipt._error, receipt._done = value, error, True
            for gate in receipt._gates or ():
                gate.release()
            for future in receipt._futures or ():
                loop = future.get_loop()
                (by_loop.get(loop) or by_loop.setdefault(loop, _Resuming(loop))).futures.append(future)
            receipt._gates = receipt._futures = None
    for loop, callback in wake:
        by_loop.setdefault(loop, _Resuming(loop)).callbacks.append(callback)
    for resuming in by_loop.values():
        resuming.begin()


class _Resuming:
    """What is to go on in one loop after a batch: all callbacks first, then who waits for receipts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.futures: list[asyncio.Future[None]] = []
        self._loop = loop

    def begin(self) -> None:
        """From any thread. Nothing happens when the loop is closed: nobody is left in it who could be told."""
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run(self) -> None:
        for callback in self.callbacks:
            callback()
        self._resume(0)

    def _resume(self, at: int) -> None:
        """Let some go on; the others follow when the loop has looked at what else is due."""
        until = at + RESUMED_AT_ONCE_MAX
        for future in self.futures[at:until]:
            if not future.done():  # who waited may have been cancelled meanwhile
                future.set_result(None)
        if until < len(self.futures):
            self._loop.call_soon(self._resume, until)
