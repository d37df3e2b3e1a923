"""Commands as processes that share a store with others: each a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any, Final

from ..proof.facts import Fact, ShownDraft, ShownJson, ShownMessage
from .known import DONE, LOST, Known
from .plan import ALLOWED, ASKING, Action
from .process import Process
from .roles import HERE, Role, Told, either, repaired

AT_ONCE: Final = 3
"""Commands that run at a time before no other one may ask something: with more processes all are slow."""


class Commands(Role):
    """Commands, each a process of its own. `process` is the newest."""

    name = "command"

    def __init__(self, known: Known, folder: Path) -> None:
        super().__init__(known, folder)
        self.running: dict[Process, None] = {}
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """See `Role`."""
        return len(self.running) >= AT_ONCE

    @property
    def processes(self) -> list[Process]:
        """See `Role`."""
        return list(self.running)

    async def start(self, threads: list[str]) -> None:
        """See `Role`."""
        self.ready.set()

    async def listen(self, thread: str) -> None:
        """See `Role`: commands are too short for it."""

    async def _do(self, action: Action, name: str) -> tuple[str, Told]:
        call = Call(self._known, action, f"{self.name} {next(self._lived)}")
        await call.start(self._folder)
        assert call.process is not None
        self.process = call.process
        self.running[call.process] = None
        task = asyncio.create_task(self._watch(call))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return call.process.name, await call.told()

    async def _watch(self, call: Call) -> None:
        assert call.process is not None
        try:
            await call.process.ended.wait()
        finally:
            del self.running[call.process]
        usage = (2,) if "invalid-input" in ALLOWED[call.action.what] else ()
        if call.process.code not in (0, 1, *usage) and not call.process.told_to_end:
            self._known.wrong.append(f"{call.action} ended with {call.process.code}: {call.process.last_words()}")

    async def kill(self) -> None:
        """See `Role`."""
        for process in list(self.running):
            await process.kill()

    async def stop_well(self) -> None:
        """See `Role`. What asks is interrupted as by a person."""
        self.ready.clear()
        for process in list(self.running):
            process.signal(signal.SIGINT)
            await process.end()
        await asyncio.gather(*self._watching)


class Call:
    """One command on its way."""

    def __init__(self, known: Known, action: Action, name: str) -> None:
        self.action = action
        self.process: Process | None = None
        self._known, self._name = known, name
        self._answer: dict[str, Any] = {}
        self._answered = asyncio.Event()

    async def start(self, folder: Path) -> None:
        """Begin it."""
        self.process = await Process.start(
            self._name,
            HERE / "command.py",
            _arguments(self.action),
            folder,
            reported=lambda line: self._known.report(self._name, line),
            printed=self._printed,
        )

    async def told(self) -> Told:
        """Wait for the answer, or the end."""
        assert self.process is not None
        await either(self._answered, self.process)
        if self._answered.is_set():
            return DONE, self._answer
        if self.process.told_to_end:
            return LOST, None
        lines = [json.loads(line) for line in self.process.last_words().split("\n") if line.startswith('{"error"')]
        if lines:
            return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", lines[-1]["error"]).lower(), lines[-1]
        return (DONE, {}) if self.process.code == 0 else ("defect", self.process.last_words())

    def _printed(self, line: bytes) -> None:
        """A line that somebody reads is evidence, and the first one an answer."""
        value, thread = json.loads(line), self.action.thread
        match value.get("event"):
            case "event":
                data = value["data"]
                turn, seq, kind = data["turn"] or "", data["seq"], data["kind"]
                self._take(ShownJson(thread=thread, turn=turn, seq=seq, kind=kind, body=data["body"]))
                if self.action.what in ASKING:
                    self._tell({"turn": turn, "duplicate": None})
            case "draft":
                data = {name: value["data"][name] for name in ("turn", "draft", "after", "offset", "text")}
                self._take(ShownDraft(thread=thread, rev=None, **data))
            case "turn":
                pass
            case _ if self.action.what == "repair":
                self._tell(repaired(value))
            case _:
                for message in value.get("messages", ()):
                    self._message(message)
                self._tell(value)

    def _message(self, message: Any) -> None:
        thread, turn, text = self.action.thread, message["turn"], message["text"]
        if message["draft"] is None and turn is not None:
            self._take(ShownMessage(thread=thread, turn=turn, seq=message["seq"], text=text))

    def _take(self, fact: Fact) -> None:
        self._known.take(fact, by=self._name)

    def _tell(self, answer: dict[str, Any]) -> None:
        if not self._answered.is_set():
            self._answer = answer
            self._answered.set()


def _arguments(action: Action) -> list[str]:
    match action.what:
        case "submit" | "again" | "conflict":
            options = [] if action.key is None else ["--key", action.key]
            return ["ask", "--json", *options, "--when-busy", action.when_busy, "--", action.thread, action.content]
        case "retry":
            return ["ask", "--json", "--when-busy", "queue", f"--retry={action.turn}", "--", action.thread]
        case "decide":
            return ["decide", "--json", "--turn", action.turn, "--", action.thread, action.text, str(action.value)]
        case "edit":
            options = ["--key", str(action.key), "--when-busy", action.when_busy, f"--edit={action.turn}"]
            return ["ask", "--json", *options, "--", action.thread, action.content]
        case "interrupt":
            return ["stop", "--json", "--", action.thread, action.turn]
        case "truncate":
            return ["undo", "--json", "--", action.thread, action.turn]
        case "fork":
            last = [f"--turn={action.turn}"] if action.turn else []
            return ["fork", "--json", *last, "--", action.thread, action.text]
        case "rename" | "compact":
            return [action.what, "--json", "--", action.thread, action.text]
        case "pin":
            return ["pin", "--json", *([] if action.value else ["--off"]), "--", action.thread]
        case "read":
            return ["show", "--json", "--", action.thread]
        case "recover":
            return ["recover", "--json"]
        case "repair":
            return ["repair", "--apply", "--json", "--", action.thread]
    raise AssertionError(f"there is no command for {action}")
