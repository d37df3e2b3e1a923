"""A child of a random mix: an application that uses the library, and does what it is asked to, all at once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from tests.proof.facts import Account, Ended
from tests.simulation.plan import Action, HurriedClock
from tests.simulation.telling import Voice, tell
from turnlog.errors import AlreadySettled, Fenced, StoreError, TurnlogError
from turnlog.journal.log import Log, open_log
from turnlog.journal.turn import Turn
from turnlog.runner import run_turn
from turnlog.testing.killing import report


class Library:
    """Does actions with a log."""

    def __init__(self, log: Log, folder: Path) -> None:
        self._log = log
        self._voice = Voice(log, folder)
        self._account = Account(tell=tell)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Take one action a line from standard input, until it ends."""
        lines = asyncio.StreamReader(limit=2**24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        report({"ready": True})
        while line := await lines.readline():
            number, action = json.loads(line)  # for halves of characters are no JSON to others
            self._begin(self._answer(number, Action(**action)))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, action: Action) -> None:
        """Do it, and report what became of it."""
        try:
            report({"number": number, "done": await self._do(action)})
        except TurnlogError as error:
            report({"number": number, "refused": dashed(type(error).__name__), "why": repr(error)})
        except Exception:
            report({"number": number, "refused": "defect", "why": traceback.format_exc()})

    async def _do(self, action: Action) -> Any:
        log, thread, turn = self._log, action.thread, action.turn
        match action.what:
            case "listen":
                self._voice.listen(thread)
            case "submit" | "again" | "conflict":
                when_busy: Any = action.when_busy
                return self._run(await log.submit(thread, action.content, key=action.key, when_busy=when_busy))
            case "edit":
                when_busy = action.when_busy
                submission = log.submit(thread, action.content, key=action.key, when_busy=when_busy, edit_of=turn)
                return self._run(await submission)
            case "truncate" | "fork" | "rename" | "pin" | "compact" | "repair":
                return await operate(log, action)
            case "retry":
                return self._run(await log.retry(thread, turn, when_busy="queue"))
            case "interrupt":
                return {"seq": await log.request(thread, turn, by="library")}
            case "decide":
                return {"seq": await log.request(thread, turn, "decide", approval=action.text, value=action.value)}
            case "append":
                raw = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": action.text}]}
                return {"seq": await log.append_message(thread, raw)}
            case "recover":
                await asyncio.to_thread(log.recover)
            case "read":
                await asyncio.to_thread(self._read, thread)
            case _:
                raise AssertionError(f"nothing is known of {action}")
        return {}

    def _read(self, thread: str) -> None:
        self._log.transcript(thread)
        for row in self._log.turns(thread).rows:
            self._log.timeline(thread, row.turn)

    def _run(self, turn: Turn) -> Any:
        if not turn.duplicate:
            self._begin(self._run_turn(turn))
        return {"turn": turn.id, "duplicate": turn.duplicate, "seq": turn.seq}

    async def _run_turn(self, turn: Turn) -> None:
        try:
            ran = await run_turn(turn, self._voice, log=self._log)
        except (Fenced, AlreadySettled, StoreError) as error:
            report({"left": turn.id, "why": dashed(type(error).__name__)})
        except Exception:
            report({"defect": traceback.format_exc()})
        else:
            self._account.add(Ended(thread=turn.thread, turn=turn.id, state=ran.state))


async def operate(log: Log, action: Action) -> Any:
    """Do something to a thread as a whole."""
    thread, turn, text = action.thread, action.turn, action.text
    match action.what:
        case "truncate":
            truncated = await log.truncate(thread, turn, by="library")
            return {"seq": truncated.seq, "hidden": truncated.hidden}
        case "fork":
            receipt = await asyncio.to_thread(log.fork, thread, text, turn=turn or None)
            return {"thread": (await receipt).thread}
        case "rename":
            return {"seq": await log.rename(thread, text)}
        case "pin":
            return {"seq": await log.pin(thread, bool(action.value))}
        case "compact":
            return {"seq": await log.compact(thread, text)}
    return await asyncio.to_thread(repair, log, thread)


def repair(log: Log, thread: str) -> Any:
    """Audit a thread, and repair what can be."""
    findings = list(log.audit(thread))
    report = log.repair(log.plan_repair(findings), by="library")
    steps = [(step.action, step.outcome, step.detail) for step in report.steps]
    return {"findings": [msgspec.to_builtins(finding) for finding in findings], "steps": steps}


def dashed(name: str) -> str:
    """The name of an error as problems spell it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


async def serve(log: Log, folder: Path) -> None:
    """Serve until standard input ends."""
    await Library(log, folder).serve()


if __name__ == "__main__":
    place = Path(os.environ["FOLDER"])
    with open_log(f"sqlite:///{place / 'store.db'}", clock=HurriedClock()) as opened:
        asyncio.run(serve(opened, place))
