"""Who watches nothing asks the store nothing, whatever other processes write."""

from __future__ import annotations

import asyncio
import time

from tests.journal.stores import Store, eventually, run
from turnlog.journal.log import Log
from turnlog.limits import WRITER_POLL_S

LOOKS = 4
"""So many looks at other processes fit into the time that is waited."""


def reads(store: Store, log: Log) -> dict[str, int]:
    """How often each verb of the log's engine was called, but those of opening and closing."""
    traps = store.faults(log).traps
    verbs = ("changes", "tail", "read", "turns", "threads", "commit", "lease", "dead_owners")
    return {verb: traps.reached(f"{verb}.before") for verb in verbs}


def write_for_a_while(log: Log) -> None:
    """Write turns for as long as several looks would take."""
    end = time.monotonic() + LOOKS * WRITER_POLL_S
    while time.monotonic() < end:
        with log.turn("t", "hello") as turn:
            turn.step("s").result()


def test_nothing_is_asked_when_nobody_watches(store: Store, log: Log) -> None:
    """P8: a log that owns no open turn and has no follower asks its store nothing while another one writes."""
    other = store.open()
    write_for_a_while(log)
    before = reads(store, other)
    write_for_a_while(log)
    assert reads(store, other) == before


def test_a_look_begins_and_ends_with_a_follower(store: Store, log: Log) -> None:
    """P8: while somebody follows, the log looks at what others wrote, and stops when the follower goes."""
    other = store.open()
    write_for_a_while(log)
    traps = store.faults(other).traps

    async def follow() -> None:
        frames = other.follow("t")
        await anext(frames)
        looked = traps.reached("changes.before")
        while other._engine.caps.shared and traps.reached("changes.before") < looked + 2:
            await asyncio.sleep(0.001)
        await frames.aclose()

    run(follow())
    eventually(lambda: not other._hub.watched)
    other.append_message("u", {"type": "message"}).result()  # the writer is past its last look
    other.recover()
    before = reads(store, other)
    write_for_a_while(log)
    assert reads(store, other) == before
