"""The audit as a fold: what it asks for, what it keeps, and what it says of single events."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from turnlog.events.codec import content_digest, encode_body
from turnlog.events.kinds import (
    Completed,
    Event,
    Interrupted,
    Item,
    KnownBody,
    Step,
    Submitted,
    ThreadCreated,
    WorkerStarted,
)
from turnlog.events.thread_kinds import ThreadRepaired, ThreadRepairUndone
from turnlog.folds.audit import ThreadAudit, ThreadFacts, set_aside
from turnlog.folds.audit_turn import TurnFacts, phase_number
from turnlog.folds.findings import Finding
from turnlog.folds.repair import plan_repair
from turnlog.folds.turn import TurnFold, TurnView, fold_turn


def never(*asked: Any) -> NoReturn:
    raise AssertionError(f"asked for {asked}")


class Told:
    """Events one after the other, with the rows that they make."""

    def __init__(self) -> None:
        self.seq = 0
        self.views: dict[str, TurnView] = {}

    def event(self, body: KnownBody, turn: str | None = None) -> Event:
        self.seq += 1
        data = encode_body(body)
        told = Event(thread="t", seq=self.seq, turn=turn, at=self.seq, kind=body.kind, body=body, data=data)
        if turn is not None:
            known = self.views.get(turn)
            fold = fold_turn(None if known is None else TurnFold(known), told)
            assert fold is not None
            self.views[turn] = fold.view
        return told

    def turn(self, name: str) -> Iterator[Event]:
        text = f"question {name}"
        yield self.event(Submitted(content=text, digest=content_digest(text, [])), name)
        yield self.event(WorkerStarted(owner="o", fence=1), name)
        yield self.event(Step(id="s", step="tool", status="succeeded"), name)
        yield self.event(Completed(), name)

    def row(self, name: str) -> TurnFacts | None:
        if name not in self.views:
            return None
        view = self.views[name]
        return TurnFacts(
            turn=name,
            key=None,
            digest=content_digest(f"question {name}", []),
            retry_of=None,
            phase=phase_number(view),
            alive=False,
            seq_first=view.seq_first,
            seq_last=view.seq_last,
            view=view,
        )

    def facts(self) -> ThreadFacts:
        return ThreadFacts(thread="t", aside={}, turn=self.row, ended=never, refold=never, late=never)


def test_of_a_sound_thread_only_rows_are_asked_for() -> None:
    """P11: as long as nothing is wrong, no earlier event of the thread is looked at again."""
    told = Told()
    audit = ThreadAudit(told.facts())
    found = list(audit.event(told.event(ThreadCreated())))
    for number in range(20):
        for event in told.turn(f"turn {number}"):
            found += audit.event(event)
            told.views = {event.turn or "": told.views[event.turn or ""]}
    assert found == []
    assert list(audit.end(told.seq, [])) == []


def peak(turns: int) -> int:
    told = Told()
    audit = ThreadAudit(told.facts())
    tracemalloc.start()
    list(audit.event(told.event(ThreadCreated())))
    for number in range(turns):
        for event in told.turn(f"turn {number}"):
            list(audit.event(event))
            told.views = {event.turn or "": told.views[event.turn or ""]}
    kept = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return kept


def test_memory_is_bounded_by_what_is_open() -> None:
    """P11: an audit of ten times as many turns keeps no more."""
    peak(200)  # what is made once
    bytes_a_turn = 32  # less than the name of one: nothing of a turn is kept
    assert peak(2_000) < peak(200) + 1_800 * bytes_a_turn


def calls(end: KnownBody, *between: KnownBody) -> list[tuple[str, str, bool]]:
    told = Told()
    audit = ThreadAudit(told.facts())
    bodies: list[tuple[KnownBody, str | None]] = [
        (ThreadCreated(), None),
        (Submitted(content="question x", digest=content_digest("question x", [])), "x"),
        (WorkerStarted(owner="o", fence=1), "x"),
        (Item(type="function_call", call_id="c", raw=b"{}"), "x"),
        *((body, "x") for body in between),
        (end, "x"),
    ]
    found = [each for body, turn in bodies for each in audit.event(told.event(body, turn))]
    return [(each.kind, each.severity, each.repairable) for each in found]


@pytest.mark.parametrize(
    ("end", "between", "found"),
    [
        (Completed(), [Item(type="function_call_output", call_id="c", raw=b"{}")], []),
        (Completed(), [Step(id="c", status="failed")], []),
        (Completed(), [], [("orphan_call", "warning", True)]),
        (Interrupted(reason="failed"), [], [("orphan_call", "warning", True)]),
        (Interrupted(reason="failed", unknown_calls=["c"]), [], [("orphan_call", "info", False)]),
    ],
)
def test_calls_without_an_outcome(end: KnownBody, between: list[KnownBody], found: list[Any]) -> None:
    """C26, P4: a call without an output or an ended step is a finding, an info where the turn's end names it."""
    assert calls(end, *between) == found


