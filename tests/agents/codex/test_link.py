"""What comes of a turn after its end: passed on as long as the log takes it, and never a reason to go on astray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnlog.agents.codex.link import Known, Link
from turnlog.agents.codex.process import CodexProcess
from turnlog.agents.protocol import ItemSignal, Signal, StepSignal
from turnlog.errors import AlreadySettled, Fenced, StoreClosed, TurnlogError
from turnlog.testing.fake_app_server import Fake

from .replaying import play, told, translator
from .running import fake_program, run, task

ENDED = told("turn/completed", turn={"id": "U", "status": "completed"})
COMMAND = told("item/completed", item={"type": "commandExecution", "id": "call_1", "status": "completed"})
ITEM = told("rawResponseItem/completed", item={"type": "message", "role": "assistant", "content": []})
FOREIGN = told("item/completed", turnId="V", item={"type": "commandExecution", "id": "call_2"})
LATE = AlreadySettled(thread="t", turn="u", state="completed")


class Emitted:
    """Takes signals, and answers each with an error."""

    def __init__(self, error: TurnlogError) -> None:
        self.signals: list[Signal] = []
        self._error = error

    async def __call__(self, signal: Signal) -> None:
        self.signals.append(signal)
        raise self._error


async def tell(folder: Path, emit: Emitted, *said: Any) -> Link:
    """Tell a link, whose turn U has ended, what still comes."""
    process = await CodexProcess.start(fake_program(folder, Fake()))
    link = Link(process, "T", task(folder))
    ended = translator()
    play(ended, [ENDED])
    link.remember(ended, emit)
    for one in said:
        await link.tell_late(one)
    await process.close()
    return link


def test_what_comes_late_is_passed_on(tmp_path: Path) -> None:
    """Steps and items of the turn that has ended are passed on, those of others are not (P5)."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, COMMAND, FOREIGN, COMMAND))
    assert [type(signal) for signal in emit.signals] == [StepSignal, StepSignal]
    assert link.known == Known()


def test_a_late_item_makes_the_thread_unfit(tmp_path: Path) -> None:
    """A late item is in Codex's memory and in no history: the next turn must not go on there (P9)."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, ITEM))
    assert [type(signal) for signal in emit.signals] == [ItemSignal]
    assert link.known is None


@pytest.mark.parametrize("error", [StoreClosed(), Fenced(thread="t", turn="u")])
def test_a_log_that_takes_no_more_is_left_alone(tmp_path: Path, error: TurnlogError) -> None:
    """Once the log refuses for good, nothing more of that turn is passed on."""
    emit = Emitted(error)
    run(tell(tmp_path, emit, COMMAND, COMMAND))
    assert len(emit.signals) == 1


def test_what_is_known_tells_items_apart() -> None:
    """Digests are equal for the same items in the same order only, however their bytes join."""
    assert Known([b"a", b"b"]) == Known([b"a", b"b"])
    for other in ([b"ab"], [b"b", b"a"], [b"a"], [b"a", b"b", b""], [b"1:a", b"b"]):
        assert Known([b"a", b"b"]) != Known(other)
