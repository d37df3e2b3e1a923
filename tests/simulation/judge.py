"""The judge of a random mix: what the processes left, read by SQL, against all that anybody was promised or shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..crash.http.evidence import scripts_in, wrong_submissions
from ..crash.ledger import wrong_ledger
from ..proof.checker import check
from ..proof.facts import Began, Decided
from ..proof.stored import Stored, StoredThread
from .known import DONE, Known, lacking
from .left import Left
from .pages import shown_on_pages
from .plan import Scale
from .truth import copied, wrong_threads


def judge(left: Left, known: Known, scale: Scale) -> list[str]:
    """All that is wrong."""
    stored = left.stored
    on_pages, wrong_pages = shown_on_pages(stored, known)
    return [
        *known.wrong,
        *left.wrong,
        *wrong_submissions(stored),
        *check(stored, [*known.facts, *on_pages], scripts_in(stored), settled=True),
        *wrong_pages,
        *wrong_ledger(left.folder, stored),
        *_uninvited(stored, known),
        *_doubled(known),
        *_decisions(stored, known),
        *_interrupts(stored, known),
        *wrong_threads(left, known),
        *_vacuous(known, scale),
    ]


def _uninvited(stored: Stored, known: Known) -> Iterator[str]:
    """P6: what was submitted is what somebody asked for, under the key that it was asked with."""
    asked = {(action.thread, action.content, action.key) for action in known.asked.values()}
    for thread in stored.threads.values():
        for turn in thread.turns:
            event = thread.of(turn)[0]
            first, of_source = event.fields, event.seq <= copied(thread)
            if of_source or first.get("retry_of") is not None:
                continue
            if (thread.name, first["content"], first.get("key")) not in asked:
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
