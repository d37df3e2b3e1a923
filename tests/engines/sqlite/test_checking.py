"""What `check` finds in a file that is not as it was written, and how reading goes on behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from turnlog.engines.protocol import Damage, Done
from turnlog.engines.sqlite.connect import PAGE_BYTES
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreDamaged
from turnlog.events.clock import SystemClock
from turnlog.testing import writes
from turnlog.testing.writes import commit, stored_turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def _opened(path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(path, SystemClock())
    yield engine
    engine.close()


def _changed(path: Path, *statements: str) -> None:
    """Do to the closed file what turnlog never does."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    db.pragma("writable_schema", 1)
    for statement in statements:
        db.execute(statement)
    db.close()


def _spoil(path: Path, marker: bytes) -> None:
    """Overwrite the page that has `marker`."""
    data = path.read_bytes()
    at = data.index(marker) // PAGE_BYTES * PAGE_BYTES
    assert data.count(marker) == 1
    path.write_bytes(data[:at] + b"\xa5" * PAGE_BYTES + data[at + PAGE_BYTES :])


def _body(seq: int) -> bytes:
    """A body that fills its page."""
    return b"marker %d." % seq + b"x" * (PAGE_BYTES - 1_000)


def _thread_of_pages(path: Path) -> None:
    """Thread T with 30 events, each on a page of its own, and thread U."""
    with _opened(path) as engine:
        row = writes.submitted_turn(engine, "T", "t1")
        for base in range(1, 30):
            commit(engine, writes.append(row, base=base, bodies=[_body(base + 1)]))
        commit(engine, writes.note("U", base=0, count=3))


def _found(path: Path, thread: str | None = None) -> list[Damage]:
    with _opened(path) as engine:
        return list(engine.check(thread))


def _kinds(found: list[Damage]) -> set[tuple[str, str | None, str | None, int | None]]:
    return {(damage.what, damage.thread, damage.turn, damage.seq) for damage in found}


def test_events_and_drafts_of_a_lost_turn_are_orphans(path: Path) -> None:
    """P4: each event is named by its seq, and what is beside them is sound."""
    with _opened(path) as engine:
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"x", after=2), writes.note("T", base=2))
        writes.submitted_turn(engine, "T", "t2", base=3)
        commit(engine, writes.note("U", base=0))
    _changed(path, "DELETE FROM turn WHERE turn = CAST('t1' AS BLOB)")
    lost = {("orphan", "T", None, None), ("orphan", "T", None, 1), ("orphan", "T", None, 2)}
    assert _kinds(_found(path)) == _kinds(_found(path, "T")) == lost
    assert _found(path, "U") == []


def test_rows_of_a_lost_thread_are_orphans(path: Path) -> None:
    """P4: its events, turns and chunks are counted; the search goes on to the threads that are there."""
    with _opened(path) as engine:
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"x", after=2), writes.note("U", base=0))
        commit(engine, writes.rebuild("U", base=1, thread_row=replace(writes.thread_row("U"), head=7)))
    _changed(path, "PRAGMA foreign_keys = 0", "DELETE FROM thread WHERE thread = CAST('T' AS BLOB)")
    found = _found(path)
    assert [damage.detail for damage in found if damage.what == "orphan"] == [
        f"{count} of table {table}, of a thread that is not there"
        for count, table in ((2, "event"), (1, "chunk"), (1, "turn"))
    ]
    assert ("head", "U", None, 1) in _kinds(found)


def test_too_small_a_number_of_places_is_found_and_rebuilt(path: Path) -> None:
    """P4, P8: the next event of the turn would be refused by the table; after rebuilding its row it is taken."""
    with _opened(path) as engine:
        writes.started_turn(engine, "T", "t1")
    _changed(path, "UPDATE turn SET places = 1")
    assert _kinds(_found(path)) == _kinds(_found(path, "T")) == {("places", "T", "t1", None)}
    with _opened(path) as engine:
        row = stored_turn(engine, "T", "t1")
        commit(engine, writes.rebuild("T", base=2, turn_row=row))
        assert list(engine.check()) == []
        assert commit(engine, writes.append(row, base=2)) == [Done(head=3, rev=0, fence=1)]


