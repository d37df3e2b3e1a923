"""The same damage where a store is memory: what can be damaged there is found and repaired as in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.audit.rich import INFOS, Numbers, fill
from tests.audit.showing import told
from tests.journal.stores import Store, eventually
from turnlog.engines.memory.store import StoredThread
from turnlog.engines.protocol import Chunk, Phase, Record
from turnlog.events.kinds import VERSION

Damage = Callable[[StoredThread], None]


def change(seq: int, **fields: object) -> Damage:
    def damage(thread: StoredThread) -> None:
        at = next(at for at, event in enumerate(thread.events) if event.seq == seq)
        thread.events[at] = replace(thread.events[at], **fields)

    return damage


def remove(seq: int) -> Damage:
    def damage(thread: StoredThread) -> None:
        thread.events[:] = [event for event in thread.events if event.seq != seq]

    return damage


def append(turn: str, kind: str, body: bytes) -> Damage:
    def damage(thread: StoredThread) -> None:
        seq, at = thread.row.head + 1, thread.row.updated_at
        thread.events.append(Record(seq=seq, turn=turn, at=at, v=VERSION, kind=kind, body=body))
        thread.row = replace(thread.row, head=seq)

    return damage


def row(turn: str, **fields: object) -> Damage:
    def damage(thread: StoredThread) -> None:
        thread.turns[turn] = replace(thread.turns[turn], **fields)

    return damage


def thread_row(**fields: object) -> Damage:
    def damage(thread: StoredThread) -> None:
        thread.row = replace(thread.row, **fields)

    return damage


def leave(thread: StoredThread) -> None:
    thread.chunks.append(Chunk(turn="z", draft="0/~0/text/0", after=8, rev=1, chunk_rev=1, offset=0, text=b"left"))


DAMAGES: dict[str, tuple[Damage, list[str], list[str]]] = {
    "a byte of a body": (change(37, body=b"\xff"), ["malformed t/z event 37 *"], []),
    "a kind from the future": (change(37, kind="dream"), ["unknown_kind t/z event 37"], ["unknown_kind t/z event 37"]),
    "an event is gone": (remove(37), ["seq_gap t event 37 *", "turn_row_differs t/z turn row *"], []),
    "the last event is gone": (remove(38), ["seq_gap t event 38 *", "unnoticed_end t/z turn row *"], []),
    "a second end": (
        append("z", "interrupted", b'{"reason":"failed"}'),
        ["terminal_collision t/z events 38 and 39 *", "turn_row_differs t/z turn row *"],
        [],
    ),
    "an event after the end": (
        append("z", "step", b'{"id":"s"}'),
        ["illegal_transition t/z event 39 *", "turn_row_differs t/z turn row *"],
        [],
    ),
    "the fold of a turn is no JSON": (row("z", fold=b"\0"), ["turn_row_differs t/z turn row *"], []),
    "a settled turn called submitted": (row("z", phase=Phase.SUBMITTED), ["turn_row_differs t/z turn row *"], []),
    "another key": (
        row("z", key="q"),
        ["turn_row_differs t/z turn row: names"],
        ["turn_row_differs t/z turn row: names"],
    ),
    "the fold of a thread is no JSON": (thread_row(fold=b"\0"), ["thread_row_differs t thread row *"], []),
    "a head ahead of all": (thread_row(head=40), ["seq_gap t events 39 to 40 *"], []),
    "text left by a settled turn": (leave, ["draft_left_behind t/z draft 0/~0/text/0 *"], []),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store("memory", tmp_path) as opened:
        log = opened.open(ids=Numbers())
        fill(log)
        eventually(lambda: opened.faults(log).snapshot("t", "c") is not None)
        log.close()
        yield opened


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_memory(store: Store, damage: str) -> None:
    """P3, P4: what is damaged in memory is found exactly, and repaired as far as honesty allows."""
    damaging, found, left = DAMAGES[damage]
    damaging(store._memory.threads["t"])
    log = store.open()
    settled = damage == "a settled turn called submitted"  # opening has made that row again
    assert told(log.audit()) == ([] if settled else sorted(found))
    plan = log.plan_repair(log.audit())
    assert {step.outcome for step in log.repair(plan).steps} <= {"done"}
    assert told(log.audit()) == sorted(left)
    assert {step.outcome for step in log.repair(plan).steps} <= {"stale"}


def test_an_untouched_store_in_memory_is_sound(store: Store) -> None:
    """P4: nothing is found in a store that nobody damaged."""
    assert told(store.open().audit()) == []
    assert INFOS
