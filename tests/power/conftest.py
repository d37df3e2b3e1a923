"""What the proofs of power loss share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .recording import often_checkpointed, scratch

__all__ = ["often_checkpointed"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A fast place for stores, removed at the end."""
    with scratch() as place:
        yield place
