"""The named places of a server: its commits by what they write, and what it sends by what it is."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.engines.protocol import Outcome, Write
from turnlog.folds.states import TERMINAL
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Traps


def name_of(write: Write) -> str:
    """What a write is: the kind of its first event, or of its last if that ends the turn; else `draft` or `claim`."""
    kinds = [record.kind for record in write.events if record.kind != "thread_created"]
    if kinds:
        return kinds[-1] if kinds[-1] in TERMINAL else kinds[0]
    return "draft" if write.chunks else "claim"


class NamedEngine(FaultEngine):
    """Reaches `commit.<name>.before` and `commit.<name>.after` for each name among a commit's writes."""

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """See `Engine`."""
        names = dict.fromkeys(name_of(write) for write in writes)
        for name in names:
            self.traps.reach(f"commit.{name}.before")
        outcomes = super().commit(writes)
        for name in names:
            self.traps.reach(f"commit.{name}.after")
        return outcomes


class NamedSending:
    """An application that reaches `send.frame` or `send.answer`, `.before` and `.after` each piece it sends."""

    def __init__(self, app: ASGIApp, traps: Traps) -> None:
        self._app = app
        self._traps = traps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        streams = scope["type"] == "http" and (b"accept", b"text/event-stream") in scope["headers"]
        name = "frame" if streams else "answer"

        async def named(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            self._traps.reach(f"send.{name}.before")
            await send(message)
            self._traps.reach(f"send.{name}.after")

        await self._app(scope, receive, named)
