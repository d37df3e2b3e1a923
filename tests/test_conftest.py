"""The rules for all tests hold."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_without_component():
    pytest.skip("no such component")

@pytest.mark.skipif(True, reason="only on another system")
def test_elsewhere(): ...

@pytest.mark.long
def test_long(): ...

def test_short(): ...
"""


@pytest.mark.parametrize(("ci", "summary"), [("true", "1 failed, 1 passed, 1 skipped"), ("", "1 passed, 2 skipped")])
def test_skip_is_a_failure_in_ci(ci: str, summary: str, tmp_path: Path) -> None:
    """A missing component fails under CI and is skipped at home; long tests run only when asked for."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={"CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"{summary}, 1 deselected" in ran.stdout
