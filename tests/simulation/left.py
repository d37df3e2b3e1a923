"""What the processes of a random mix leave: the file as it is, and what turnlog shows of it once they are gone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnlog.errors import TurnlogError
from turnlog.journal.log import Log, open_log

from ..proof.stored import Stored, read_store
from .known import HARMED, QUIET
from .plan import HurriedClock

NAME: Final = "store.db"
LIMIT: Final = 1_000


@dataclass
class View:
    """What turnlog shows of a thread: by turn the seq of the truncation that hides it, and messages that are shown."""

    title: str
    pinned: bool
    hidden_by: dict[str, int | None] = field(default_factory=dict)
    shown: Counter[str] = field(default_factory=Counter)
    hidden: Counter[str] = field(default_factory=Counter)


@dataclass
class Left:
    """What is left in `folder`. `wrong` is what was wrong with opening, repairing or reading it."""

    folder: Path
    stored: Stored
    views: dict[str, View] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def settle(folder: Path) -> Left:
    """P8: open the store, which settles what is open, and repair it; another opening and repair change nothing.

    Then everything is read.
    """
    left = Left(folder, Stored("", {}))
    _repair(folder, left)
    left.stored = read_store(folder / NAME)
    _repair(folder, left)
    if read_store(folder / NAME) != left.stored:
        left.wrong.append("P8: another recovery and repair changed something")
    with opened(folder) as log:
        _look(log, left)
    return left


def opened(folder: Path) -> Log:
    """The log, with the clock that its processes had."""
    return open_log(f"sqlite:///{folder / NAME}", clock=HurriedClock())


def _repair(folder: Path, left: Left) -> None:
    with opened(folder) as log:
        more = True
        while more:
            findings = list(log.audit())
            left.wrong += [f"the last audit found {one}" for one in findings if one.kind not in QUIET | HARMED]
            plan = log.plan_repair(findings)
            more = plan.more
            failed = [step for step in log.repair(plan).steps if step.outcome == "failed"]
            left.wrong += [f"the last repair failed: {step}" for step in failed]
            more = more and not failed
        left.wrong += [f"a repair leaves {one}" for one in log.audit() if one.severity != "info"]


def _look(log: Log, left: Left) -> None:
    for name in left.stored.threads:
        try:
            _look_at(log, name, left)
        except TurnlogError as error:
            left.wrong.append(f"{name} cannot be read: {error!r}")


def _look_at(log: Log, name: str, left: Left) -> None:
    thread = log.thread(name)
    view = left.views[name] = View(thread.title, thread.pinned)
    for row in log.turns(name, limit=LIMIT).rows:
        view.hidden_by[row.turn] = row.hidden_by
        if log.timeline(name, row.turn).turn.state != row.state:
            left.wrong.append(f"{name}/{row.turn}: the timeline tells another state than the row")
    for message in log.transcript(name, limit=LIMIT).messages:
        if message.turn is not None:
            (view.hidden if message.hidden else view.shown)[message.turn] += 1
