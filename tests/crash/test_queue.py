"""A process that dies just after it has acknowledged a message that waits behind a running turn."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from turnlog.events.kinds import Interrupted

from ..power.recording import open_log
from .test_processes import child

WAITING_BEHIND_A_TOOL = """
from turnlog.agents.protocol import ItemSignal

class InATool:
    name = version = "1"
    async def run(self, task, emit):
        await emit(ItemSignal(raw={"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}))
        report("in a tool")
        await asyncio.Event().wait()

class Never:
    name = version = "1"
    def __init__(self):
        report("the waiting turn began")

async def main():
    log = opened(sys.argv[1])
    first = asyncio.create_task(run_turn(await log.submit("T", "A", turn="a"), InATool, log=log))
    while not [event for event in (log.events("T") if log.threads().rows else ()) if event.kind == "item"]:
        await asyncio.sleep(0)
    turn = await log.submit("T", "B", turn="b", key="k", when_busy=sys.argv[2])
    report("accepted")
    await asyncio.gather(first, run_turn(turn, Never, log=log))

asyncio.run(main())
"""


def killed_after(folder: Path, when_busy: str, delay_s: float) -> list[object]:
    """Kill the child so many seconds after it has told that the waiting turn is accepted; what it reported."""
    with child(folder, WAITING_BEHIND_A_TOOL, when_busy) as dying:
        dying.wait_for(lambda lines: "accepted" in lines)
        threading.Event().wait(delay_s)
        dying.kill()
        return dying.lines


@pytest.mark.parametrize("delay_ms", range(6))
def test_a_message_accepted_behind_a_running_turn_is_there(tmp_path: Path, delay_ms: int) -> None:
    """C02, P1, P8: killed at any moment after its ack, the waiting message is there, not started, behind the first."""
    reported = killed_after(tmp_path, "queue", delay_ms / 1_000)
    assert "the waiting turn began" not in reported
    with open_log(tmp_path) as log:
        assert [row.thread for row in log.threads().rows] == ["T"]
        rows = log.turns("T").rows
        assert [(row.turn, row.preview, row.reason) for row in reversed(rows)] == [
            ("a", "A", "process_died"),
            ("b", "B", "not_started"),
        ]
        ended = [(event.turn, event.body) for event in log.events("T") if isinstance(event.body, Interrupted)]
        assert [(turn, body.unknown_calls) for turn, body in ended] == [("a", ["c"]), ("b", [])]
        assert log.recover() == []
        again = log.retry("T", "b").result()
        again.ready().result(30)
        again.start().result()
        again.complete().result()
        assert log.turns("T").rows[0].retry_of == "b"


@pytest.mark.parametrize("delay_ms", [0, 2])
def test_a_message_that_replaces_a_running_turn_is_there(tmp_path: Path, delay_ms: int) -> None:
    """C02, P1, P6: killed after the ack, both turns have one end, and the key still gives the replacing one."""
    killed_after(tmp_path, "replace", delay_ms / 1_000)
    with open_log(tmp_path) as log:
        rows = {row.turn: row for row in log.turns("T").rows}
        assert (rows["a"].state, rows["a"].interrupt_requested) == ("interrupted", True)
        assert rows["a"].reason in ("process_died", "cancelled")
        assert rows["b"].state == "interrupted"
        again = log.submit("T", "B", key="k").result()
        assert (again.id, again.duplicate) == ("b", True)
