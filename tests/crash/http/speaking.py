"""The agent of a server that is meant to be killed: it plays the script that a message names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from turnlog.agents.protocol import Emit, Finish, ItemSignal, Task
from turnlog.journal.log import Log

from ...proof.facts import Account
from ...proof.playing import Do, Player, Reader
from ...proof.scripts import Act, Effect, Halt, Said, Script, answering, asking, brief, halting

TALK: Final = "0/~0/text/0"
"""The draft of a script that talks."""

EXIT: Final = "exit"
"""The effect of ending the process."""

CALL: Final = ItemSignal(raw=b'{"type":"function_call","call_id":"call_1","name":"pay","arguments":"{}"}')


def _acting(kind: str, *acts: Act) -> Callable[[str, str], Script]:
    return lambda thread, turn: Script(thread, turn, f"{kind} {turn}", [*acts, Halt()])


def _stopping(thread: str, turn: str) -> Script:
    """Stops in the middle of a sentence."""
    return Script(thread, turn, f"words {turn}", [Said(TALK, f"{turn}: half a sen"), Halt()])


def _talking(thread: str, turn: str) -> Script:
    """Talks for longer than any test."""
    acts: list[Act] = [Said(TALK, f"{turn}: word {n}. ") for n in range(2_000)]
    return Script(thread, turn, f"talk {turn}", acts)


_SCRIPTS: Final[dict[str, Callable[[str, str], Script]]] = {
    "answer": answering,
    "halt": halting,
    "brief": brief,
    "ask": asking,
    "talk": _talking,
    "exit": _acting("exit", Effect(EXIT)),
    "silence": _acting("silence"),
    "words": _stopping,
    "arguments": _acting("arguments", Said("0/call_1/args/0", '{"path":"/tm', targeted=True)),
    "call": _acting("call", CALL),
}
_NAMED: Final = re.compile(rf"({'|'.join(_SCRIPTS)}) (\S+?)[\x00\s\ud800]*")


def template(content: str) -> Script | None:
    """The script that a message names, with the name of the message as its turn; None if it names none."""
    named = _NAMED.fullmatch(content)
    return None if named is None else _SCRIPTS[named[1]]("", named[2])


def script_of(thread: str, turn: str, content: str) -> Script:
    """The script of a turn with this content, whatever its id is. Raises `ValueError` if it names none."""
    script = template(content)
    if script is None or script.content != content:
        raise ValueError(f"no script is named {content!r}")
    return replace(script, thread=thread, turn=turn, late=None)


class Speaker:
    """Plays its turn's script, and accounts for what it was told of it.

    It goes on after a draft when `reader`, which follows the log, has seen that draft.
    """

    name = "speaker"
    version = "1"

    def __init__(self, account: Account, reader: Reader, readings: dict[str, asyncio.Task[None]], do: Do) -> None:
        self._account = account
        self._reader = reader
        self._readings = readings
        self._do = do

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        assert isinstance(task.content, str)
        script = script_of(task.thread, task.turn, task.content)
        if task.thread not in self._readings:
            self._readings[task.thread] = asyncio.create_task(self._reader.read(task.thread))
        return await Player(script, self._account, self._reader, patient=True, do=self._do).run(task, emit)


class Speakers:
    """Makes speakers: the factory that a server is given. They share one reader of the log."""

    def __init__(self, log: Log, tell: Account, read: Account, do: Do) -> None:
        self._account = tell
        self._reader = Reader(log, read)
        self._readings: dict[str, asyncio.Task[None]] = {}
        self._do = do

    def __call__(self) -> Speaker:
        """A speaker for one turn."""
        return Speaker(self._account, self._reader, self._readings, self._do)
