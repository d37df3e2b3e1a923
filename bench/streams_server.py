"""The server of the measurement of streams: agents that write at a steady pace, for as long as they are let."""

from __future__ import annotations

import asyncio
import random
import sys
import time

import turnlog
from turnlog.agents.protocol import DraftSignal, Emit, Finish, ItemSignal, StepSignal, Task
from turnlog.web.server import guard_of, listening, run_server

PAUSE_S = 0.1
"""Seconds between two updates of a turn."""

UPDATES = 250
"""Updates of one text, after which it becomes an item, a tool is used, and the next text begins."""


class Steady:
    """Writes a line ten times a second; each line begins with the time at which it was written, between two `@`."""

    name = "steady"
    version = "1"

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        loop = asyncio.get_running_loop()
        due = loop.time() + random.Random(task.turn).random() * PAUSE_S
        number = 0
        while True:
            lines = 0
            while lines < UPDATES:
                await asyncio.sleep(max(0.0, due - loop.time()))
                due += PAUSE_S
                lines += 1
                await emit(DraftSignal(text=f"@{time.monotonic_ns() // 1_000}@ the quick brown fox jumps over it\n"))
            number += 1
            text = {"type": "output_text", "text": "The quick brown fox has jumped.\n" * UPDATES}
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
