"""A store damaged in fifty ways: each is audited exactly, and repaired as far as honesty allows."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.audit.damages import DAMAGES, UNOPENABLE, WIDE
from tests.audit.damaging import thread_number
from tests.audit.expected import EXPECTED
from tests.audit.rich import INFOS, write_store
from tests.audit.showing import shown, told
from tests.journal.stores import Store, message, run, take
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import StoreDamaged
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Draft, Event
from turnlog.folds.findings import Finding
from turnlog.journal.auditing import audit_store
from turnlog.journal.log import Log
from turnlog.journal.verifying import Progress


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store file that nobody has open."""
    return write_store(tmp_path_factory.mktemp("rich"))


def copied(rich: Path, folder: Path) -> Path:
    return Path(shutil.copy(rich, folder / "store.db"))


def found_unopened(path: Path) -> list[str]:
    """What the audit finds before any log has the store open, so that nothing was recovered."""
    with closing(SqliteEngine(path, SystemClock())) as engine:
        return told(audit_store(engine))


def found(log: Log) -> list[str]:
    return told(log.audit())


def verified(log: Log) -> list[str]:
    said = list(log.verify())
    assert isinstance(said[-1], Progress)
    assert said[-1].done
    return told(each for each in said if isinstance(each, Finding))


def content(path: Path, thread: str) -> list[object]:
    """All that is stored of a thread."""
    number = thread_number(thread)
    tables = {"thread": "id", "turn": "thread", "event": "thread", "chunk": "thread"}
    with closing(sqlite3.connect(path)) as db:
        return [
            db.execute(f"SELECT * FROM {table} WHERE {column} = {number} ORDER BY 1").fetchall()
            for table, column in tables.items()
        ]


def test_an_untouched_store_is_sound(rich: Path, tmp_path: Path) -> None:
    """P4: a store that nobody damaged has no findings but infos, and a repair of them does nothing."""
    path = copied(rich, tmp_path)
    assert found_unopened(path) == []
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        assert {shown(each) for each in log.audit()} == INFOS
        assert log.plan_repair(log.audit()).steps == ()
        assert verified(log) == []


def test_every_damage_has_its_expectation() -> None:
    """The tables name the same damages, at least forty."""
    assert set(DAMAGES) == set(EXPECTED)
    assert len({*DAMAGES, *WIDE, *UNOPENABLE}) >= 40


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_exactly(rich: Path, tmp_path: Path, damage: str) -> None:
    """P4: each damage is found by kind and place, and nothing else is."""
    path = copied(rich, tmp_path)
    DAMAGES[damage](path)
    assert found_unopened(path) == sorted(EXPECTED[damage].found)


def test_an_audit_changes_nothing(rich: Path, tmp_path: Path) -> None:
    """P4: an audit of a damaged store leaves every thread byte for byte as it is."""
    path = copied(rich, tmp_path)
    DAMAGES["a second end, another one"](path)
    before = [content(path, thread) for thread in ("t", "long", "open", "other")]
    assert found_unopened(path)
    assert [content(path, thread) for thread in ("t", "long", "open", "other")] == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_repaired_as_far_as_honesty_allows(rich: Path, tmp_path: Path, damage: str) -> None:
    """P3, P4: after a repair exactly what cannot be put right is left, all other threads are byte for byte as before,
    the same repair again does nothing, and whoever opens the store next finds and verifies the same."""
    path = copied(rich, tmp_path)
    DAMAGES[damage](path)
    hurt = "long" if any("long" in each for each in EXPECTED[damage].found) else "t"
    others = [thread for thread in ("t", "long", "open", "other") if thread != hurt]
    before = {thread: content(path, thread) for thread in others}
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        plan = log.plan_repair(log.audit())
        assert {step.outcome for step in log.repair(plan).steps} <= {"done"}
        assert found(log) == sorted(EXPECTED[damage].left)
        head = log.thread("other").head
        assert {step.outcome for step in log.repair(plan).steps} <= {"stale"}
        assert log.plan_repair(log.audit()).steps == ()
        assert log.thread("other").head == head
    assert {thread: content(path, thread) for thread in others} == before
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        assert found(log) == verified(log) == sorted(EXPECTED[damage].left)


