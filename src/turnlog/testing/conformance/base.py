"""What all parts of the suite stand on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnlog.engines.protocol import Engine
from turnlog.testing.harness import EngineHarness


class Conformance(ABC):
    """A part of the suite."""

    @abstractmethod
    def make_harness(self, folder: Path) -> EngineHarness:
        """A harness with an empty store; `folder` is new and may hold it."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[EngineHarness]:
        """The harness of one test."""
        harness = self.make_harness(tmp_path)
        yield harness
        harness.close()

    @pytest.fixture
    def engine(self, harness: EngineHarness) -> Engine:
        """One engine on the empty store; its `owner1` is alive."""
        engine = harness.open()
        engine.lease("owner1", 30.0)
        return engine
