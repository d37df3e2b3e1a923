"""Processes that recover what another one left, and die of it, or are two at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from turnlog.events.kinds import Interrupted
from turnlog.journal.log import Log
from turnlog.limits import RECOVERY_TRIES_MAX

from ..power.recording import open_log
from .test_processes import child

LEAVING = """
def begin(log, thread, turn):
    log.submit(thread, "question", turn=turn).result().start().result()

log = opened(sys.argv[1])
begin(log, "A", "a")
begin(log, "P", "poison")
log.submit("P", "waits", turn="behind", when_busy="queue").result()
begin(log, "Z", "z")
report("running")
signal.pause()
"""

DYING_OF_IT = """
from turnlog.testing.faults import FaultEngine

class Deadly(FaultEngine):
    def read(self, thread, **asked):
        if asked.get("turn") == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(thread, **asked)

clock = SystemClock()
log = Log(Deadly(SqliteEngine(Path(sys.argv[1]) / "store.db", clock)), clock=clock)
report([found.turn for found in log.recovered])
log.close()
"""

DEATHS_MOST = 2 * RECOVERY_TRIES_MAX


def leave(folder: Path, script: str = LEAVING, lines: int = 1) -> None:
    with child(folder, script) as leaving:
        leaving.wait_for(lambda seen: len(seen) == lines)
        leaving.kill()


def ends(log: Log, thread: str) -> dict[str | None, tuple[str, str | None]]:
    """Reason and detail of each end, which every turn has once."""
    found = [(event.turn, event.body) for event in log.events(thread) if isinstance(event.body, Interrupted)]
    assert len({turn for turn, _ in found}) == len(found)
    return {turn: (body.reason, body.detail) for turn, body in found}


def test_a_turn_that_kills_whoever_reads_it_is_sealed(tmp_path: Path) -> None:
    """P8: after a bound of deaths between claim and end it is ended unread; the turns beside it are ended as ever."""
    leave(tmp_path)
    deaths = 0
    while deaths < DEATHS_MOST:
        with child(tmp_path, DYING_OF_IT) as dying:
            if dying.reap() == 0:
                break
        deaths += 1
    assert deaths == RECOVERY_TRIES_MAX
    with open_log(tmp_path) as log:
        assert log.recovered == []
        reason, detail = ends(log, "P").pop("poison")
        assert (reason, detail) == (
            "recovery_exhausted",
            f"its recovery was begun {RECOVERY_TRIES_MAX} times and never came to its end",
        )
        assert ends(log, "P")["behind"] == ("not_started", None)
        assert (ends(log, "A")["a"], ends(log, "Z")["z"]) == (("process_died", None), ("process_died", None))
        assert [event.turn for event in log.events("P") if event.kind == "interrupted"] == ["poison", "behind"]


KILLED_BETWEEN = """
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import kill_self

clock = SystemClock()
engine = FaultEngine(SqliteEngine(Path(sys.argv[1]) / "store.db", clock))
engine.traps.set("commit.before", kill_self, k=2)
Log(engine, clock=clock)
"""


def test_death_between_claim_and_end_by_chance(tmp_path: Path) -> None:
    """P2, P8: killed as often as may be chance between claim and end, a turn is read and ended as ever, once."""
    leave(tmp_path, THREE_DRAFTS)
    for _ in range(RECOVERY_TRIES_MAX):
        with child(tmp_path, KILLED_BETWEEN) as dying:
            assert dying.reap() == -signal.SIGKILL
    with open_log(tmp_path) as log:
        for n in range(3):
            assert [reason for reason, _ in ends(log, f"T{n}").values()] == ["process_died"]
            assert [message.text for message in log.transcript(f"T{n}").messages] == ["hello", "so far"]


THREE_DRAFTS = """
log = opened(sys.argv[1])
for n in range(3):
    turn = log.submit(f"T{n}", "hello").result()
    turn.start().result()
    turn.draft("so far").result()
report("running")
signal.pause()
"""

SURVIVING = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
log = opened(sys.argv[1])
report("open")
signal.sigwait([signal.SIGUSR1])
report([found.turn for found in log.recover()])
signal.sigwait([signal.SIGUSR1])
log.close()
"""

TEN_TURNS = """
log = opened(sys.argv[1])
for n in range(10):
    log.submit(f"T{n}", "hello", turn=f"t{n}").result().start().result()
report("running")
signal.pause()
"""


def both(folder: Path, act: Callable[[], None]) -> list[list[str]]:
    """What each of two surviving processes settled after `act`, told to look at one instant."""
    folders = [folder / name for name in ("one", "two")]
    for one in folders:
        one.mkdir()
    with (
        child(folders[0], SURVIVING, store=folder) as first,
        child(folders[1], SURVIVING, store=folder) as second,
    ):
        survivors = (first, second)
        for survivor in survivors:
            survivor.wait_for(lambda lines: len(lines) == 1)
        act()
        for survivor in survivors:
            os.kill(survivor.pid, signal.SIGUSR1)
        found = [survivor.wait_for(lambda lines: len(lines) == 2)[1] for survivor in survivors]
        for survivor in survivors:
            os.kill(survivor.pid, signal.SIGUSR1)
            assert survivor.reap() == 0
        return found


def test_two_survivors_settle_once(tmp_path: Path) -> None:
    """P8, C06: two processes that recover at one instant end each turn of the dead one once, between them."""
    with child(tmp_path, TEN_TURNS) as dying:
        dying.wait_for(lambda lines: lines == ["running"])
        found = both(tmp_path, dying.kill)
    assert sorted(turn for turns in found for turn in turns) == [f"t{n}" for n in range(10)]
    with open_log(tmp_path) as log:
        assert log.recovered == []
        assert [ends(log, f"T{n}") for n in range(10)] == [{f"t{n}": ("process_died", None)} for n in range(10)]