def test_places_that_are_taken_twice_are_found(path: Path) -> None:
    """P4: a seq, a key, a retried turn and a turn id that two have, when the index that forbids it was lost."""
    with _opened(path) as engine:
        commit(engine, writes.note("T", base=0, count=3))
        for n, name in enumerate(("t1", "t2"), start=3):
            commit(engine, writes.submission("T", name, base=n, key=f"k{n}", retry_of=f"r{n}"))
    _changed(
        path,
        "DROP INDEX event_seq",
        "DROP INDEX turn_key",
        "DROP INDEX turn_retry_of",
        "UPDATE event SET seq = 2 WHERE seq = 3",
        "UPDATE turn SET key = CAST('k' AS BLOB), retry_of = CAST('r' AS BLOB)",
    )
    found = _found(path)
    assert _kinds(found) == {("duplicate", "T", None, 2), ("duplicate", "T", None, None)}
    assert [damage.detail for damage in found if damage.seq is None] == [
        "2 turns have the key 'k'",
        "2 turns have the retried turn 'r'",
    ]
    _changed(path, "DROP INDEX turn_turn", "UPDATE turn SET turn = CAST('t' AS BLOB)")
    assert ("duplicate", "T", "t", None) in _kinds(_found(path, "T"))


def test_an_index_that_differs_from_its_table_is_found(path: Path) -> None:
    """P4: what SQLite sees of it is told, with the table."""
    with _opened(path) as engine:
        commit(engine, writes.note("T", base=0, count=3))
    _changed(
        path,
        "DROP INDEX event_seq",
        "CREATE UNIQUE INDEX event_seq ON event (thread, seq) WHERE seq <> 2",
        "UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX event_seq ON event (thread, seq)'"
        " WHERE name = 'event_seq'",
    )
    found = _found(path)
    assert [damage.what for damage in found] == ["index"]
    assert found[0].detail.startswith("index event_seq of event: ")
    with _opened(path) as engine:
        engine.reindex()
    assert _found(path) == []


def test_reading_goes_on_behind_a_damaged_page(path: Path) -> None:
    """P4: a page of events ends before the damage, the next one names its place, and behind it all is there."""
    _thread_of_pages(path)
    _spoil(path, b"marker 10.")
    with _opened(path) as engine:
        for turn in (None, "t1"):
            before = engine.read("T", turn=turn, limit=99, bytes_max=10**6)
            assert [event.seq for event in before.rows] == list(range(1, 10))
            assert before.next is not None
        with pytest.raises(StoreDamaged, match=r"after seq 9 of thread 'T'"):
            engine.read("T", after=9, limit=99, bytes_max=10**6)
        behind = engine.read("T", after=10, limit=99, bytes_max=10**6)
        assert [event.body for event in behind.rows] == [_body(seq) for seq in range(11, 31)]
        assert behind.next is None
        last = engine.read("T", reverse=True, limit=99, bytes_max=10**6)
        assert [event.seq for event in last.rows] == list(range(30, 10, -1))
        assert [engine.read("T", after=seq - 1, limit=1, bytes_max=1).rows[0].seq for seq in (9, 11)] == [9, 11]


def test_damaged_pages_are_found_one_by_one(path: Path) -> None:
    """P4: each run of events that cannot be read is named, and only those; what comes behind is searched too."""
    _thread_of_pages(path)
    for seq in (10, 20, 21):
        _spoil(path, b"marker %d." % seq)
    with _opened(path) as engine:
        commit(engine, writes.rebuild("U", base=3, thread_row=replace(writes.thread_row("U"), head=7)))
        found = list(engine.check())
        of_thread = list(engine.check("T"))
    assert [(damage.seq, damage.detail) for damage in of_thread] == [
        (10, "the event cannot be read"),
        (20, "events up to 21 cannot be read"),
    ]
    assert [damage for damage in found if damage.thread == "T"] == of_thread
    assert any(damage.thread is None and damage.what == "unreadable" for damage in found)
    assert ("head", "U", None, 3) in _kinds(found)


