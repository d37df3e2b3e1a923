"""A log, an endpoint and a real Codex: turns are asked and looked at."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import turnlog
from turnlog.agents.codex import CodexAgent, Program, codex_agents
from turnlog.events.kinds import Event, Item, Step
from turnlog.folds.entries import TimelineView
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.runner import Ran, run_turn
from turnlog.testing.responses_endpoint import ResponsesEndpoint

from .homes import write_home
from .running import PROCESSES, program, servers

THREAD = "t"


class Stage:
    """One store, one endpoint, and the agents of one process."""

    def __init__(self, folder: Path, endpoint: ResponsesEndpoint, program: Program) -> None:
        self.folder, self.endpoint, self.program = folder, endpoint, program
        self.workspace = folder / "ws"
        self.workspace.mkdir(exist_ok=True)
        self.log: Log = turnlog.open(f"sqlite:///{folder}/chat.db")
        self.agents: Callable[[], CodexAgent] = codex_agents(program)

    async def ask(self, content: str | list[Any], thread: str = THREAD, **limits: Any) -> tuple[Ran, Turn]:
        """Submit a turn and take Codex through it."""
        turn = await self.log.submit(thread, content)
        return await self.take(turn, **limits), turn

    async def take(self, turn: Turn, **limits: Any) -> Ran:
        """Take Codex through a turn."""
        return await run_turn(turn, self.agents, log=self.log, workspace=self.workspace, **limits)

    @asynccontextmanager
    async def asking(self, content: str, **limits: Any) -> AsyncIterator[tuple[Turn, asyncio.Task[Ran]]]:
        """Submit a turn that runs while the block does; it is waited for at the end."""
        turn = await self.log.submit(THREAD, content)
        running = asyncio.create_task(self.take(turn, **limits))
        try:
            yield turn, running
        finally:
            await asyncio.wait({running})

    async def shown(self, turn: Turn, wanted: Callable[[str], bool]) -> None:
        """Wait until something shown of the turn is wanted: a draft's text so far, or an event's stored body."""
        drafts: dict[str, str] = {}
        async for news in self.log.follow(turn.thread, after=turn.seq - 1):
            if news.turn != turn.id:
                continue
            if isinstance(news, Event):
                text = news.data.decode("utf-8", "replace")
            else:
                text = drafts[news.draft] = drafts.get(news.draft, "")[: news.offset] + news.text
            if wanted(text):
                return

    def events(self, turn: Turn) -> list[Event]:
        return list(self.log.events(turn.thread, turn=turn.id))

    def items(self, turn: Turn) -> list[dict[str, Any]]:
        return [json.loads(event.body.raw) for event in self.events(turn) if isinstance(event.body, Item)]

    def steps(self, turn: Turn) -> list[Step]:
        return [event.body for event in self.events(turn) if isinstance(event.body, Step)]

    def timeline(self, turn: Turn) -> TimelineView:
        return self.log.timeline(turn.thread, turn.id)

    def given(self, number: int = -1) -> list[dict[str, Any]]:
        """The items a model was given, without the base instructions that stand first."""
        return self.endpoint.asked[number].input[1:]

    def history(self, thread: str = THREAD, until: Turn | None = None) -> list[dict[str, Any]]:
        """What an agent is given of a thread, up to a turn."""
        items = self.log.history(thread, until=None if until is None else until.id).items
        return [json.loads(item) for item in items]

    def restart(self) -> None:
        """Forget the processes, as a new process of ours would have none: the next turn must be given the history."""
        self.agents = codex_agents(self.program)


@contextmanager
def staged(fake: Callable[[Path], Program] | None = None, **home: Any) -> Iterator[Stage]:
    """A stage in a folder of its own, with a real Codex whose home is made so, or with a fake one."""
    # Not in the system's folder for temporary files: a sandbox may write there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="codex-") as folder, ResponsesEndpoint() as endpoint:
        place = Path(folder)
        made = program(write_home(place, endpoint, **home)) if fake is None else fake(place)
        stage = Stage(place, endpoint, made)
        try:
            yield stage
        finally:
            stage.log.close()
        assert not PROCESSES.exists() or not servers(), "a process was left behind"


def told(item: dict[str, Any]) -> dict[str, Any]:
    """An item as a model is given it: without the marks that Codex keeps for itself."""
    return {name: value for name, value in item.items() if name != "internal_chat_message_metadata_passthrough"}


def same_items(given: list[dict[str, Any]], stored: list[dict[str, Any]]) -> bool:
    """Whether a model was given these items: one without an id was given one, and Codex's marks stay with Codex."""
    if len(given) != len(stored):
        return False
    pairs = [(dict(one), told(other)) for one, other in zip(given, stored, strict=True)]
    for one, other in pairs:
        if "id" not in other:
            one.pop("id", None)
    return all(one == other for one, other in pairs)
