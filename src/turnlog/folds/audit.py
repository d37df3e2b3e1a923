"""The audit fold: a thread's events in order, and what is stored beside them, to findings.

It keeps what belongs to turns that are open where it stands, and nothing of what lies behind it: what it must know of
an earlier turn it asks of the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.kinds import KINDS, Damaged, Event, Submitted, ThreadCreated, ThreadLate, Unknown
from turnlog.events.thread_kinds import ThreadRepaired, ThreadRepairUndone, ThreadTruncated
from turnlog.folds.audit_turn import LATE, ROW, TurnAudit, TurnFacts, is_unread, payload_problem
from turnlog.folds.findings import Finding, FindingKind, finding
from turnlog.folds.states import TERMINAL, next_state
from turnlog.folds.turn import TurnView

Aside = Mapping[tuple[str, int], int]
"""What repairs have set aside: (kind of finding, first seq) -> last seq."""

UNREADABLE: Final = Damaged.kind
"""The kind of an event of which the engine can give nothing but its place."""

THREAD_KINDS: Final = frozenset(kind for kind in KINDS if kind.startswith("thread_"))


@dataclass(frozen=True)
class ThreadFacts:
    """What is known of a thread beside its events. The functions look one thing up when they are called.

    `turn` gives a turn's row as it is stored, `ended` the seq of a turn's first end before a seq, `refold` a turn's row
    as all of its events make it, `late` whether an event at a seq is one that came late to a turn. `floor` is the last
    pruned seq.
    """

    thread: str
    aside: Aside
    turn: Callable[[str], TurnFacts | None]
    ended: Callable[[str, int], int | None]
    refold: Callable[[str], TurnView | None]
    late: Callable[[str, int], bool]
    floor: int = 0


def set_aside(events: Iterable[Event]) -> dict[tuple[str, int], int]:
    """What the repairs among `events`, given in order, have set aside, unless they were undone."""
    repairs: dict[int, ThreadRepaired] = {}
    for event in events:
        if isinstance(event.body, ThreadRepaired) and event.body.seqs:
            repairs[event.seq] = event.body
        elif isinstance(event.body, ThreadRepairUndone):
            repairs.pop(event.body.repair, None)
    aside: dict[tuple[str, int], int] = {}
    for body in repairs.values():
        if body.finding == "seq_gap":
            aside[body.finding, body.seqs[0]] = body.seqs[-1]
        else:
            aside |= {(body.finding, seq): seq for seq in body.seqs}
    return aside


class ThreadAudit:
    """Audits one thread. Feed it all events in order, then ask for the `end`."""

    def __init__(self, facts: ThreadFacts) -> None:
        self._facts = facts
        self._open: dict[str, TurnAudit] = {}
        self._told: set[str] = set()
        """Turns whose rows were told to differ: bounded by the findings."""
        self._unread: dict[str, int] = {}
        """The last event of a turn that cannot be read or judged, by turn: bounded by the findings."""
        self.last = facts.floor
        self.sure = True
        """Everything so far could be read, so that the thread's row is a fold of it."""

    def event(self, event: Event) -> Iterator[Finding]:
        """Take the next event."""
        for found in self._event(event):
            if not self._is_aside(found):
                yield found

    def end(self, head: int, drafts: Iterable[tuple[str, str]]) -> Iterator[Finding]:
        """What can be told at the head, where nothing moves: `drafts` are (turn, draft) of the text still kept."""
        if head > self.last:
            yield from self._unless_aside(self._gap(self.last + 1, head))
        for turn in self._open.values():
            yield from self._still_open(turn)
        for turn_id, draft in drafts:
            row = self._facts.turn(turn_id)
            if row is not None and row.settled and turn_id not in self._open:
                detail = "text of a draft is kept although its turn has ended"
                yield self._finding("draft_left_behind", f"draft {draft}", detail, turn=turn_id, repairable=True)

    # --- one event ---------------------------------------------------------------------------------------------

    def _event(self, event: Event) -> Iterator[Finding]:
        if event.seq <= self.last:
            detail = "two records claim this place; which one was written by the journal cannot be told"
            yield self._at("seq_duplicate", event, detail)
            return
        if event.seq > self.last + 1:
            yield from self._gap(self.last + 1, event.seq - 1)
        self.last = event.seq
        yield from self._readable(event)
        if event.kind == UNREADABLE:
            for turn in self._open.values():
                turn.unread = event.seq
        elif event.turn is None:
            yield from self._of_thread(event)
        else:
            yield from self._of_turn(event, event.turn)

    def _gap(self, first: int, last: int) -> Iterator[Finding]:
        self.sure = False
        place = f"event {first}" if first == last else f"events {first} to {last}"
        yield self._finding("seq_gap", place, "what was here is not in the store any more", seq=first, until=last)

    def _readable(self, event: Event) -> Iterator[Finding]:
        body = event.body
        if isinstance(body, Damaged):
            self.sure = False
            if event.kind == UNREADABLE:
                detail = f"the store cannot read its bytes ({body.problem}); a backup may have them"
                yield self._at("unreadable", event, detail)
            else:
                yield self._at("malformed", event, f"a record of kind {event.kind} cannot be read: {body.problem}")
        elif isinstance(body, Unknown):
            self.sure = False
            detail = f"a record of kind {event.kind}, version {event.v}: a newer version may have written it"
            yield self._at("unknown_kind", event, detail)
        elif (problem := payload_problem(body)) is not None:
            yield self._at("malformed", event, f"the raw item is not what was accepted: {problem}")

    def _of_thread(self, event: Event) -> Iterator[Finding]:
        body = event.body
        if event.kind in KINDS and event.kind not in THREAD_KINDS:
            self.sure = False
            detail = "the record is of a turn whose row is not in the store; which one is not known any more"
            yield self._at("orphan", event, detail)
        elif isinstance(body, ThreadCreated) is not (event.seq == 1) and not isinstance(body, Damaged | Unknown):
            yield self._at("illegal_transition", event, "thread_created is a thread's first event, and only that")
        elif isinstance(body, ThreadLate):
            yield self._at("late_event", event, f"{body.late} that came after its turn had ended", turn=body.of)
            row = self._facts.turn(body.of)
            if row is not None and row.view is not None and event.seq not in row.view.late:
                detail = f"the row does not name the late event {event.seq}"
                yield self._finding("turn_row_differs", LATE, detail, turn=body.of, repairable=True)
        elif isinstance(body, ThreadTruncated):
            yield from self._truncation(event, body)

    def _truncation(self, event: Event, body: ThreadTruncated) -> Iterator[Finding]:
        if body.after >= event.seq:
            yield self._at("dangling", event, f"the truncation hides what is behind {body.after}, which comes after it")
        for turn in (body.turn, body.latest):
            if turn is not None and self._facts.turn(turn) is None:
                yield self._at("dangling", event, f"the truncation names turn {turn}, which is not there")

    # --- turns -------------------------------------------------------------------------------------------------

    def _of_turn(self, event: Event, turn_id: str) -> Iterator[Finding]:
        turn = self._open.get(turn_id)
        if turn is None:
            row = self._facts.turn(turn_id)
            first = None
            if row is None or row.seq_first != event.seq:
                first = self._facts.ended(turn_id, event.seq)
            if first is not None:
                yield from self._after_end(event, turn_id, first, row)
                return
            turn = self._open[turn_id] = TurnAudit(self._facts.thread, turn_id)
            if row is None:
                yield self._at("orphan", event, "the turn's row is not in the store", turn=turn_id)
        yield from self._transition(event, turn)
        state = None if turn.view is None else turn.view.state
        yield from turn.take(event)
        if is_unread(event):
            self._unread[turn_id] = event.seq
        retried = event.body.retry_of if isinstance(event.body, Submitted) else None
        if retried is not None and self._facts.turn(retried) is None:
            yield self._at("dangling", event, f"it asks turn {retried} again, which is not there")
        if event.kind in TERMINAL and (state is None or next_state(state, event.kind) is not None):
            del self._open[turn_id]
            yield from turn.orphans(event)
            yield from self._compare(turn, self._facts.turn(turn_id))

    def _transition(self, event: Event, turn: TurnAudit) -> Iterator[Finding]:
        if isinstance(event.body, Unknown):
            return
        view = turn.view
        if event.kind in THREAD_KINDS:
            yield self._at("illegal_transition", event, f"{event.kind} is no event of a turn")
        elif view is None and event.kind != Submitted.kind:
            if not turn.headless:
                turn.headless = True
                yield self._at("illegal_transition", event, f"{event.kind} before the turn was submitted")
        elif view is not None and next_state(view.state, event.kind) is None:
            yield self._at("illegal_transition", event, f"{event.kind} while the turn was {view.state}")

    def _after_end(self, event: Event, turn_id: str, first: int, row: TurnFacts | None) -> Iterator[Finding]:
        """Nothing follows the end of a turn (P5): the first end stands, and who looks is told of what follows it."""
        if event.kind in TERMINAL and not isinstance(event.body, Unknown):
            detail = f"the turn ended at {first} and again at {event.seq}; the first end stands"
            place = f"events {first} and {event.seq}"
            yield self._finding("terminal_collision", place, detail, turn=turn_id, seq=event.seq, until=event.seq)
        elif not isinstance(event.body, Unknown):
            yield self._at("illegal_transition", event, f"{event.kind} after the turn had ended at {first}")
        if is_unread(event):
            self._unread[turn_id] = event.seq
        view = self._facts.refold(turn_id)
        if view is not None and view.seq_last == event.seq:
            turn = TurnAudit(self._facts.thread, turn_id)
            turn.unread = self._unread.get(turn_id)
            if row is not None and row.readable:
                yield from self._differing(turn, row, view)

    def _compare(self, turn: TurnAudit, row: TurnFacts | None) -> Iterator[Finding]:
        view = turn.view
        if row is None or view is None or not row.readable:
            return
        if row.view is not None:
            for seq in row.view.late:
                if not self._facts.late(turn.turn, seq):
                    detail = f"the row names a late event at {seq}, where there is none"
                    yield self._finding("turn_row_differs", LATE, detail, turn=turn.turn, repairable=True)
        if row.seq_last != view.seq_last or (row.view is not None and row.view.seq_last != view.seq_last):
            view = self._facts.refold(turn.turn) or view
        yield from self._differing(turn, row, view)

    def _differing(self, turn: TurnAudit, row: TurnFacts, view: TurnView) -> Iterator[Finding]:
        if turn.turn not in self._told:
            found = list(turn.differing(row, view))
            if any(each.place == ROW for each in found):
                self._told.add(turn.turn)
            yield from found

    def _still_open(self, turn: TurnAudit) -> Iterator[Finding]:
        row, view = self._facts.turn(turn.turn), turn.view
        if row is None or not row.readable or (row.settled and row.seq_last == turn.unread):
            return
        if row.settled:
            detail = "its row says that it has ended, and no event does: it was interrupted without notice"
            if view is None:
                detail += "; none of its events says what it is, so nothing can be put in its place"
            yield self._finding("unnoticed_end", ROW, detail, turn=turn.turn, repairable=view is not None)
        elif not row.alive:
            yield self._finding("pending", ROW, "it is open and its owner is dead", turn=turn.turn, repairable=True)
            if view is not None:
                yield from turn.differing(row, view)

    # --- findings ----------------------------------------------------------------------------------------------

    def _at(self, kind: FindingKind, event: Event, detail: str, *, turn: str | None = None) -> Finding:
        place = f"event {event.seq}"
        return self._finding(kind, place, detail, turn=turn or event.turn, seq=event.seq, until=event.seq)

    def _finding(
        self,
        kind: FindingKind,
        place: str,
        detail: str,
        *,
        turn: str | None = None,
        seq: int | None = None,
        until: int | None = None,
        repairable: bool | None = None,
    ) -> Finding:
        return finding(
            kind,
            place,
            detail,
            thread=self._facts.thread,
            turn=turn,
            seq=seq,
            until=until,
            repairable=repairable,
        )

    def _unless_aside(self, found: Iterable[Finding]) -> Iterator[Finding]:
        return (each for each in found if not self._is_aside(each))

    def _is_aside(self, found: Finding) -> bool:
        if found.seq is None:
            return False
        return self._facts.aside.get((found.kind, found.seq)) == (found.until or found.seq)