def test_a_damaged_last_event_is_found(path: Path) -> None:
    """P4: the search ends, with nothing behind the damage."""
    _thread_of_pages(path)
    _spoil(path, b"marker 30.")
    assert [damage.seq for damage in _found(path, "T") if damage.seq is not None] == [30]


def test_threads_behind_a_damaged_page_of_threads_are_searched(path: Path) -> None:
    """P4: a page of thread rows that cannot be read hides no other thread."""
    with _opened(path) as engine:
        for n in range(30):
            row = writes.thread_row(f"T{n}", fold=b"fold %d." % n + b"x" * (PAGE_BYTES - 1_000))
            commit(engine, replace(writes.note(f"T{n}", base=0), thread_row=row))
            commit(engine, writes.rebuild(f"T{n}", base=1, thread_row=replace(row, head=5)))
    _spoil(path, b"fold 10.")
    with _opened(path) as engine:
        found = list(engine.check())
        with pytest.raises(StoreDamaged):
            engine.threads(thread="T10", limit=1)
    heads = {damage.thread for damage in found if damage.what == "head"}
    assert heads == {f"T{n}" for n in range(30)} - {"T10"}
    assert any(damage.detail.startswith("rows behind the number") for damage in found)


def test_a_name_that_is_none_hides_no_other(path: Path) -> None:
    """P4: bytes that are no text in a stored name are shown as such in its list, and told by the search."""
    with _opened(path) as engine:
        commit(engine, writes.submission("T", "t1"), writes.submission("T", "t2", base=1), writes.note("U", base=0))
    _changed(
        path,
        "UPDATE thread SET thread = x'75ff' WHERE thread = CAST('U' AS BLOB)",
        "UPDATE turn SET turn = x'ff31', digest = x'ff' WHERE turn = CAST('t1' AS BLOB)",
    )
    with _opened(path) as engine:
        assert sorted(row.thread for row in engine.threads(limit=9).rows) == ["T", "u\\xff"]
        assert [row.turn for row in engine.turns(thread="T", limit=9).rows] == ["t2", "\\xff1"]
        assert [event.turn for event in engine.read("T", limit=9, bytes_max=99).rows][-1] == "t2"
        told = [damage.detail for damage in engine.check() if damage.what == "unreadable"]
        assert [detail.rpartition(" with")[0] for detail in told] == ["the id of the turn", "the id of the thread"]


def test_an_owner_that_is_none_keeps_nobody_waiting(path: Path) -> None:
    """P4, P8: a lease whose owner has no name is nobody's; of an open turn it is told, and all others are settled."""
    with _opened(path) as engine:
        engine.lease("owner1", 30.0)
        commit(engine, writes.submission("T", "t1", owner="dead"), writes.submission("U", "u1", owner="other"))
    _changed(path, "INSERT INTO owner VALUES (x'ff', 1.0)", "UPDATE turn SET owner = x'ff' WHERE turn = x'7431'")
    with _opened(path) as engine:
        engine.lease("owner2", 30.0)
        assert engine.dead_owners(limit=9) == ["other", "owner1"]
        assert engine.lease_end() is not None
        found = [damage for damage in engine.check() if damage.what == "unreadable"]
        assert [(damage.thread, damage.turn) for damage in found] == [("T", "t1")]