def test_outputs_without_a_call() -> None:
    """C27, P4: an output whose call is not there is a finding."""
    found = calls(Completed(), Item(type="function_call_output", call_id="d", raw=b"{}"), Step(id="c", status="failed"))
    assert found == [("orphan_output", "warning", True)]


def test_a_repair_that_was_undone_sets_nothing_aside() -> None:
    """P4: what is set aside are the events of repairs that hold, of a gap all that it is."""
    told = Told()
    events = [
        told.event(ThreadRepaired(finding="malformed", seqs=[3, 9])),
        told.event(ThreadRepaired(finding="seq_gap", seqs=[4, 7])),
        told.event(ThreadRepaired(finding="dangling", seqs=[5])),
        told.event(ThreadRepairUndone(repair=3)),
    ]
    assert set_aside(events) == {("malformed", 3): 3, ("malformed", 9): 9, ("seq_gap", 4): 7}


def found_at(kind: Any, seq: int, *, repairable: bool = True) -> Finding:
    place = f"event {seq}"
    return Finding(
        kind=kind, severity="error", thread="t", turn="x", seq=seq, place=place, repairable=repairable, detail=""
    )


def test_a_plan_is_the_same_of_the_same_findings() -> None:
    """P4: a plan depends on what was found and not on its order; what cannot be repaired is left, and told."""
    findings = [found_at("malformed", 3), found_at("malformed", 5), found_at("turn_row_differs", 1)]
    plan, again = plan_repair(findings), plan_repair([*findings[:2], *findings])
    assert plan == again
    assert [(step.action, len(step.findings)) for step in plan.steps] == [("set_aside", 2), ("rebuild_turn", 1)]
    other = plan_repair([*findings, found_at("unknown_kind", 9, repairable=False)])
    assert (other.id, [each.seq for each in other.left]) == (plan.id, [9])
    assert plan_repair(findings[:2]).id != plan.id


def test_nothing_is_concluded_from_what_cannot_be_read() -> None:
    """P4: where something cannot be read, what seems to be missing may be there, and is left alone."""
    unread = found_at("unreadable", 9, repairable=False)
    missing, torn = found_at("illegal_transition", 10), found_at("malformed", 3)
    assert [step.findings for step in plan_repair([missing, torn]).steps] == [(missing,), (torn,)]
    for findings in ([unread, missing, torn], [torn, missing, unread]):
        plan = plan_repair(findings)
        assert [step.findings for step in plan.steps] == [(torn,)]
        assert {each.kind for each in plan.left} == {"unreadable", "illegal_transition"}
    of_store = Finding(kind="unreadable", severity="error", place="store", detail="")
    assert [step.findings for step in plan_repair([missing, torn, of_store]).steps] == [(torn,)]


def test_indexes_come_first_and_alone() -> None:
    """P4: where rows are not found by what they are found by, nothing else is repaired before that is."""
    index = Finding(kind="index_differs", severity="error", place="store", repairable=True, detail="")
    plan = plan_repair([found_at("seq_gap", 3), index, found_at("head", 1)])
    assert ([step.action for step in plan.steps], plan.more) == (["reindex"], True)
    assert ([step.action for step in plan_repair([index]).steps], plan_repair([index]).more) == (["reindex"], False)
