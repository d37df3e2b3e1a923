"""The log: what an application opens, writes to and reads from."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from turnlog.engines.open import open_engine
from turnlog.engines.protocol import Engine
from turnlog.errors import InvalidInput, NotRetryable, RecordDamaged, StoreError
from turnlog.events.clock import Clock, SystemClock
from turnlog.events.codec import accept_body, check_value, content_digest
from turnlog.events.ids import IdSource, RandomIds, check_key, check_name, check_thread_id, check_turn_id
from turnlog.events.kinds import Attachment, Requested, RequestWhat, Submitted
from turnlog.journal.aside import Aside
from turnlog.journal.care import Care
from turnlog.journal.follow import Hub
from turnlog.journal.jobs import (
    Accepted,
    RequestJob,
    SubmitJob,
    WhenBusy,
    accept_submission,
    check_content,
    check_when_busy,
)
from turnlog.journal.reading import Reading
from turnlog.journal.receipt import Receipt
from turnlog.journal.thread_operations import ThreadOperations
from turnlog.journal.turn import Turn
from turnlog.journal.views import LogViews
from turnlog.journal.working import Working
from turnlog.journal.writer import Writer
from turnlog.limits import FILE_BYTES_MAX, LEASE_S


def open_log(url: str, *, clock: Clock | None = None, ids: IdSource | None = None) -> Log:
    """Open the store at `url`, creating it if need be, and settle the turns of writers that have died.

    `sqlite:///chat.db` is a file relative to the working folder, `sqlite:////var/chat.db` an absolute one, `memory://`
    a store that ends with the log. Raises `InvalidInput` for another kind of URL, `StoreVersion`, `StoreForeign`,
    `StoreBusy` or `StoreUnavailable`.
    """
    clock = clock or SystemClock()
    return Log(open_engine(url, clock), clock=clock, ids=ids)


class Log(LogViews, ThreadOperations, Care):
    """All threads of one store. Methods may be called from any thread; writes give a `Receipt`, reads block briefly.

    `recovered` are the turns of dead writers that opening the log has settled. Every method raises `StoreClosed` after
    `close`, and `ForkedLog` in a forked child.
    """

    def __init__(self, engine: Engine, *, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self._engine = engine
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._hub = Hub()
        self._aside = Aside()
        self._reading = Reading(engine)
        self._closing = threading.Lock()
        self._closed = False
        self.owner = self._ids.owner_id()
        with ExitStack() as opened:
            opened.callback(engine.close)
            engine.lease(self.owner, LEASE_S)
            self._writer = Writer(engine, self.owner, self._clock, self._hub)
            opened.callback(self._writer.close)
            self._reading.refolded = self._writer.refolded
            self.recovered = self.recover()
            opened.pop_all()

    @property
    def epoch(self) -> str:
        """The random mark of the store, part of every cursor."""
        return self._engine.epoch

    def close(self) -> None:
        """Write what waits, settle the turns this log still owns, and give the store back. Idempotent.

        Turns still running end as interrupted (`cancelled`), waiting ones as `not_started`. Raises `StoreBusy` when the
        disk lets it wait for longer than `CLOSE_WAIT_S`; it may be called again.
        """
        with suppress(StoreError):  # a log that is closing or has a defect is closed all the same; a forked one is not
            self._writer.check()
        with self._closing:  # who comes second returns when it is done
            if self._closed:
                return
            self._writer.close()
            self._closed = True
            self._aside.close()
            try:
                self._engine.lease(self.owner, 0)
            finally:
                self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- writing -----------------------------------------------------------------------------------------------

    def submit(
        self,
        thread: str,
        content: str | list[Any],
        *,
        key: str | None = None,
        turn: str | None = None,
        agent: str | None = None,
        attachments: Sequence[Attachment | Mapping[str, Any]] = (),
        model: str | None = None,
        model_provider: str | None = None,
        workspace: str | None = None,
        stream_id: str | None = None,
        when_busy: WhenBusy = "refuse",
        edit_of: str | None = None,
    ) -> Receipt[Turn]:
        """Accept a person's message: durable when the receipt is, and no agent may start before.

        `content` is text or a list of Responses input parts. The same `key` in the same thread gives the same turn,
        with `duplicate` set; with other content the receipt raises `KeyConflict`. `agent` names who is asked. While
        other turns of the thread are open, it raises `Busy` (`refuse`), or the turn waits behind them until it is
        `Turn.ready` (`queue`), or they are asked to end, once the message is durable, and the turn waits for that
        (`replace`); `Overloaded` when
        `QUEUE_TURNS_MAX` are open (`replace`: one more). It raises `StoreUnavailable` when the store failed:
        the same key tells later what became of it. Invalid input raises at once.

        The message takes the place of that of `edit_of`: in the same write, that turn and everything begun after it is
        taken out of the conversation, as by `truncate`. Raises `UnknownTurn`, `TurnHidden`, and `Busy` also where it
        would wait for a turn that it takes out.
        """
        check_when_busy(when_busy)
        check_content(content)
        check_value("content", content)
        files = _attachments(attachments)
        body = Submitted(
            content=content,
            attachments=files,
            key=None if key is None else check_key(key),
            digest=content_digest(content, files),
            stream_id=stream_id,
            agent=None if agent is None else check_name("agent", agent),
            workspace=workspace,
            model=model,
            model_provider=model_provider,
            edit_of=None if edit_of is None else check_turn_id(edit_of),
        )
        turn_id = self._ids.turn_id(self._clock.now_us()) if turn is None else check_turn_id(turn)
        return self._submit(check_thread_id(thread), turn_id, body, when_busy)

    def _submit(self, thread: str, turn: str, body: Submitted, when_busy: WhenBusy) -> Receipt[Turn]:
        data = accept_submission(body)
        job = SubmitJob(
            thread=thread,
            turn=turn,
            body=body,
            data=data,
            when_busy=when_busy,
            finish=self._accepted,
            size_bytes=len(data),
        )
        return self._writer.put(job)

    def _accepted(self, accepted: Accepted) -> Turn:
        if accepted.duplicate:
            open_turn = self._writer.open_turn(accepted.row.thread, accepted.row.turn)
            accepted = Accepted(accepted.row, True, open_turn)
        return Turn(self._writer, accepted)

    def retry(
        self, thread: str, turn: str, *, agent: str | None = None, when_busy: WhenBusy = "refuse"
    ) -> Receipt[Turn]:
        """Submit an interrupted turn's message again, as its one child; again, it gives that child as `duplicate`.

        `agent` is who is asked now, by default who was asked before; `when_busy` is as for `submit`. Raises
        `NotRetryable` for a turn that is not interrupted, or where a truncation has hidden it or that child;
        `UnknownThread`, `UnknownTurn`, or `RecordDamaged` when its message cannot be read.
        """
        check_when_busy(when_busy)
        view = self.turn_view(thread, turn)
        if view.state != "interrupted":
            raise NotRetryable(thread=thread, turn=turn, state=view.state)
        first = next(self.events(thread, turn=turn), None)
        if first is None or not isinstance(first.body, Submitted):
            raise RecordDamaged(
                problem="the message of the turn cannot be read", seq=view.seq_first, kind=Submitted.kind
            )
        asked = first.body.agent if agent is None else check_name("agent", agent)
        again = msgspec.structs.replace(first.body, key=None, retry_of=turn, edit_of=None, agent=asked)
        return self._submit(thread, self._ids.turn_id(self._clock.now_us()), again, when_busy)

    def turn(
        self,
        thread: str,
        content: str | list[Any],
        *,
        agent: str | None = None,
        agent_version: str | None = None,
        **submission: Any,
    ) -> Working:
        """Submit, start and, whatever happens, end a turn: `with log.turn(...) as turn`, or `async with`.

        Takes what `submit` takes, and waits for the turn's time. Raises `DuplicateTurn` when the submission was in the
        log before, and `AlreadySettled` when it was asked to end while it waited.
        """
        return Working(lambda: self.submit(thread, content, **submission), agent, agent_version)

    def request(
        self,
        thread: str,
        turn: str,
        what: RequestWhat = "interrupt",
        *,
        approval: str | None = None,
        value: Any = None,
        by: str | None = None,
    ) -> Receipt[int]:
        """Ask the owner of an open turn, in whatever process it is, to interrupt it, or decide an approval.

        Gives the request's seq; a second interrupt changes nothing, and gives that of the first. Raises
        `AlreadySettled`, `UnknownTurn`, or `AlreadyDecided` for a second decision.
        """
        if what not in ("interrupt", "decide") or (what == "decide") is (approval is None):
            raise InvalidInput(field="what", problem="must be interrupt, or decide with an approval")
        check_value("value", value)
        if approval is not None:
            check_name("approval", approval)
        body = Requested(what=what, approval=approval, value=value, by=by)
        size = len(accept_body(body))
        return self._writer.put(
            RequestJob(thread=check_thread_id(thread), turn=check_turn_id(turn), body=body, size_bytes=size)
        )


def _attachments(given: Sequence[Attachment | Mapping[str, Any]]) -> list[Attachment]:
    try:
        files = [msgspec.convert(msgspec.to_builtins(file), Attachment) for file in given]
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(field="attachments", problem=str(error)) from None
    if not all(0 <= (file.bytes or 0) <= FILE_BYTES_MAX for file in files):
        raise InvalidInput(field="attachments", problem="a file has from 0 to 2^63-1 bytes")
    return files


__all__ = ["Log", "StoreError", "open_log"]