def test_a_search_that_pauses_keeps_no_old_pages(path: Path) -> None:
    """P11: between two findings no transaction is open, so the write-ahead log can be emptied."""
    with _opened(path) as engine:
        for name in ("T", "U"):
            commit(engine, writes.note(name, base=0))
            commit(engine, writes.rebuild(name, base=1, thread_row=replace(writes.thread_row(name), head=7)))
        search = engine.check()
        assert next(search).thread == "T"
        commit(engine, writes.note("V", base=0))
        db = apsw.Connection(str(path))
        ((busy, left, moved),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        assert (busy, left, moved) == (0, 0, 0)
        assert [damage.thread for damage in search] == ["U"]


WRONG_TYPES = [
    ("event", "kind", "7"),
    ("event", "body", "'text'"),
    ("event", "at", "NULL"),
    ("turn", "turn", "7"),
    ("turn", "key", "'k'"),
    ("turn", "phase", "x'01'"),
    ("turn", "fence", "x'00'"),
    ("thread", "head", "x'05'"),
    ("thread", "pinned", "'yes'"),
    ("chunk", "text", "'x'"),
    ("chunk", "rev", "NULL"),
    ("owner", "lease_end", "'soon'"),
    ("snapshot", "pages", "'two'"),
    ("snapshot_page", "body", "NULL"),
]


@pytest.mark.parametrize(("table", "column", "value"), WRONG_TYPES, ids=[".".join(it[:2]) for it in WRONG_TYPES])
def test_a_value_of_another_type_is_damage(path: Path, table: str, column: str, value: str) -> None:
    """P4: what nobody has stored so ends a read with `StoreDamaged`, never with an error of the program."""
    with _opened(path) as engine:
        engine.lease("owner1", 30.0)
        row = writes.started_turn(engine, "T", "t1")
        commit(engine, writes.draft(row, "d", b"x", after=2), writes.snapshot("T", "t1", b"a", seq=2))
    loose = "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '')"
    _changed(path, "CREATE TABLE before AS SELECT name, sql FROM sqlite_schema", f"{loose} WHERE name = '{table}'")
    back = "UPDATE sqlite_schema SET sql = (SELECT sql FROM before AS b WHERE b.name = sqlite_schema.name)"
    _changed(path, f"UPDATE {table} SET {column} = {value}", f"{back} WHERE name = '{table}'", "DROP TABLE before")
    with _opened(path) as engine:
        reads = (
            lambda: engine.tail("T", after=0, rev=0, limit=9),
            lambda: engine.read("T", limit=9, bytes_max=99),
            lambda: engine.read("T", turn="t1", limit=9, bytes_max=99),
            lambda: engine.turns(thread="T", limit=9),
            lambda: engine.turns(thread="T", turn="t1", limit=9),
            lambda: engine.threads(limit=9),
            lambda: engine.threads(thread="T", limit=9),
            lambda: engine.snapshot("T", "t1"),
            lambda: engine.dead_owners(limit=9),
            lambda: engine.changes(b"", 0.0),
            lambda: commit(engine, writes.note("T", base=2)),
        )
        assert StoreDamaged in [_error(read) for read in reads]
        assert {_error(read) for read in reads} <= {None, StoreDamaged}
        list(engine.check())


@pytest.mark.parametrize("table", ["thread", "turn"])
def test_a_fold_of_another_type_hides_no_row(path: Path, table: str) -> None:
    """P4: what a row keeps for the journal is the journal's to judge: the list goes on, and the others are there."""
    with _opened(path) as engine:
        commit(engine, writes.submission("T", "t1"), writes.submission("U", "t2"))
    loose = "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '')"
    _changed(path, f"{loose} WHERE name = '{table}'")
    _changed(path, f"UPDATE {table} SET fold = 7 WHERE id = (SELECT min(id) FROM {table})")
    with _opened(path) as engine:
        rows = engine.threads(limit=9).rows if table == "thread" else engine.turns(latest_each=True, limit=9).rows
        assert sorted((row.thread, row.fold == b"") for row in rows) == [("T", True), ("U", False)]


def _error(read: Callable[[], object]) -> type[Exception] | None:
    try:
        read()
    except Exception as error:
        return type(error)
    return None