@pytest.mark.parametrize("damage", WIDE)
def test_damage_of_what_all_threads_share(rich: Path, tmp_path: Path, damage: str) -> None:
    """P4: where an index is lost, that is what is told; a repair makes it again, and all there was is there."""
    path = copied(rich, tmp_path)
    before = {thread: content(path, thread) for thread in ("t", "long", "open", "other")}
    WIDE[damage](path)
    assert {each.split()[0] for each in found_unopened(path)} == {"index_differs"}
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        plan = log.plan_repair(log.audit())
        assert [step.action for step in plan.steps] == ["reindex"]
        assert [step.outcome for step in log.repair(plan).steps] == ["done"]
        assert found(log) == verified(log) == []
        assert [step.outcome for step in log.repair(plan).steps] == ["stale"]
    assert {thread: content(path, thread) for thread in before} == before


@pytest.mark.parametrize("damage", UNOPENABLE)
def test_a_store_that_cannot_be_opened_says_so(rich: Path, tmp_path: Path, damage: str) -> None:
    """P4: of a file that is no database any more nothing is told but that, and it is left as it is."""
    path = copied(rich, tmp_path)
    UNOPENABLE[damage](path)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged):
        SqliteEngine(path, SystemClock())
    assert path.read_bytes() == before


def test_a_transcript_goes_around_a_page_that_is_lost(rich: Path, tmp_path: Path) -> None:
    """P4: a page of events that cannot be read takes from a transcript what lay on it, and no more."""
    path = copied(rich, tmp_path)
    with Store("sqlite", rich.parent) as store:
        before = store.open().transcript("long", limit=2)
    DAMAGES["a page of events"](path)
    with Store("sqlite", tmp_path) as store:
        after = store.open().transcript("long", limit=2)
    lost = {message.seq for message in before.messages} - {message.seq for message in after.messages}
    assert (lost <= {11}, len(after.messages) >= len(before.messages) - 1) == (True, True)
    assert after.messages


def test_neighbours_of_damage_are_read(rich: Path, tmp_path: Path) -> None:
    """P4: a page that cannot be read hides one event; the others of its turn and all other threads are there."""
    path = copied(rich, tmp_path)
    DAMAGES["a page of events"](path)
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        events = list(log.events("long"))
        assert [event.seq for event in events] == list(range(1, 20))
        assert [event.seq for event in events if event.kind == "!"] == [11]
        assert [event.seq for event in log.events("long", turn="l1")] == list(range(8, 14))
        assert len(list(log.events("t"))) == 38


def test_a_collision_is_no_silent_winner(rich: Path, tmp_path: Path) -> None:
    """C10, P5: of two ends in the file the first stands, and the row, the trace and the transcript say that there are
    two, after a repair too."""
    path = copied(rich, tmp_path)
    DAMAGES["a second end, another one"](path)
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        plan = log.plan_repair(log.audit())
        assert {"terminal_collision"} < {each.kind for step in plan.steps for each in step.findings}
        log.repair(plan)
        view = log.turn_view("t", "a")
        assert (view.state, view.collisions) == ("completed", [39])
        assert "terminal_collision" in [
            entry.failure.reason for entry in log.timeline("t", "a").entries if entry.failure
        ]
        assert "collision" in [notice.kind for notice in log.transcript("t").notices]


def test_nobody_waits_for_lost_events(rich: Path, tmp_path: Path) -> None:
    """P4, P11: who follows, reads or writes a thread whose last events are lost is not kept waiting for them."""
    path = copied(rich, tmp_path)
    DAMAGES["a head ahead of all"](path)
    with Store("sqlite", tmp_path) as store:
        log, other = store.open(), store.open()
        turn = log.submit("t", "question").result()
        assert turn.seq == 51
        other.append_message("t", message("loose")).result()
        turn.start().result()
        turn.draft("half").result()
        assert [entry.text for entry in log.timeline("t", turn.id).entries] == ["half"]

        async def main() -> None:
            seen = await take(log.follow("t", 38), lambda frame: isinstance(frame, Draft))
            assert [frame.seq for frame in seen if isinstance(frame, Event)] == [51, 52, 53, 54]

        run(main())


def test_the_last_events_are_lost_for_who_is_there(tmp_path: Path) -> None:
    """P4, P11: so it is for who remembers the thread, and for who waits at a place that is not there any more."""
    with Store("memory", tmp_path) as store:
        log, other = store.open(), store.open()
        turn = log.submit("t", "question").result()
        turn.start().result()
        other.append_message("t", message("loose")).result()
        del store._memory.threads["t"].events[-1]
        assert turn.item(message("answer")).result() == 6
        assert [event.seq for event in other.events("t")] == [1, 2, 3, 5, 6]

        async def main() -> None:
            seen = await take(log.follow("t", 3), lambda frame: isinstance(frame, Event) and frame.seq == 6)
            assert len(seen) == 2

        run(main())
