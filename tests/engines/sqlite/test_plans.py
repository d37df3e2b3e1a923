"""Promise 7: no read walks what it does not return."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from turnlog.engines.sqlite import reads
from turnlog.engines.sqlite.connect import open_reader
from turnlog.engines.sqlite.cursors import thread_place_bytes
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.engines.sqlite.snapshots import read_snapshot, snapshot_state
from turnlog.engines.sqlite.turns import TurnQuery, read_turns
from turnlog.events.clock import SystemClock
from turnlog.testing import writes
from turnlog.testing.writes import commit


class _Planned:
    """A connection that keeps the plan of everything it runs."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.plans: list[str] = []

    def execute(self, sql: str, values: Any = ()) -> apsw.Cursor:
        self.plans += [row[-1] for row in self._db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        return self._db.execute(sql, values)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[_Planned]:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, SystemClock())
    row = writes.started_turn(engine, "T", "t1")
    commit(engine, writes.draft(row, "d", b"x", after=2), writes.snapshot("T", "t1", b"page", seq=2))
    db = open_reader(path, None, 1.0)
    yield _Planned(db)
    db.close()
    engine.close()


def _walked(db: _Planned) -> list[str]:
    """Parts of the plans that go over a whole table; the partial index of open turns is as short as they are few."""
    return [plan for plan in db.plans if re.match(r"SCAN (?!json_each|t USING INDEX turn_open)", plan)]


_ANY = {"thread": None, "turn": None, "key": None, "owner": None, "retry_of": None}

_QUERIES = [
    {"thread": "T"},
    {"thread": "T", "turn": "t1"},
    {"thread": "T", "key": "k"},
    {"thread": "T", "retry_of": "t1"},
    {"thread": "T", "open_only": True},
    {"thread": "T", "latest_each": True},
    {"thread": "T", "latest_each": True, "open_only": True},
    {"open_only": True},
    {"open_only": True, "owner": "owner1"},
    {"latest_each": True},
]


@pytest.mark.parametrize("query", _QUERIES, ids=str)
def test_a_list_of_turns_walks_no_table(db: _Planned, query: dict[str, Any]) -> None:
    """P11: every form of it is a search by an index."""
    form = TurnQuery(**{"open_only": False, "latest_each": False, **_ANY, **query})
    read_turns(cast(apsw.Connection, db), form, None, 5)
    assert db.plans
    assert _walked(db) == []
    if "open_only" in query and "latest_each" not in query:
        assert any("turn_open" in plan for plan in db.plans)


def test_reading_events_and_threads_walks_no_table(db: _Planned) -> None:
    """P11: tails, pages of a thread and of a turn, threads, changes and snapshots are searches by an index."""
    connection = cast(apsw.Connection, db)
    assert reads.read_tail(connection, "e", "T", after=0, rev=0, limit=5).head == 2
    for turn in (None, "t1"):
        page = reads.read_events(
            connection,
            "T",
            after=0,
            before=None,
            turn=turn,
            kinds=["submitted"],
            reverse=True,
            limit=5,
            bytes_max=99,
        )
        assert len(page.rows) == 1
    reads.read_threads(connection, None, None, 5)
    reads.read_threads(connection, "T", None, 5)
    reads.read_threads(connection, None, None, 5, importing=True)
    reads.read_changes(connection, 0)
    reads.read_mark(connection)
    assert read_snapshot(connection, "T", "t1", 0) is not None
    snapshot_state(connection, 1)
    assert _walked(db) == []


def test_the_last_page_of_a_long_turn_costs_what_the_first_does(tmp_path: Path) -> None:
    """P11: paging through a turn is linear in its events, forwards and backwards."""
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, SystemClock())
    row = writes.started_turn(engine, "T", "t1")
    for base in range(2, 5_002, 500):
        commit(engine, writes.append(row, base=base, kinds=["item"] * 500))
    db = open_reader(path, None, 1.0)
    steps: list[int] = []
    db.trace_v2(
        apsw.SQLITE_TRACE_PROFILE, lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])
    )
    for after, before, reverse in ((0, None, False), (4_900, None, False), (0, None, True), (0, 100, True)):
        page = reads.read_events(
            db, "T", after=after, before=before, turn="t1", kinds=None, reverse=reverse, limit=50, bytes_max=10**6
        )
        assert len(page.rows) == 50
    db.close()
    engine.close()
    assert len(steps) == 4
    assert max(steps) < 2 * min(steps)


def test_a_list_of_threads_is_read_in_its_order(db: _Planned) -> None:
    """P11: pinned ones first, from any place on, without sorting and without those that are being imported."""
    connection = cast(apsw.Connection, db)
    reads.read_threads(connection, None, thread_place_bytes(0, 5, 5), 5)
    query = TurnQuery(thread=None, turn=None, key=None, owner=None, retry_of=None, open_only=False, latest_each=True)
    read_turns(connection, query, thread_place_bytes(1, 5, 5), 5)
    lists = [plan for plan in db.plans if "thread_listed" in plan]
    assert len(lists) == 2
    assert all("(pinned,updated_at)<" in plan for plan in lists)
    assert not any("TEMP B-TREE" in plan for plan in db.plans)


def test_one_page_of_a_snapshot_reads_no_other(tmp_path: Path) -> None:
    """P11: a page of a snapshot of many large ones costs the reading of that page alone."""
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, SystemClock())
    writes.started_turn(engine, "T", "t1")
    commit(engine, writes.snapshot("T", "t1", *[b"x" * 1_000_000] * 20, b"last", seq=2))
    engine.close()
    db = open_reader(path, None, 1.0)
    assert read_snapshot(db, "T", "t1", 0) is not None
    before = db.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    found = read_snapshot(db, "T", "t1", 20)
    read = db.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - before
    db.close()
    assert found is not None
    assert found.body == b"last"
    assert read < 20
