"""The demo agent itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from turnlog.agents.demo.answer import terms_text
from turnlog.agents.demo.files import Folder, Opener, Problem
from turnlog.agents.demo.inquiry import Inquiry, list_folder
from turnlog.agents.demo.question import Question, ask
from turnlog.agents.demo.work import Pace, Work
from turnlog.agents.protocol import Emit, Finish, Task
from turnlog.errors import StartFailed
from turnlog.events.clock import Clock, SystemClock
from turnlog.events.ids import text_bytes


class DemoAgent:
    """Answers questions about the folder `task.workspace` by listing, searching and reading its files.

    The same folder and question give the same answer. `run` raises `StartFailed` with reason `workspace_failed` when
    there is no such folder. Its file work runs in threads; cancelling `run` ends it at the next file.
    """

    name = "demo"
    version = "1"

    def __init__(self, *, clock: Clock | None = None, pace: Pace | None = None, opener: Opener = os.open) -> None:
        self._clock = clock or SystemClock()
        self._pace = pace or Pace()
        self._opener = opener

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        folder = Folder(await asyncio.to_thread(_root, task.workspace), opener=self._opener)
        work = Work(emit, self._clock, self._pace, _mark(task.turn))
        question = ask(task.content, task.history)
        try:
            await work.think(_plan(question))
            listing = await list_folder(folder, work, ())
            if isinstance(listing, Problem):
                raise StartFailed(reason="workspace_failed", detail=f"{folder.root}: {listing.failure.reason}")
            await work.answer(await Inquiry(folder, work, question).run(listing))
        finally:
            folder.stop.set()
        return Finish(finish_reason="stop")


def _root(workspace: Path | None) -> Path:
    if workspace is None:
        raise StartFailed(reason="workspace_failed", detail="the demo agent needs a folder to look into")
    try:
        return workspace.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise StartFailed(reason="workspace_failed", detail=f"{workspace}: {error}") from error


def _mark(turn: str) -> str:
    """A short text that differs for each turn: ids made from it stay unique, and within what providers accept."""
    return hashlib.sha256(text_bytes(turn)).hexdigest()[:12]


def _plan(question: Question) -> str:
    """What the agent is about to do, as its thought."""
    match question.want:
        case "help":
            return "No question about the folder yet: I look what is here and say what can be asked."
        case "overview" | "list" | "count" if not question.terms:
            return "This is about the folder as a whole, so I list it first."
        case "file":
            return "The question names a file, so I look for it and read it."
    wanted = terms_text(question.terms) or "what the question names"
    again = "The question goes on from an earlier one. " if question.carried else ""
    return f"{again}I look for {wanted}: first what is here, then folder by folder, then I read the best places."
