"""What the audit keeps of one turn while its events pass by, and how it is compared with the turn's row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from turnlog.errors import RecordDamaged
from turnlog.events.codec import content_digest, decode_json
from turnlog.events.kinds import AnyBody, Damaged, Event, Interrupted, Item, Step, Submitted, ThreadItem, Unknown
from turnlog.folds.findings import Finding, finding
from turnlog.folds.states import STARTED, TERMINAL
from turnlog.folds.turn import TurnFold, TurnView, fold_turn, is_call, is_call_output

ROW: Final = "turn row"
NAMES: Final = "turn row: names"
LATE: Final = "turn row: late"

_UNSETTLED: Final = (None, "running", "waiting")
_ALWAYS: Final = ("seq_first", "seq_last")
"""Fields of a row that hold whatever cannot be read of the turn's events."""


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A turn's row as it is stored. `phase` is 0 submitted, 1 started, 2 settled; `alive` tells of an open turn whether
    its owner is; `view` is None where the stored fold cannot be read. Of one that is not `readable` nothing else
    holds than that it is there."""

    turn: str
    key: str | None
    digest: str
    retry_of: str | None
    phase: int
    alive: bool
    seq_first: int
    seq_last: int
    view: TurnView | None
    readable: bool = True

    @property
    def settled(self) -> bool:
        """Whether the row says that the turn has ended."""
        return self.phase == _SETTLED


_SETTLED: Final = 2


def is_as_submitted(body: Submitted) -> bool:
    """Whether a message is the one that its digest was made of."""
    return content_digest(body.content, body.attachments) == body.digest


def is_unread(event: Event) -> bool:
    """Whether nothing can be concluded from what an event says, so that the turn's row may know better."""
    body = event.body
    if isinstance(body, Submitted):
        return not is_as_submitted(body)
    return isinstance(body, Damaged | Unknown) or payload_problem(body) is not None


def payload_problem(body: AnyBody) -> str | None:
    """Why a raw item is not the one JSON object that was accepted; None when it is."""
    if not isinstance(body, Item | ThreadItem):
        return None
    try:
        body.raw.decode("utf-8")
        decode_json(body.raw, dict[str, Any])
    except (UnicodeDecodeError, RecordDamaged) as error:
        return str(error)
    return None


def phase_number(view: TurnView) -> int:
    """The phase of a row that a view has."""
    if view.state in TERMINAL:
        return _SETTLED
    return int(view.state in STARTED)


@dataclass(slots=True, eq=False)
class TurnAudit:
    """One turn, from its first event to its end. `calls` are those without an outcome so far, with their seqs."""

    thread: str
    turn: str
    fold: TurnFold | None = None
    submitted: Submitted | None = None
    headless: bool = False
    """It has events before its submission, which is told once."""
    unread: int | None = None
    """The seq of the last event of it whose meaning is not known: what the row says of it cannot be checked."""
    calls: dict[str, int] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    @property
    def view(self) -> TurnView | None:
        """The turn's row as its events make it."""
        return None if self.fold is None else self.fold.view

    def take(self, event: Event) -> Iterator[Finding]:
        """Fold one event, and tell what is wrong in itself."""
        body = event.body
        self.fold = fold_turn(self.fold, event)
        if is_unread(event):
            self.unread = event.seq
        if isinstance(body, Submitted):
            self.submitted = self.submitted or body
            yield from self._digest(event, body)
        elif isinstance(body, Item) and body.purpose is None:
            yield from self._item(event, body)
        elif isinstance(body, Step):
            self._step(body, event.seq)

    def _digest(self, event: Event, body: Submitted) -> Iterator[Finding]:
        if not is_as_submitted(body):
            yield finding(
                "digest_differs",
                f"event {event.seq}",
                "the message is not the one that was submitted: its digest is another",
                thread=self.thread,
                turn=self.turn,
                seq=event.seq,
            )

    def _item(self, event: Event, item: Item) -> Iterator[Finding]:
        call = item.call_id or item.id
        if is_call_output(item.type):
            self.calls.pop(call or "", None)
            if item.call_id is not None and item.call_id not in self.begun:
                yield finding(
                    "orphan_output",
                    f"event {event.seq}",
                    f"the output of call {item.call_id} has no call before it in its turn; histories leave it out",
                    thread=self.thread,
                    turn=self.turn,
                    seq=event.seq,
                )
        elif is_call(item.type) and item.call_id is not None:
            self.calls[item.call_id] = event.seq
            self.begun.add(item.call_id)

    def _step(self, step: Step, seq: int) -> None:
        call = step.call_id or step.id
        self.begun.add(call)
        if step.status not in _UNSETTLED:
            self.calls.pop(call, None)

    def orphans(self, end: Event) -> Iterator[Finding]:
        """Calls that the turn's end leaves without an outcome. One that the end names is no surprise."""
        named = set(end.body.unknown_calls) if isinstance(end.body, Interrupted) else set[str]()
        for call, seq in self.calls.items():
            told = call in named
            how = "as the turn's end says" if told else "and the turn's end does not say so"
            yield finding(
                "orphan_call",
                f"event {seq}",
                f"the outcome of call {call} is not known, {how}; histories answer it neutrally",
                thread=self.thread,
                turn=self.turn,
                seq=seq,
                severity="info" if told else None,
                repairable=not told,
            )

    def differing(self, row: TurnFacts, view: TurnView) -> Iterator[Finding]:
        """What the row says otherwise than the events do. Late events are compared where they stand."""
        fields = sorted({*self._fold_fields(row, view), *_columns(row, view)})
        if fields:
            yield self._row(ROW, f"the row differs from the events in {', '.join(fields)}", repairable=True)
        names = self._names(row)
        if names:
            why = "names are no fold of events and cannot be put right: submitting the same key again may be refused"
            yield self._row(NAMES, f"the row has another {', '.join(names)} than the submission; {why}")

    def _fold_fields(self, row: TurnFacts, view: TurnView) -> Iterator[str]:
        if row.view is None:
            yield "fold"
            return
        expected = replace(view, late=row.view.late)
        for name in TurnView.__struct_fields__ if self.unread is None else _ALWAYS:
            if getattr(row.view, name) != getattr(expected, name):
                yield name

    def _names(self, row: TurnFacts) -> list[str]:
        body = self.submitted
        if body is None:
            return []
        pairs = {
            "key": (row.key, body.key),
            "digest": (row.digest, body.digest),
            "retry_of": (row.retry_of, body.retry_of),
        }
        return [name for name, (stored, said) in pairs.items() if stored != said]

    def _row(self, place: str, detail: str, *, repairable: bool = False) -> Finding:
        return finding(
            "turn_row_differs", place, detail, thread=self.thread, turn=self.turn, seq=None, repairable=repairable
        )


def _columns(row: TurnFacts, view: TurnView) -> Iterator[str]:
    if row.phase != phase_number(view):
        yield "phase"
    if row.seq_first != view.seq_first:
        yield "seq_first"
    if row.seq_last != view.seq_last:
        yield "seq_last"
