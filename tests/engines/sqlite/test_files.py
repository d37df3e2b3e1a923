"""The files of an open store: nobody takes them away unnoticed, and nothing else in the process opens them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from turnlog.engines.sqlite import engine
from turnlog.engines.sqlite.connect import open_writer
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreUnavailable
from turnlog.events.clock import SystemClock
from turnlog.held import close_other, is_held
from turnlog.testing import writes
from turnlog.testing.writes import commit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept" / "store.db"


def _open(path: Path) -> SqliteEngine:
    return SqliteEngine(path, SystemClock())


def _threads(engine: SqliteEngine) -> list[str]:
    return sorted(row.thread for row in engine.threads(limit=99).rows)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _remove(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def _remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def _cut(path: Path) -> None:
    os.truncate(path, 0)


def _remove_wal(path: Path) -> None:
    _wal(path).unlink()


def _replace_index(path: Path) -> None:
    _replace(path.with_name(f"{path.name}-shm"))


@pytest.mark.parametrize("take_away", [_remove, _replace, _remove_folder, _cut, _remove_wal, _replace_index])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(path: Path, take_away: Callable[[Path], None]) -> None:
    """P1: once a file of the store is deleted, replaced or cut short, every write raises and names it."""
    engine = _open(path)
    commit(engine, writes.note("T", base=0))
    take_away(path)
    for _ in range(2):
        with pytest.raises(
            StoreUnavailable, match=r"the store's file (is gone|was replaced|was cut short): .*store\.db"
        ):
            commit(engine, writes.note("T", base=1))
    engine.close()


def test_a_file_that_is_put_back_is_written_again(path: Path) -> None:
    """P1: a store whose file comes back takes writes again by itself, and has what it had acknowledged."""
    engine = _open(path)
    commit(engine, writes.note("A", base=0))
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(StoreUnavailable):
        commit(engine, writes.note("lost", base=0))
    path.with_name("elsewhere").rename(path)
    commit(engine, writes.note("B", base=0))
    engine.close()
    again = _open(path)
    assert _threads(again) == ["A", "B"]
    again.close()


def test_closing_leaves_the_files_of_another_store_alone(path: Path) -> None:
    """P1: a log whose file was replaced takes nothing from the store that is there now when it is closed."""
    first = _open(path)
    commit(first, writes.note("first", base=0))
    for file in (path, _wal(path), path.with_name(f"{path.name}-shm")):
        file.unlink()
    second = _open(path)
    commit(second, writes.note("second", base=0))
    first.close()
    assert _wal(path).exists()
    commit(second, writes.note("later", base=0))
    third = _open(path)
    assert _threads(third) == ["later", "second"]
    second.close()
    third.close()


def test_a_new_reader_never_reads_another_store(path: Path) -> None:
    """P3: after its file was replaced, a log shows nothing of the store that is there now."""
    first = _open(path)
    commit(first, writes.note("first", base=0))
    for file in (path, _wal(path), path.with_name(f"{path.name}-shm")):
        file.unlink()
    second = _open(path)
    commit(second, writes.note("second", base=0))
    with pytest.raises(StoreUnavailable):
        _threads(first)
    first.close()
    second.close()


def test_all_names_of_a_store_have_one_owners_folder(path: Path) -> None:
    """P7: an owner who opened the store by a link is alive for those who opened it by its name."""
    link = path.with_name("link.db")
    link.symlink_to(path.name)
    by_link, by_name = _open(link), _open(path)
    by_link.lease("a", 30.0)
    assert by_name.dead_owners(limit=9) == []
    assert sorted(file.name for file in path.parent.iterdir() if file.is_dir()) == ["store.db.owners"]
    by_link.close()
    assert by_name.dead_owners(limit=9) == ["a"]
    by_name.close()


def test_an_open_stores_files_are_held_by_every_name(path: Path) -> None:
    """P1: while a store is open, its files and folder are held, hard links to them too, until the last one closes."""
    first, second = _open(path), _open(path)
    first.lease("a", 30.0)
    (path.parent / "other.txt").touch()
    (path.parent / "hard.txt").hardlink_to(path)
    held = {file.name for file in path.parent.iterdir() if is_held(file.lstat())}
    assert held == {"store.db", "store.db-wal", "store.db-shm", "store.db.owners", "hard.txt"}
    first.close()
    assert is_held(path.lstat())
    second.close()
    assert not any(is_held(file.lstat()) for file in path.parent.iterdir())


def test_a_descriptor_of_a_file_that_became_held_is_not_closed(path: Path) -> None:
    """P1: what was opened just before a store locked it stays open, for closing it would drop the store's locks."""
    _open(path).close()
    early, later = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    engine = _open(path)
    close_other(early)
    os.fstat(early)
    engine.close()
    close_other(later)
    with pytest.raises(OSError):
        os.fstat(later)
    os.close(early)


def test_a_store_that_cannot_be_opened_is_not_held(path: Path) -> None:
    """A file that was refused is anybody's to read."""
    path.write_text("hello")
    with pytest.raises(Exception, match="not a turnlog store"):
        _open(path)
    assert not is_held(path.lstat())


def test_a_store_is_opened_while_its_last_user_closes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C31: who closes a store last takes the files beside it away; whoever opens it at that moment finds new ones."""
    last = SqliteEngine(path, SystemClock())
    commit(last, writes.submission("T", "t1"))

    def closed_first(*given: Any) -> apsw.Connection:
        last.close()
        for name in ("a", "b"):  # so that a file system which gives a number again gives it to somebody else
            path.with_name(name).touch()
        return open_writer(*given)

    monkeypatch.setattr(engine, "open_writer", closed_first)
    opened = SqliteEngine(path, SystemClock())
    commit(opened, writes.submission("T", "t2", base=1))
    assert len(opened.turns(thread="T", limit=9).rows) == 2
    opened.close()
