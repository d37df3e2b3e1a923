"""Stores for tests of the journal: several logs on one of them stand for several processes, which can be killed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.engines.protocol import Engine
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreClosed, StoreError, StoreUnavailable
from turnlog.events.clock import Clock, SystemClock
from turnlog.events.ids import IdSource
from turnlog.events.kinds import Draft, Event, Item
from turnlog.folds.turn import content_text
from turnlog.journal.log import Log
from turnlog.limits import LEASE_S
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Hold, raising

T = TypeVar("T")

WAIT_S: Final = 30.0
"""Seconds after which something that should have happened never will."""

_VERBS: Final = frozenset(
    f"{name}.before" for name in vars(Engine) if not name.startswith("_") and name not in ("caps", "epoch", "close")
)


class JumpClock:
    """The machine's clocks, which tests set forward."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._ahead_s = 0.0

    def now_us(self) -> int:
        return self._system.now_us() + round(self._ahead_s * 1_000_000)

    def boot_s(self) -> float:
        return self._system.boot_s() + self._ahead_s

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds


class StillClock(JumpClock):
    """Clocks that stand still between two jumps, so that nothing takes any time."""

    def __init__(self) -> None:
        super().__init__()
        self._now_us, self._boot_s = super().now_us(), super().boot_s()

    def now_us(self) -> int:
        return self._now_us + round(self._ahead_s * 1_000_000)

    def boot_s(self) -> float:
        return self._boot_s + self._ahead_s


class Store:
    """One store and the logs that were opened on it, each with fail-points of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.clock = JumpClock()
        self.path = folder / "store.db"
        self._memory = MemoryStore()
        self._faults: dict[Log, FaultEngine] = {}

    def engine(self, clock: Clock | None = None) -> FaultEngine:
        clock = clock or self.clock
        engine = MemoryEngine(self._memory, clock) if self.kind == "memory" else SqliteEngine(self.path, clock)
        return FaultEngine(engine)

    def open(
        self, *, clock: Clock | None = None, ids: IdSource | None = None, engine: FaultEngine | None = None
    ) -> Log:
        engine = engine or self.engine(clock)
        log = Log(engine, clock=clock or self.clock, ids=ids)
        self._faults[log] = engine
        return log

    def faults(self, log: Log) -> FaultEngine:
        return self._faults[log]

    def kill(self, log: Log) -> None:
        """What the death of a process leaves: nothing is written any more, its lock is free, its lease row stays."""
        faults = self._faults.pop(log)
        faults.heal()
        faults.traps.set(_VERBS, raising(StoreClosed), forever=True)
        with suppress(StoreError):
            log.close()

    @contextmanager
    def paused(self, log: Log) -> Iterator[None]:
        """The process stands still, as under SIGSTOP, from the next verb of its writer on."""
        hold = Hold()
        self._faults[log].traps.set(_VERBS, hold, forever=True)
        log.append_message("pause", {})
        with hold:
            hold.wait_held()
            yield

    def close(self) -> None:
        for log, faults in self._faults.items():
            faults.heal()
            log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def unavailable() -> StoreError:
    return StoreUnavailable(detail="no space left")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` within a bound, and see that it leaves no task behind."""

    async def outer() -> T:
        result = await asyncio.wait_for(main, WAIT_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left running: {left}"
        return result

    return asyncio.run(outer())


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another thread brings about."""
    waiting, end = threading.Event(), time.monotonic() + LEASE_S / 2  # shorter than what comes with a lease's end
    while not condition():
        assert time.monotonic() < end, "it never happened"
        waiting.wait(0.002)


async def until(condition: Callable[[], bool]) -> None:
    """The same in a loop; the bound is that of `run`."""
    while not condition():
        await asyncio.sleep(0.002)


def together(count: int, action: Callable[[int], T]) -> list[T | Exception]:
    """Run `action` in many threads at one instant; what each returned or raised."""
    barrier = threading.Barrier(count)
    results: list[T | Exception] = [AssertionError("it did not end")] * count

    def act(number: int) -> None:
        barrier.wait(WAIT_S)
        try:
            results[number] = action(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    return results


# --- what is written -----------------------------------------------------------------------------------------------


def message(text: str, id: str | None = None) -> dict[str, Any]:
    raw = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return raw if id is None else {"id": id, **raw}


def reasoning(text: str, id: str | None = None) -> dict[str, Any]:
    raw = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
    return raw if id is None else {"id": id, **raw}


def call(call_id: str, arguments: str = "{}", id: str | None = None) -> dict[str, Any]:
    raw = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": arguments}
    return raw if id is None else {"id": id, **raw}


def output(call_id: str, text: str = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


# --- what is read --------------------------------------------------------------------------------------------------


def events(log: Log, thread: str = "t", turn: str | None = None) -> list[Event]:
    return list(log.events(thread, turn=turn))


def kinds(log: Log, thread: str = "t", turn: str | None = None) -> list[str]:
    return [event.kind for event in events(log, thread, turn)]


def items(log: Log, thread: str = "t") -> list[Item]:
    return [event.body for event in events(log, thread) if isinstance(event.body, Item)]


def texts(log: Log, thread: str = "t") -> list[str]:
    """The texts of all messages of assistants, in order."""
    raws = [json.loads(item.raw) for item in items(log, thread) if item.type == "message"]
    return [content_text(raw["content"]) for raw in raws]


def drafts(log: Log, thread: str = "t") -> dict[str, str]:
    return {draft.draft: draft.text for draft in log.drafts(thread)}


async def take(frames: Any, wanted: Callable[[Event | Draft], bool]) -> list[Event | Draft]:
    """Frames of a follower up to and with the first wanted one."""
    taken: list[Event | Draft] = []
    async for frame in frames:
        taken.append(frame)
        if wanted(frame):
            return taken
    raise AssertionError("the follower ended")
