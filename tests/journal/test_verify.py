"""Verifying reads everything, tells how far it is, and keeps nothing of what it has read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.journal.stores import Store, call, message, output
from turnlog.folds.findings import Finding
from turnlog.journal import verifying
from turnlog.journal.log import Log
from turnlog.journal.verifying import Progress


def fill(log: Log, turns: int) -> None:
    """One long thread, as large as it gets, and some short ones."""
    for number in range(turns):
        with log.turn("long" if number % 2 else f"t{number}", f"question {number}") as turn:
            turn.item(call("c", "x" * 400)).result()
            turn.item(output("c", "y" * 400)).result()
            turn.item(message("z" * 400)).result()


def peak(folder: Path, turns: int) -> int:
    folder.mkdir()
    with Store("sqlite", folder) as store:
        log = store.open()
        fill(log, turns)
        assert not [told for told in log.verify() if isinstance(told, Finding)]  # what is made once, and the page cache
        tracemalloc.start()
        told = list(log.verify())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert told == [Progress(threads=turns // 2 + 1, events=turns * 7 + turns // 2 + 1, findings=0, done=True)]
    return most


def test_memory_does_not_grow_with_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: of a store ten times as large, a verification holds no more at once, with pages that both have many of."""
    monkeypatch.setattr("turnlog.journal.records.READ_EVENTS_MAX", 50)
    monkeypatch.setattr("turnlog.journal.auditing.PAGE_ROWS", 10)
    monkeypatch.setattr("turnlog.engines.sqlite.checking._ROWS", 50)
    assert peak(tmp_path / "large", 400) < 1.5 * peak(tmp_path / "small", 40)


def test_progress_is_told(store: Store, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: while it reads it tells how far it is, and at last how much it was."""
    monkeypatch.setattr(verifying, "VERIFY_TELLS_EVENTS", 1)
    fill(log, 6)
    told = [each for each in log.verify() if isinstance(each, Progress)]
    assert [each.threads for each in told] == [1, 2, 3, 4, 4]
    assert [each.done for each in told] == [False] * 4 + [True]
    assert told[-1].events == sum(log.thread(row.thread).head for row in log.threads().rows)
