"""`decide` alone: which writes of a batch are accepted, without any store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from turnlog.engines.decide import Decision, Facts, decide, needs
from turnlog.engines.protocol import (
    Done,
    Duplicate,
    Fenced,
    KeyConflict,
    Moved,
    Outcome,
    OwnerAlive,
    Phase,
    TurnRow,
    Write,
)
from turnlog.testing import writes

ALIVE = {"alive"}


def _row(
    *, owner: str | None = "alive", phase: Phase = Phase.STARTED, fence: int = 3, key: str | None = "k"
) -> TurnRow:
    row = writes.submission("T", "t1", key=key).turn_row
    assert row is not None
    return replace(row, owner=owner, fence=fence, phase=phase)


def _facts(*rows: TurnRow, head: int = 5, rev: int = 2) -> Facts:
    facts = Facts(alive=lambda owner: owner in ALIVE)
    facts.threads["T"] = replace(writes.thread_row("T"), head=head, rev=rev)
    for row in rows:
        facts.learn(row)
    return facts


def _decide(facts: Facts, *batch: Write) -> Decision:
    return decide(batch, facts)


def _outcome(facts: Facts, write: Write) -> Outcome:
    (outcome,) = _decide(facts, write).outcomes
    return outcome


_CLAIMS = [
    (_row(owner=None, phase=Phase.SUBMITTED), None, Done(head=5, rev=2, fence=4)),
    (_row(owner="me"), "other", Done(head=5, rev=2, fence=4)),
    (_row(owner="dead"), "dead", Done(head=5, rev=2, fence=4)),
    (_row(owner="dead"), "other", Fenced(fence=3)),
    (_row(owner="alive"), "alive", OwnerAlive(owner="alive")),
    (_row(owner="alive"), "other", OwnerAlive(owner="alive")),
    (_row(owner="alive", phase=Phase.SUBMITTED), "alive", Done(head=5, rev=2, fence=4)),
    (_row(owner="alive", phase=Phase.SUBMITTED), "other", OwnerAlive(owner="alive")),
    (_row(owner="me", phase=Phase.SETTLED), "me", Fenced(fence=3)),
]


@pytest.mark.parametrize(("row", "expected", "outcome"), _CLAIMS)
def test_a_claim_is_decided_by_owner_phase_and_expectation(
    row: TurnRow, expected: str | None, outcome: Outcome
) -> None:
    """P7: none, own, dead as expected, or alive and only submitted: nothing else is taken over."""
    assert _outcome(_facts(row), writes.claim(row, "me", expected=expected)) == outcome


def test_whether_an_owner_lives_is_asked_only_when_it_matters() -> None:
    """P11: submissions, appends and drafts ask about no owner, so that they probe no locks."""
    row = _row()
    asked: list[str] = []
    facts = _noting(_facts(row), asked)
    _decide(
        facts,
        writes.append(row, base=5),
        writes.draft(row, "d", b"x", after=6),
        writes.submission("T", "t2", base=6),
    )
    assert asked == []
    _decide(facts, writes.claim(row, "me", expected="alive"))
    assert asked == ["alive"]


def _noting(facts: Facts, asked: list[str]) -> Facts:
    """The same facts, noting which owners were asked about."""

    def alive(owner: str) -> bool:
        asked.append(owner)
        return owner in ALIVE

    facts.alive = alive
    return facts


def test_a_known_submission_is_told_before_anything_else() -> None:
    """P6: a duplicate is one also when its base is stale."""
    row = _row()
    assert _outcome(_facts(row), writes.submission("T", "t9", base=0, key="k")) == Duplicate(row=row)
    conflict = writes.submission("T", "t9", base=0, key="k", digest="other")
    assert _outcome(_facts(row), conflict) == KeyConflict(row=row, digest="other")


def test_a_key_is_stronger_than_a_turn_id() -> None:
    """P6: a submission whose key names one turn and whose id another is the key's."""
    keyed, named = _row(), replace(_row(key=None), turn="t2")
    assert _outcome(_facts(keyed, named), writes.submission("T", "t2", key="k")) == Duplicate(row=keyed)


def test_a_fence_is_checked_before_the_base() -> None:
    """P7: a fenced writer is told so, rather than to try again."""
    row = _row()
    assert _outcome(_facts(row), writes.append(row, base=0, fence=2)) == Fenced(fence=3)
    assert _outcome(_facts(row), writes.append(row, base=0)) == Moved(head=5)


def test_a_refused_write_decides_nothing() -> None:
    """Promise 2: it leaves no row, event or chunk, and what follows is decided as if it were not there."""
    row = _row()
    decision = _decide(_facts(row), writes.append(row, base=9), writes.append(row, base=5))
    assert decision.outcomes == [Moved(head=5), Done(head=6, rev=2, fence=3)]
    assert [event.seq for _, event in decision.events] == [6]


def test_settling_fences_the_rest_of_its_batch() -> None:
    """P5: of two endings in one batch the first one wins."""
    row = _row()
    decision = _decide(_facts(row), writes.settle(row, base=5), writes.settle(row, base=6))
    assert decision.outcomes == [Done(head=6, rev=2, fence=3), Fenced(fence=3)]
    assert decision.turns["T", "t1"].phase is Phase.SETTLED


def test_a_draft_is_placed_by_the_revision_of_its_write() -> None:
    """Promise 8: the chunk that opens a draft gets the write's revision as its place, later ones keep it."""
    row = _row()
    decision = _decide(
        _facts(row), writes.draft(row, "d", b"a", after=5), writes.draft(row, "d", b"b", after=5, offset=1, rev=3)
    )
    assert [(chunk.rev, chunk.chunk_rev) for chunk in decision.chunks["T", "t1"]] == [(3, 3), (3, 4)]


def test_chunks_dropped_in_their_own_batch_are_not_stored() -> None:
    """P9: the drop is kept for what was stored before, and the chunks of the batch are gone."""
    row = _row()
    drop = writes.append(row, base=5, drop=("d",))
    decision = _decide(_facts(row), writes.draft(row, "d", b"a", after=5), writes.draft(row, "e", b"b", after=5), drop)
    assert [chunk.draft for chunk in decision.chunks["T", "t1"]] == ["e"]
    assert decision.drops == {("T", "t1"): {"d"}}


def test_needs_name_what_a_batch_is_decided_by() -> None:
    """Threads of all writes, their turns, and keys and retried turns of submissions."""
    found = needs([writes.submission("T", "t1", key="k", retry_of="t0"), writes.note("U", base=0)])
    assert found.threads == {"T", "U"}
    assert [set(pairs) for pairs in (found.turns, found.keys, found.retries)] == [
        {("T", text)} for text in ("t1", "k", "t0")
    ]
