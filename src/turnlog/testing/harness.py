"""How the conformance suite opens, reopens and kills the engine it is run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.engines.protocol import Engine
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.testing.clock import ManualClock


class EngineHarness(ABC):
    """One store, and any number of engines on it, each standing for a process."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._opened: list[Engine] = []

    @abstractmethod
    def connect(self) -> Engine:
        """Make one more engine on the store, which is empty at first."""

    def open(self) -> Engine:
        """One more engine, closed with the harness."""
        self._opened.append(self.connect())
        return self._opened[-1]

    def kill(self, engine: Engine) -> None:
        """What the death of the engine's process leaves: its locks free, its lease rows in place."""
        engine.close()

    def reopen(self) -> Engine:
        """Close all engines and open the store again."""
        self.close()
        return self.open()

    def close(self) -> None:
        """Close all engines. Idempotent."""
        while self._opened:
            self._opened.pop().close()


class MemoryHarness(EngineHarness):
    """Runs the suite on the memory engine."""

    def __init__(self) -> None:
        super().__init__()
        self._store = MemoryStore()

    def connect(self) -> Engine:
        """See `EngineHarness`."""
        return MemoryEngine(self._store, self.clock)


class SqliteHarness(EngineHarness):
    """Runs the suite on a SQLite file in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "store.db"

    def connect(self) -> Engine:
        """See `EngineHarness`."""
        return SqliteEngine(self.path, self.clock)
