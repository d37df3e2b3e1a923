"""Traps: what happens when a place is reached for the k-th time."""

from __future__ import annotations

import threading

import pytest

from turnlog.testing.traps import Place, Traps, raising


def reached(traps: Traps, place: str, times: int, part: str = "") -> list[bool]:
    """Whether each of so many reaches raised."""
    results = []
    for _ in range(times):
        try:
            traps.reach(place, part)
        except RuntimeError:
            results.append(True)
        else:
            results.append(False)
    return results


def test_a_trap_acts_once_at_the_kth_reach() -> None:
    """Only the third reach from the time of setting raises."""
    traps = Traps()
    traps.reach("sync.before")
    trap = traps.set("sync.before", raising(RuntimeError), k=3)
    assert reached(traps, "sync.before", 5) == [False, False, True, False, False]
    assert trap.fired == 1
    assert traps.reached("sync.before") == 6


def test_a_lasting_trap_acts_until_healed() -> None:
    """From the k-th reach on every one raises, and none after `heal`."""
    traps = Traps()
    trap = traps.set("sync.before", raising(RuntimeError), k=2, forever=True)
    assert reached(traps, "sync.before", 4) == [False, True, True, True]
    traps.heal()
    assert reached(traps, "sync.before", 2) == [False, False]
    assert trap.fired == 3


def test_a_trap_counts_only_its_places_and_its_part() -> None:
    """Reaches of other places and for other parts neither count nor act."""
    traps = Traps()
    traps.set(("write.before", "sync.before"), raising(RuntimeError), k=2, part="wal")
    assert reached(traps, "write.before", 3, "db") == [False] * 3
    assert reached(traps, "sync.after", 3, "wal") == [False] * 3
    assert reached(traps, "write.before", 1, "wal") == [False]
    assert reached(traps, "sync.before", 1, "wal") == [True]


def test_an_action_is_told_its_place() -> None:
    """The action gets the place and the part that was reached."""
    traps = Traps()
    seen: list[Place] = []
    traps.set("write.after", seen.append, part="wal")
    traps.reach("write.after", "wal")
    assert seen == [Place("write.after", "wal")]


def test_a_hold_blocks_until_released() -> None:
    """The one that reaches the place stays there while held, and others pass."""
    traps = Traps()
    passed = threading.Event()

    def work() -> None:
        traps.reach("commit.before")
        passed.set()

    with traps.hold("commit.before") as hold:
        thread = threading.Thread(target=work)
        thread.start()
        hold.wait_held()
        traps.reach("commit.before")
        assert not passed.is_set()
    assert passed.wait(10)
    thread.join()


def test_waiting_for_nobody_ends() -> None:
    """`wait_held` raises when nobody reaches the place."""
    with pytest.raises(TimeoutError):
        Traps().hold("commit.before").wait_held(0.01)


def test_healing_releases_who_is_held() -> None:
    """`heal` lets a held thread go on."""
    traps = Traps()
    hold = traps.hold("commit.before")
    thread = threading.Thread(target=traps.reach, args=("commit.before",))
    thread.start()
    hold.wait_held()
    traps.heal()
    thread.join(10)
    assert not thread.is_alive()


def test_k_counts_from_one() -> None:
    """A trap for the zeroth reach would never act, so it is refused."""
    with pytest.raises(ValueError, match="counts from 1"):
        Traps().set("sync.before", raising(RuntimeError), k=0)
