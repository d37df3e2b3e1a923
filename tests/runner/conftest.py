"""A log of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.running import open_log
from turnlog.journal.log import Log


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with open_log(request.param, tmp_path) as opened:
        yield opened
