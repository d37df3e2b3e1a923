"""Bytes of a store's file changed at random: what comes of it is always said, and never a crash or an invention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from tests.audit.rich import INFOS, write_store
from tests.audit.showing import shown
from tests.audit.test_damages import content
from tests.journal.stores import Store
from turnlog.errors import StoreError, TurnlogError
from turnlog.journal.log import Log

THREADS: Final = ("t", "long", "open", "other")
PAGE: Final = 4096
PROFILES: Final = ("raw", "responses", "portable")


def a_bit(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def some_bits(data: bytearray, at: int, random: Random) -> None:
    for _ in range(20):
        a_bit(data, random.randrange(len(data)), random)


def some_bytes(data: bytearray, at: int, random: Random) -> None:
    data[at : at + 16] = random.randbytes(len(data[at : at + 16]))


def a_page_of_nothing(data: bytearray, at: int, random: Random) -> None:
    first = at // PAGE * PAGE
    data[first : first + PAGE] = random.choice([bytes(PAGE), b"\xff" * PAGE])


def two_pages(data: bytearray, at: int, random: Random) -> None:
    one, two = at // PAGE * PAGE, random.randrange(len(data)) // PAGE * PAGE
    data[one : one + PAGE], data[two : two + PAGE] = data[two : two + PAGE], data[one : one + PAGE]


def the_end(data: bytearray, at: int, random: Random) -> None:
    del data[at:]


KINDS: Final[tuple[Callable[[bytearray, int, Random], None], ...]] = (
    a_bit,
    some_bits,
    some_bytes,
    a_page_of_nothing,
    two_pages,
    the_end,
)


def seen(log: Log, thread: str) -> object:
    """All that is shown of a thread."""
    turns = [row.turn for row in log.turns(thread).rows]
    return (
        [(event.seq, event.kind, event.turn, event.data) for event in log.events(thread)],
        log.transcript(thread),
        [log.history(thread, profile) for profile in PROFILES],
        [log.timeline(thread, turn) for turn in turns],
    )


def looked_at(log: Log, thread: str) -> object:
    """The same, or the error that says why not."""
    try:
        return seen(log, thread)
    except TurnlogError as error:
        return error


class Sound(NamedTuple):
    """A store file that nobody has open and in which no turn is; what is shown of its threads, and what is stored."""

    path: Path
    seen: dict[str, object]
    stored: dict[str, list[object]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    path = write_store(tmp_path_factory.mktemp("rich"))
    with Store("sqlite", path.parent) as store:
        log = store.open()
        views = {thread: seen(log, thread) for thread in THREADS}
    return Sound(path, views, {thread: content(path, thread) for thread in THREADS})


def run_through(path: Path, before: dict[str, object], same: set[str]) -> None:
    """Open the store, read, audit, repair and verify it."""
    with Store("sqlite", path.parent) as store:
        try:
            log = store.open()
        except StoreError:
            return
        views = {thread: looked_at(log, thread) for thread in THREADS}
        found = list(log.audit())
        whole = all(each.thread is not None for each in found)
        if whole:  # SQLite finds its way in all tables, so nothing keeps a thread that nobody touched from being read
            assert {thread: views[thread] for thread in same} == {thread: before[thread] for thread in same}
            assert not [view for view in views.values() if isinstance(view, TurnlogError)]
            told = {shown(each) for each in found if each.thread in same and each.kind != "snapshot_differs"}
            assert told <= INFOS
        report = log.repair(log.plan_repair(found))
        again = log.plan_repair(log.audit())
        left = {(step.thread, step.turn) for step in report.steps if step.outcome == "failed"}
        assert {(step.thread, step.turn) for step in again.steps} <= left or report.steps[0].action == "reindex"
        list(log.verify())
        if whole:
            assert {thread: looked_at(log, thread) for thread in same} == {thread: before[thread] for thread in same}


SEEDS: Final = [
    *(pytest.param(seed, id=str(seed)) for seed in range(48)),
    *(pytest.param(seed, id=str(seed), marks=pytest.mark.long) for seed in range(48, 2_000)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_changed_at_random(sound: Sound, tmp_path: Path, seed: int) -> None:
    """P3, P4: whatever happens to the bytes of a file, errors are typed, threads that were not touched are shown as
    before, also after a repair, and a second repair has nothing to do."""
    random = Random(seed)
    data = bytearray(sound.path.read_bytes())
    random.choice(KINDS)(data, random.randrange(len(data)), random)
    path = tmp_path / "store.db"
    path.write_bytes(data)
    run_through(path, sound.seen, {thread for thread in THREADS if untouched(path, thread, sound.stored)})


def untouched(path: Path, thread: str, stored: dict[str, list[object]]) -> bool:
    """Whether the tables, read by themselves, have of a thread what they had."""
    try:
        return content(path, thread) == stored[thread]
    except Exception:
        return False
