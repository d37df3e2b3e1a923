"""The server of the measurement of streams: agents that write at a steady pace, for as long as they are let."""

from __future__ import annotations

import asyncio
import random
import sys

import turnlog
from bench.streams_clients import PAUSE_US
from turnlog.agents.protocol import DraftSignal, Emit, Finish, ItemSignal, StepSignal, Task
from turnlog.web.server import guard_of, listening, run_server

UPDATES = 250
"""Updates of one text, after which it becomes an item, a tool is used, and the next text begins."""


class Steady:
    """Writes a line ten times a second; each begins with the time at which it was due, in µs between two `@`.

    Not the time at which it was written: a server that stands still writes nothing, and would seem to be on time.
    """

    name = "steady"
    version = "1"

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        loop = asyncio.get_running_loop()
        due_us = int(loop.time() * 1e6) + random.Random(task.turn).randrange(PAUSE_US)
        number = 0
        while True:
            lines: list[str] = []
            while len(lines) < UPDATES:
                await asyncio.sleep(due_us / 1e6 - loop.time())
                lines.append(f"@{due_us}@ the quick brown fox jumps over it\n")
                due_us += PAUSE_US
                await emit(DraftSignal(text=lines[-1]))
            number += 1
            text = {"type": "output_text", "text": "".join(lines)}
            await emit(ItemSignal(raw={"type": "message", "role": "assistant", "content": [text]}))
            await emit(StepSignal(id=f"look-{number}", step="tool", name="look", status="running"))
            await emit(StepSignal(id=f"look-{number}", status="succeeded", output="a fox"))


def main() -> None:
    """Serve the store that is given, and print the port once it listens."""
    with listening("127.0.0.1", 0) as sock, turnlog.open(sys.argv[1]) as log:
        port = sock.getsockname()[1]

        def ready() -> None:
            sys.stdout.write(f"{port}\n")
            sys.stdout.flush()

        run_server(
            log, {"steady": Steady}, agent="steady", sock=sock, guard=guard_of(sock, "127.0.0.1", None), ready=ready
        )


if __name__ == "__main__":
    main()
