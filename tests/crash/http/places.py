"""The named places of a server: its commits by what they write, and what it sends by what it is."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.engines.protocol import Outcome, Write
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Traps


def name_of(write: Write) -> str:
    """What a write is: its first event's kind, `draft` when it has drafts instead, else `claim`."""
    if write.events:
        kinds = [record.kind for record in write.events if record.kind != "thread_created"]
        return kinds[0] if kinds else "thread_created"
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
