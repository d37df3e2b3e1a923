"""The judge of a random mix: what the processes left, read by SQL, against all that anybody was promised or shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnlog.journal.log import open_log

from ..crash.http.evidence import scripts_in, wrong_submissions
from ..crash.ledger import wrong_ledger
from ..proof.checker import check
from ..proof.facts import Began, Decided
from ..proof.stored import Stored, StoredThread, read_store
from .known import DONE, Known, lacking
from .plan import HurriedClock, Scale

NAME: Final = "store.db"


@dataclass(frozen=True)
class Left:
    """What is left in `folder` when all processes have ended and one more has opened the store. `wrong` is what that
    one did wrong."""

    folder: Path
    stored: Stored
    wrong: list[str]


def settle(folder: Path) -> Left:
    """P8: open the store, which settles what is open; a second opening changes nothing."""
    wrong = list[str]()
    open_log(f"sqlite:///{folder / NAME}", clock=HurriedClock()).close()
    stored = read_store(folder / NAME)
    open_log(f"sqlite:///{folder / NAME}", clock=HurriedClock()).close()
    if read_store(folder / NAME) != stored:
        wrong.append("P8: another recovery changed something")
    return Left(folder, stored, wrong)


def judge(left: Left, known: Known, scale: Scale) -> list[str]:
    """All that is wrong."""
    stored = left.stored
    return [
        *known.wrong,
        *left.wrong,
        *wrong_submissions(stored),
        *check(stored, known.facts, scripts_in(stored), settled=True),
        *wrong_ledger(left.folder, stored),
        *_uninvited(stored, known),
        *_doubled(known),
        *_decisions(stored, known),
        *_interrupts(stored, known),
        *_vacuous(known, scale),
    ]


def _uninvited(stored: Stored, known: Known) -> Iterator[str]:
    """P6: what was submitted is what somebody asked for, under the key that it was asked with."""
    asked = {(action.thread, action.content, action.key) for action in known.asked.values()}
    for thread in stored.threads.values():
        for turn in thread.turns:
            first = thread.of(turn)[0].fields
            if first.get("retry_of") is None and (thread.name, first["content"], first.get("key")) not in asked:
                yield f"{thread.name}/{turn}: nobody submitted {first['content']!r} as {first.get('key')}"


def _doubled(known: Known) -> Iterator[str]:
    """C03: no turn is run twice, by whomever."""
    runs = Counter((fact.thread, fact.turn) for fact in known.facts if isinstance(fact, Began))
    yield from (f"C03: {turn} was run {count} times" for turn, count in runs.items() if count > 1)


def _decisions(stored: Stored, known: Known) -> Iterator[str]:
    """One decision wins, and each of those who were told that theirs did is that one."""
    for thread in stored.threads.values():
        yield from _second_decisions(thread)
    won = {
        (fact.thread, fact.turn, fact.approval, str(fact.value)) for fact in known.facts if isinstance(fact, Decided)
    }
    twice = Counter(decision[:3] for decision in won)
    yield from (f"{approval} was decided {count} times" for approval, count in twice.items() if count > 1)


def _second_decisions(thread: StoredThread) -> Iterator[str]:
    decided = Counter[tuple[str, str]]()
    for event in thread.events:
        if event.kind == "requested" and event.fields["what"] == "decide":
            decided[str(event.turn), event.fields["approval"]] += 1
    yield from (f"{thread.name}: {one} is decided {count} times" for one, count in decided.items() if count > 1)


def _interrupts(stored: Stored, known: Known) -> Iterator[str]:
    """Who was told that a turn is asked to end can read that it was."""
    for deed in known.deeds:
        if (deed.action.what, deed.outcome) == ("interrupt", DONE):
            events = stored.threads[deed.action.thread].of(deed.action.turn)
            if not any(event.kind == "requested" and event.fields["what"] == "interrupt" for event in events):
                yield f"nobody asked for what was acknowledged: {deed}"


def _vacuous(known: Known, scale: Scale) -> Iterator[str]:
    """A run in which something did not happen proves nothing about it."""
    yield from (f"too little: {known.counts[name]} of {name}" for name in lacking(known, scale.least))
