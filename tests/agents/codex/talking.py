"""A process that is meant to be killed: it goes on with a conversation, and reports all that it shows."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Final

import turnlog
from turnlog.agents.codex import Program, codex_agents
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Event
from turnlog.journal.log import Log
from turnlog.runner import run_turn
from turnlog.testing.killing import report

THREAD: Final = "t"


def question(number: int) -> str:
    return f"question {number}"


async def show(log: Log) -> None:
    """Report what a page would show, once it may be shown."""
    drafts: dict[str, str] = {}
    async for news in log.follow(THREAD):
        if isinstance(news, Event):
            report(["event", news.seq, base64.b64encode(news.data).decode()])
        else:
            drafts[news.draft] = drafts.get(news.draft, "")[: news.offset] + news.text
            report(["draft", news.turn, news.draft, drafts[news.draft]])


async def talk(log: Log, folder: Path, first: int, last: int) -> None:
    """Ask the questions from `first` to `last`, one after the other."""
    agents = codex_agents(Program(environment=os.environ, clock=SystemClock()))
    showing = asyncio.create_task(show(log))
    for number in range(first, last + 1):
        turn = await log.submit(THREAD, question(number), key=question(number))
        ran = await run_turn(turn, agents, log=log, workspace=folder / "ws")
        report(["ended", number, ran.state])
    showing.cancel()


def main() -> None:
    """Arguments: the folder, the first and the last question."""
    folder = Path(sys.argv[1])
    log = turnlog.open(f"sqlite:///{folder}/chat.db")
    asyncio.run(talk(log, folder, int(sys.argv[2]), int(sys.argv[3])))
    log.close()


if __name__ == "__main__":
    main()
