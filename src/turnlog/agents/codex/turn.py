"""One turn on a Codex thread: begun, followed, decided on, and interrupted when it is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec

from turnlog.agents.codex.approvals import Approval, approval_of
from turnlog.agents.codex.connection import Incoming, Woken
from turnlog.agents.codex.jsonrpc import Asked, Told, Unreadable
from turnlog.agents.codex.link import Link
from turnlog.agents.codex.translate import Ended, Translator
from turnlog.agents.protocol import Emit, Finish, ItemSignal, Signal, Task
from turnlog.errors import AgentFailed, Refused, StartFailed, StoreError, TurnlogError
from turnlog.events.kinds import Reason
from turnlog.limits import CODEX_STOP_S

_ENDS: Final[dict[str, Reason]] = {"failed": "failed", "interrupted": "cancelled"}
"""Codex's words for an end that is none of its agent's own."""


class _Named(msgspec.Struct):
    id: str


class _Started(msgspec.Struct):
    turn: _Named


class _Resolved(msgspec.Struct):
    requestId: int | str  # Codex's own name


_started: Final = msgspec.json.Decoder(_Started)
_resolved: Final = msgspec.json.Decoder(_Resolved)


class CodexTurn:
    """Takes `task` through one turn of `link`."""

    def __init__(self, link: Link, task: Task, emit: Emit) -> None:
        self._link, self._task, self._emit = link, task, emit
        self._connection = link.process.connection
        self._translator: Translator | None = None
        self._turn = ""
        self._running = False
        self._echoed = False
        self._approvals: dict[str, Approval] = {}
        self._asked = 0
        self._decided = set[str]()

    async def run(self, content: list[dict[str, Any]]) -> Finish:
        """From the start to the end. Raises `AgentFailed` for every end that is not the agent's own.

        Cancelled, it lets Codex end the turn first, so that what it still did is kept.
        """
        translator = await self._begin(content)
        deciding = asyncio.create_task(self._decide(), name="codex decisions")
        try:
            await self._follow(translator)
        except asyncio.CancelledError:
            await self._interrupt(translator)
            raise
        except AgentFailed:
            await self._tell_all(translator.last_words())
            raise
        finally:
            deciding.cancel()
            await asyncio.wait({deciding})
            await self._close_approvals("the turn ended before anybody decided")
        self._link.remember(translator, self._emit)
        if not self._echoed:
            self._link.known = None
        assert translator.ended is not None
        return self._finish(translator.ended, translator)

    async def _begin(self, content: list[dict[str, Any]]) -> Translator:
        """Start the turn. Its id is that of the reply: other turns of the thread are none of ours."""
        params = {"threadId": self._link.thread, "input": content, "clientUserMessageId": self._task.turn}
        try:
            reply = await self._connection.request("turn/start", params)
        except AgentFailed as error:
            detail = await self._link.process.explain(error.detail or "")
            raise StartFailed(reason=error.reason, detail=detail) from error
        if reply.error is not None:
            raise StartFailed(reason="start_failed", detail=f"Codex refused the turn: {reply.error.message}")
        try:
            self._turn = _started.decode(reply.result).turn.id
        except msgspec.DecodeError as error:
            raise StartFailed(reason="start_failed", detail=f"Codex began a turn without an id: {error}") from error
        self._translator = Translator(thread=self._link.thread, turn=self._turn, client_id=self._task.turn)
        return self._translator

    async def _follow(self, translator: Translator) -> None:
        while translator.ended is None:
            message = await self._connection.next()
            if message is None:
                what = await self._link.process.explain("Codex ended in the middle of the turn")
                raise AgentFailed(reason="transport_closed", detail=what)
            if not isinstance(message, Woken):
                await self._take(translator, message)

    async def _take(self, translator: Translator, message: Incoming) -> None:
        match message:
            case Told():
                if message.method == "turn/started":
                    self._running = True
                if message.method == "serverRequest/resolved":
                    await self._withdraw(message)
                await self._tell_all(translator.take(message))
                await self._link.tell_late(message)
            case Asked():
                await self._ask(translator, message)
            case Unreadable():
                translator.left_out.message("a line that is no message")

    async def _tell_all(self, signals: Any) -> None:
        for signal in signals:
            await self._tell(signal)

    async def _tell(self, signal: Signal) -> None:
        await self._emit(signal)
        if isinstance(signal, ItemSignal) and self._link.known is not None:
            assert isinstance(signal.raw, bytes)
            self._echoed = self._echoed or signal.purpose == "submission"
            self._link.known.add(signal.raw)

    def _finish(self, ended: Ended, translator: Translator) -> Finish:
        if ended.status == "completed":
            return Finish(finish_reason="stop", usage=translator.usage)
        words = f"Codex ended the turn as {ended.status or 'nothing'}"
        raise AgentFailed(reason=_ENDS.get(ended.status, "failed"), detail=ended.detail or words)

    # --- a person decides ---------------------------------------------------------------------------------------

    async def _ask(self, translator: Translator, asked: Asked) -> None:
        """Let a person decide, or refuse what is none of theirs: a request without an answer waits for ever."""
        self._asked += 1
        approval = approval_of(asked, self._asked)
        if approval is None:
            translator.left_out.message(asked.method)
            await self._connection.refuse(asked)
            return
        if approval.id in self._decided:  # by somebody who had not seen what it is about
            await self._emit(approval.waiting())
            answer, step = approval.refused("it was decided before it was asked, so that counts as a refusal")
            await self._connection.answer(asked.id, answer)
            await self._emit(step)
            return
        self._approvals[approval.id] = approval
        await self._emit(approval.waiting())

    async def _decide(self) -> None:
        """Answer Codex as people decide, in whatever process they are."""
        with suppress(Refused, StoreError):  # a turn that cannot be written to is ended by the runner
            async for request in self._task.requests:
                if request.what != "decide" or request.approval is None:
                    continue
                self._decided.add(request.approval)
                if (approval := self._approvals.pop(request.approval, None)) is not None:
                    await self._answer(approval, request.value)

    async def _answer(self, approval: Approval, value: Any) -> None:
        try:
            answer, step = approval.decided(value)
            await self._connection.answer(approval.asked.id, answer)
        except Exception as error:  # people may say anything, and a request without an answer waits for ever
            answer, step = approval.refused(f"the decision could not be passed on, so it counts as a refusal: {error}")
            await self._connection.answer(approval.asked.id, answer)
        await self._emit(step)

    async def _withdraw(self, told: Told) -> None:
        """Codex waits for an answer no more."""
        try:
            resolved = _resolved.decode(told.params)
        except msgspec.DecodeError:
            return
        for approval in [one for one in self._approvals.values() if one.asked.id == resolved.requestId]:
            del self._approvals[approval.id]
            await self._emit(approval.died("Codex took the request back"))

    async def _close_approvals(self, why: str) -> None:
        with suppress(TurnlogError):  # settling the turn closes them too, without the reason
            while self._approvals:
                _, approval = self._approvals.popitem()
                await self._emit(approval.died(why))

    # --- somebody ends it ---------------------------------------------------------------------------------------

    async def _interrupt(self, translator: Translator) -> None:
        """Ask Codex to end the turn, and keep what it says until it has; give it up after a while."""
        with suppress(TurnlogError, TimeoutError):
            async with asyncio.timeout(CODEX_STOP_S):
                interrupted = False
                while translator.ended is None and not self._connection.ended:
                    if self._running and not interrupted:
                        interrupted = await self._ask_to_interrupt()
                    message = await self._connection.next()
                    if message is not None and not isinstance(message, Woken):
                        await self._take(translator, message)
        with suppress(TurnlogError):
            if translator.ended is None:
                await self._tell_all(translator.last_words())

    async def _ask_to_interrupt(self) -> bool:
        """Whether Codex took it: some versions refuse it at the very beginning of a turn, and go on."""
        params = {"threadId": self._link.thread, "turnId": self._turn}
        reply = await self._connection.request("turn/interrupt", params, seconds=CODEX_STOP_S)
        return reply.error is None
