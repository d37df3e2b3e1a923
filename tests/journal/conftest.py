"""A store of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.stores import Store
from turnlog.journal.log import Log


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def log(store: Store) -> Log:
    return store.open()
