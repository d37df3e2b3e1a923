"""`with log.turn(...)`: submit and start a turn, and end it however the block is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from turnlog.errors import AlreadySettled, Fenced, StoreError, TooLarge, TurnlogError
from turnlog.events.kinds import Reason
from turnlog.folds.states import TERMINAL
from turnlog.journal.ends import STOPPED, detail_of, reason_of
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn

T = TypeVar("T")
Steps: TypeAlias = Generator[Receipt[Any], Any, T]


class Working:
    """The work on one turn, for `with` and `async with`.

    Entered, the submission and the start are durable, and no earlier turn of the thread is open; a submission that was
    in the log before raises `DuplicateTurn`, a turn that was asked to end while it waited `AlreadySettled`.
    Left normally, the turn completes, or `Fenced` says that another process has taken it over; left by an exception or
    a cancellation, its drafts are closed and it is interrupted before the exception goes on. A body that has settled
    the turn itself is left alone.
    """

    def __init__(self, submit: Callable[[], Receipt[Turn]], agent: str | None, agent_version: str | None) -> None:
        self._submit = submit
        self._agent = (agent, agent_version)
        self._receipt: Receipt[Turn] | None = None

    def __enter__(self) -> Turn:
        try:
            return _in_thread(self._enter())
        except (KeyboardInterrupt, SystemExit) as error:
            _in_thread(self._abandon(error))
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _in_thread(self._leave(error))

    async def __aenter__(self) -> Turn:
        entering = self._enter()
        try:
            return await _in_loop(entering)
        except asyncio.CancelledError as error:
            await shielded(_in_loop(self._abandon(error)))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await shielded(_in_loop(self._leave(error)))

    # Each of the following is one course of events for both colours: it yields the receipts to wait for.

    def _enter(self) -> Steps[Turn]:
        self._receipt = self._submit()
        turn: Turn = yield self._receipt
        turn.refuse_duplicate()
        try:
            yield turn.ready()
            yield turn.start(*self._agent)
        except Exception as error:
            yield from self._abandon(error)
            raise
        return turn

    def _abandon(self, error: BaseException) -> Steps[None]:
        """The block will not run: a turn that was accepted all the same must not wait for ever."""
        if self._receipt is None:
            return
        try:
            turn: Turn = yield self._receipt
        except TurnlogError:
            return
        if not turn.duplicate:
            yield from _interrupt(turn, "cancelled" if isinstance(error, STOPPED) else "start_failed", error)

    def _leave(self, error: BaseException | None) -> Steps[None]:
        assert self._receipt is not None
        turn: Turn = yield self._receipt
        if turn.state in TERMINAL or isinstance(error, Fenced):
            return
        if error is not None:
            yield from _interrupt(turn, reason_of(error), error)
            return
        try:
            yield turn.complete()
        except AlreadySettled:  # by the body, which did not wait for it
            return
        except TooLarge as too_large:
            yield from _interrupt(turn, "too_large", too_large)
            raise


def _interrupt(turn: Turn, reason: Reason, error: BaseException) -> Steps[None]:
    """End the turn because of `error`, which goes on; that the end could not be written is told with it."""
    try:
        yield turn.interrupt(reason, detail_of(error))
    except AlreadySettled:
        return
    except (Fenced, StoreError) as failure:
        error.add_note(f"and the turn could not be settled now: {failure}")


def _in_thread(steps: Steps[T]) -> T:
    """Take the steps, blocking this thread for each receipt."""
    try:
        receipt = next(steps)
        while True:
            try:
                value = receipt.result()
            except Exception as error:
                receipt = steps.throw(error)
            else:
                receipt = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a generator's value is not typed by StopIteration


async def _in_loop(steps: Steps[T]) -> T:
    """Take the steps, awaiting each receipt."""
    try:
        receipt = next(steps)
        while True:
            try:
                value = await receipt
            except Exception as error:
                receipt = steps.throw(error)
            else:
                receipt = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # as above


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Do `work` to its end, whoever cancels meanwhile; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break
    if cancelled is not None:
        raise cancelled
    return task.result()
