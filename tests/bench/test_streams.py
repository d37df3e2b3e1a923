"""The measurement of streams: what stands still, or comes late, or not at all, must not look well."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from itertools import pairwise

from bench.streams import CLIENTS, Usage, report
from bench.streams_clients import PAUSE_US, Client, Seen, Window
from bench.streams_server import Steady
from bench.table import Line

from turnlog.agents.protocol import DraftSignal, Signal, Task
from turnlog.events.kinds import Requested

DUE = 100


def reported(delays_ms: Mapping[int, int]) -> dict[str, Line]:
    """What is said when each client got these of its `DUE` texts."""
    kinds = {
        kind: {
            "delays_ms": [(ms, texts * count) for ms, texts in delays_ms.items()],
            "refused": 0,
            "ended": 0,
        }
        for kind, count in CLIENTS.items()
    }
    usages = [Usage(0.0, 0.0, 50.0, 0.0), Usage(30.0, 15.0, 60.0, 1.0)]
    lines = report({"due": DUE, "kinds": kinds}, usages, seconds=30.0, still_open=sum(CLIENTS.values()))
    return {line.what.strip(): line for line in lines}


def verdicts(lines: Mapping[str, Line], word: str) -> list[bool | None]:
    """Whether the bars of the lines with a word in them hold."""
    found = [line.held for what, line in lines.items() if word in what]
    assert found
    return found


def test_prompt_texts_hold() -> None:
    """When every client got every text at once, all bars hold."""
    lines = reported({1: DUE})
    assert verdicts(lines, "delay") == [True, True]
    assert verdicts(lines, "got") == [True, True, True]


def test_nothing_misses() -> None:
    """A server that publishes nothing misses every bar of delay and of texts."""
    lines = reported({})
    assert verdicts(lines, "delay") == [False, False]
    assert verdicts(lines, "got") == [False, False, False]


def test_a_text_that_did_not_come_is_late() -> None:
    """When two texts in a hundred never come, the delay's bar is missed, however prompt the others were."""
    lines = reported({1: DUE - 2})
    assert verdicts(lines, "delay") == [False, False]
    assert verdicts(lines, "got") == [False, False, False]


def test_late_texts_miss() -> None:
    """When two texts in a hundred come late, the delay's bar is missed and that of texts holds."""
    lines = reported({1: DUE - 2, 1_000: 2})
    assert verdicts(lines, "delay") == [False, False]
    assert verdicts(lines, "got") == [True, True, True]


async def asked() -> AsyncIterator[Requested]:
    """Nobody asks for anything."""
    nothing: tuple[Requested, ...] = ()
    for request in nothing:
        yield request


async def stamps_of(count: int, held_up_s: float) -> list[int]:
    """The stamps of an agent's first texts, the first of which is taken only after a time."""
    stamps: list[int] = []
    done = asyncio.Event()

    async def emit(signal: Signal) -> None:
        assert isinstance(signal, DraftSignal)
        stamps.extend(int(stamp) for stamp in re.findall(r"@(\d+)@", signal.text))
        if len(stamps) == 1:
            await asyncio.sleep(held_up_s)
        if len(stamps) >= count:
            done.set()

    task = Task(thread="t", turn="u", content="", history=[], workspace=None, model=None, requests=asked())
    running = asyncio.create_task(Steady().run(task, emit))
    await asyncio.wait_for(done.wait(), 60)
    running.cancel()
    return stamps[:count]


def test_a_held_up_agent_is_late() -> None:
    """What an agent could not write in time bears the time at which it was due."""
    stamps = asyncio.run(stamps_of(4, 0.5))
    assert [later - earlier for earlier, later in pairwise(stamps)] == [PAUSE_US] * 3


def received(*pieces: bytes) -> int:
    """How many texts a client counts that gets these pieces while texts due from 100 to 199 µs count."""
    seen = Seen()
    client = Client("quick", "t", Window(100, 200), seen)
    for piece in pieces:
        client.data_received(piece)
    return seen.delays_ms.total()


def test_a_text_counts_once() -> None:
    """A text counts once, though it is told again in a text that is sent whole."""
    assert received(b"@110@ a @120@ b", b"@110@ a @120@ b @130@ c") == 3


def test_a_text_in_two_halves_counts() -> None:
    """A text whose stamp comes in two pieces counts."""
    assert received(b"@110@ a @1", b"20@ b") == 2


def test_a_text_of_another_time_does_not_count() -> None:
    """A text that is due before or after the time that is measured does not count."""
    assert received(b"@99@ a @100@ b @199@ c @200@ d") == 2
