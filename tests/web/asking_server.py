"""A server whose agent shows half an answer, asks a person, and repeats the decision: `Serving(..., script=ASKING)`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.runner.running import answer, asking, text
from tests.web.serving import serve_agents
from turnlog.agents.protocol import Emit, Finish, Task

ASKING: Final = Path(__file__)

HALF: Final = "half an answer"


class Asking:
    """See the module."""

    name = "asking"
    version = "1"

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        await emit(text(HALF))
        await emit(asking("waiting"))
        async for request in task.requests:
            if request.what == "decide":
                await emit(asking("succeeded"))
                await emit(answer(f"{HALF}, {request.value} by {request.by}"))
                break
        return Finish()


if __name__ == "__main__":
    serve_agents({"asking": Asking})
