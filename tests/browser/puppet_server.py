"""A server whose agent does what a test tells it: see `puppet`. A script for `Serving`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final

from tests.web.serving import serve_agents
from turnlog.agents.protocol import DraftSignal, Emit, Finish, ItemSignal, Signal, StepSignal, Task
from turnlog.errors import AgentFailed

SIGNALS: Final[dict[str, type[Any]]] = {"draft": DraftSignal, "item": ItemSignal, "step": StepSignal}


class Puppet:
    """Connects to the test when its turn begins, and answers each command once what it says is durable."""

    name = "puppet"
    version = "1"

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PUPPETS"]))
        try:
            await _tell(writer, {"turn": task.turn, "content": task.content})
            while line := await reader.readline():
                name, facts = json.loads(line)
                if name == "finish":
                    return Finish(**facts)
                if name == "fail":
                    raise AgentFailed(**facts)
                signal: Signal = SIGNALS[name](**facts)
                await emit(signal)
                await _tell(writer, {})
            raise AgentFailed(reason="the test let go of it")
        finally:
            writer.close()


async def _tell(writer: asyncio.StreamWriter, what: dict[str, Any]) -> None:
    writer.write(json.dumps(what).encode() + b"\n")
    await writer.drain()


if __name__ == "__main__":
    serve_agents({"puppet": Puppet})
