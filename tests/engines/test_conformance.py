"""Both engines keep the promises of the contract."""

from pathlib import Path

from turnlog.testing.conformance import EngineConformance
from turnlog.testing.harness import EngineHarness, MemoryHarness, SqliteHarness


class TestMemory(EngineConformance):
    def make_harness(self, folder: Path) -> EngineHarness:
        return MemoryHarness()


class TestSqlite(EngineConformance):
    def make_harness(self, folder: Path) -> EngineHarness:
        return SqliteHarness(folder)
