"""Traps: what happens when a named place is reached for the k-th time.

The VFS (`testing.vfs`) and the engine wrapper (`testing.faults`) reach places such as `sync.before` or `commit.after`.
A test sets a trap there whose action raises, holds, kills or calls whatever the test wants.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Final

HOLD_S: Final = 60.0
"""Seconds after which a hold that nobody released gives up, so that a failing test ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an action is run: the place's name, and the file reached for (`db`, `wal`, `journal`), else empty."""

    name: str
    part: str


Action = Callable[[Place], None]


def kill_self(place: Place) -> None:
    """Die at once by SIGKILL: an action for children that are meant to be killed at `place`."""
    os.kill(os.getpid(), signal.SIGKILL)


def raising(error: Callable[[], Exception]) -> Action:
    """An action that raises what `error` makes, a new one each time."""

    def act(place: Place) -> None:
        raise error()

    return act


class Hold:
    """An action that blocks whoever reaches the place until `release`. As a context manager it releases at the end."""

    def __init__(self) -> None:
        self._held = threading.Event()
        self._released = threading.Event()

    def __call__(self, place: Place) -> None:
        """Block at `place`: what `Traps` calls."""
        self._held.set()
        if not self._released.wait(HOLD_S):
            raise TimeoutError(f"held at {place.name} for {HOLD_S} s and not released")

    def wait_held(self, timeout: float = 10.0) -> None:
        """Return once somebody is held; `TimeoutError` when nobody is within `timeout` seconds."""
        if not self._held.wait(timeout):
            raise TimeoutError(f"nobody reached the hold within {timeout} s")

    def release(self) -> None:
        """Let the held one, and all later ones, go on."""
        self._released.set()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class Trap:
    """A trap that was set: `left` more reaches until it acts, `fired` times it has acted."""

    places: frozenset[str]
    part: str | None
    action: Action
    left: int
    forever: bool
    fired: int = 0

    def step(self, place: str, part: str) -> bool:
        """Count one reach; whether the trap acts on it."""
        if place not in self.places or self.part not in (None, part):
            return False
        self.left -= 1
        acts = self.left == 0 or (self.forever and self.left < 0)
        self.fired += acts
        return acts


class Traps:
    """The traps of one VFS or engine. Thread-safe; actions run in the thread that reached the place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traps: list[Trap] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def set(
        self,
        places: str | Collection[str],
        action: Action,
        *,
        k: int = 1,
        part: str | None = None,
        forever: bool = False,
    ) -> Trap:
        """Run `action` when one of `places` is reached for the k-th time from now (1: the next), once or `forever`.

        `part` restricts it to reaches for this part. `trap.fired` tells whether it came to that.
        """
        if k < 1:
            raise ValueError(f"k counts from 1, not {k}")
        names = frozenset((places,) if isinstance(places, str) else places)
        trap = Trap(places=names, part=part, action=action, left=k, forever=forever)
        with self._lock:
            self._traps.append(trap)
        return trap

    def hold(self, place: str, *, k: int = 1, part: str | None = None) -> Hold:
        """Block whoever reaches `place` for the k-th time from now until the hold is released."""
        hold = Hold()
        self.set(place, hold, k=k, part=part)
        return hold

    def reach(self, place: str, part: str = "") -> None:
        """Count this place and run what is set for it now; what the action raises comes out here."""
        with self._lock:
            self._counts[place, part] += 1
            acting = [trap for trap in self._traps if trap.step(place, part)]
        for trap in acting:
            trap.action(Place(place, part))

    def reached(self, place: str, part: str | None = None) -> int:
        """How often `place` was reached since the beginning, for `part` or for all parts."""
        with self._lock:
            return sum(n for (name, of), n in self._counts.items() if name == place and part in (None, of))

    def heal(self) -> None:
        """Remove all traps and release who is held."""
        with self._lock:
            removed, self._traps = self._traps, []
        for trap in removed:
            if isinstance(trap.action, Hold):
                trap.action.release()
