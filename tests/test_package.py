"""What is installed is what is here."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROUND_TRIP = """
import turnlog
print(turnlog.__file__)
with turnlog.open("sqlite:///chat.db") as log:
    log.submit("thread-1", "hello").result(timeout=30).interrupt("cancelled").result(timeout=30)
with turnlog.open("sqlite:///chat.db") as log:
    print(log.turns("thread-1").rows[0].preview)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return next(folder.glob("*.whl"))


def test_wheel_holds_every_file(wheel: Path) -> None:
    """The wheel holds every file of the package, SQL scripts and the typing mark among them, and the licence."""
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "turnlog").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in held if name.startswith("turnlog/")} == files
    assert "turnlog/py.typed" in held
    assert any(name.endswith("/licenses/LICENSE") for name in held)


def test_wheel_works_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """A package unpacked from the wheel makes a store, keeps a turn in it and finds it again."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", ROUND_TRIP],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.split("\n")[:2] == [str(tmp_path / "site" / "turnlog" / "__init__.py"), "hello"]
