"""An agent in a server's process that says what a test tells it, when the test tells it.

with Puppets() as puppets, Serving(folder, script=SERVER, environment=puppets.environment) as server:
    ...                     # somebody submits
    puppet = puppets.take()
    puppet.draft("Hello")   # returns when it is taken
    puppet.finish()
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

SERVER: Final = Path(__file__).with_name("puppet_server.py")

WAIT_S: Final = 30.0
"""Seconds to wait for a turn to begin, and for an answer of its agent."""


class Puppet:
    """The agent of one turn."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._file = line.makefile("rb")
        told = self._answer()
        self.turn: str = told["turn"]
        self.content: str = told["content"]

    def _answer(self) -> dict[str, Any]:
        line = self._file.readline()
        assert line, "the agent is gone"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _send(self, name: str, facts: dict[str, Any]) -> None:
        self._line.sendall(json.dumps([name, facts]).encode() + b"\n")

    def draft(self, text: str, **facts: Any) -> None:
        """Say more text."""
        self._send("draft", {"text": text, **facts})
        self._answer()

    def message(self, text: str) -> None:
        """Give the answer's item, which replaces the drafts."""
        content = [{"type": "output_text", "text": text}]
        self._send("item", {"raw": {"type": "message", "role": "assistant", "content": content}})
        self._answer()

    def item(self, **raw: Any) -> None:
        """Give any raw item."""
        self._send("item", {"raw": raw})
        self._answer()

    def step(self, id_: str, **facts: Any) -> None:
        """Upsert a step."""
        self._send("step", {"id": id_, **facts})
        self._answer()

    def finish(self) -> None:
        """End the turn well."""
        self._send("finish", {})
        self.close()

    def answer(self, text: str) -> None:
        """Say all of an answer and finish."""
        self.draft(text)
        self.message(text)
        self.finish()

    def fail(self, reason: str) -> None:
        """End the turn by failing."""
        self._send("fail", {"reason": reason})
        self.close()

    def close(self) -> None:
        """Let go of the agent: it fails, unless it has ended."""
        self._file.close()
        self._line.close()


class Puppets:
    """Where the agents of a server report."""

    def __init__(self) -> None:
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._sock.settimeout(WAIT_S)
        self._taken: list[Puppet] = []

    @property
    def environment(self) -> dict[str, str]:
        """What the server must be told."""
        return {"PUPPETS": str(self._sock.getsockname()[1])}

    def take(self) -> Puppet:
        """The agent of the next turn that begins."""
        line, _ = self._sock.accept()
        line.settimeout(WAIT_S)
        self._taken.append(Puppet(line))
        return self._taken[-1]

    def release(self) -> None:
        """Let go of all agents."""
        while self._taken:
            self._taken.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._sock.close()
