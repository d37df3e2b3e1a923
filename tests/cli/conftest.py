"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import Caller

LINES = 60


@pytest.fixture
def call(tmp_path: Path) -> Caller:
    """The command line with an empty store."""
    return Caller(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the demo agent takes some seconds to tell about."""
    folder = tmp_path / "project"
    for name in ("docs", "src"):
        (folder / name).mkdir(parents=True)
    (folder / "README.md").write_text("# The lighthouse\n\nIt keeps the lamp lit.\n", "utf-8")
    lamp = "".join(f"def lamp_{number}() -> None:  # the lamp, number {number}\n    ...\n" for number in range(LINES))
    (folder / "src" / "lamp.py").write_text(lamp, "utf-8")
    (folder / "docs" / "lamp.md").write_text("The lamp turns.\n" * LINES, "utf-8")
    return folder
