"""Engines by URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.engines.open import open_engine
from turnlog.errors import InvalidInput
from turnlog.testing import writes
from turnlog.testing.clock import ManualClock
from turnlog.testing.writes import commit


def test_a_sqlite_url_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes are relative to the working folder at the time of opening, four are absolute."""
    monkeypatch.chdir(tmp_path)
    relative = open_engine("sqlite:///a/store.db", ManualClock())
    monkeypatch.chdir("/")
    absolute = open_engine(f"sqlite:///{tmp_path}/a/store.db", ManualClock())
    assert relative.epoch == absolute.epoch
    commit(relative, writes.note("T", base=0))
    assert [row.thread for row in relative.threads(limit=9).rows] == ["T"]
    relative.close()
    absolute.close()


def test_memory_stores_are_shared_by_name() -> None:
    """One name is one store while an engine has it; without a name each is its own."""
    one, same, other = (open_engine(f"memory://{name}", ManualClock()) for name in ("x", "x", "y"))
    assert one.epoch == same.epoch != other.epoch
    assert open_engine("memory://", ManualClock()).epoch != open_engine("memory://", ManualClock()).epoch


@pytest.mark.parametrize("url", ["", "chat.db", "sqlite:", "sqlite:///", "sqlite://chat.db", "postgres://x", "memory:"])
def test_anything_else_is_refused(url: str) -> None:
    """A URL that names no engine raises `InvalidInput` and makes no file."""
    with pytest.raises(InvalidInput):
        open_engine(url, ManualClock())


@pytest.mark.parametrize("url", ["sqlite:///a\0b.db", "sqlite:///\ud83d.db", "sqlite:///\udcff.db", "memory://\ud83d"])
def test_a_url_that_no_file_can_have_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NUL or half of a character in a URL raises `InvalidInput` and makes no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput):
        open_engine(url, ManualClock())
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_url(tmp_path: Path) -> None:
    """A path given instead of a URL raises `InvalidInput` that says what a URL is."""
    with pytest.raises(InvalidInput, match="sqlite:///FILE"):
        open_engine(tmp_path / "chat.db", ManualClock())  # type: ignore[arg-type]
