"""The timeline fold: one turn's events and open drafts, as the entries of its trace.

Events alone make the nodes; open drafts are laid over them at each view. So the view depends on the events up to a
position and on the text of the drafts open there, and on nothing else: not on how many chunks or batches they came in.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnlog.errors import RecordDamaged
from turnlog.events.codec import decode_body
from turnlog.events.kinds import (
    AttemptDropped,
    Damaged,
    Draft,
    Event,
    Failure,
    Interrupted,
    Item,
    Requested,
    Step,
    ThreadLate,
    Unknown,
)
from turnlog.folds.drafts import OpenDrafts, grouped
from turnlog.folds.entries import Entry, TimelineView, entries_of
from turnlog.folds.items import json_text
from turnlog.folds.nodes import Node, Tree
from turnlog.folds.overlay import draft_node, fill, lay_over, target_of
from turnlog.folds.placing import place_item, place_step
from turnlog.folds.turn import TurnFold, TurnView, fold_turn


class Timeline:
    """Folds one turn. Feed it the turn's events in order, and chunks of drafts as they come; view it at any time."""

    def __init__(self, turn: str) -> None:
        self.turn = turn
        self._fold: TurnFold | None = None
        self._tree = Tree()
        self._drafts = OpenDrafts()

    def event(self, event: Event) -> None:
        """Take one event. Events of other turns are let pass."""
        body = event.body
        if isinstance(body, ThreadLate) and body.of == self.turn:
            self._late(event, body)
        elif event.turn == self.turn:
            illegal = 0 if self._fold is None else self._fold.view.illegal
            self._fold = fold_turn(self._fold, event)
            self._drafts.close(getattr(body, "closes", ()))
            if self._fold is not None and event.seq in self._fold.view.collisions:
                self._collision(event)
            elif self._fold is not None and self._fold.view.illegal > illegal and not isinstance(body, Damaged):
                self._late_note(event)
            else:
                self._apply(event)

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        if chunk.turn == self.turn:
            self._drafts.apply(chunk)

    def view(self) -> TimelineView:
        """The trace as it stands. Raises `RecordDamaged` when the turn has no event that says what it is."""
        turn, entries = self.trace()
        return TimelineView(turn=turn, entries=tuple(entries))

    def trace(self) -> tuple[TurnView, Iterator[Entry]]:
        """The same, one entry after the other, for who does something else in between. Nothing may be fed meanwhile."""
        if self._fold is None:
            raise RecordDamaged(problem="the turn has no readable beginning")
        nodes = lay_over(self._tree, self._drafts.groups())
        return self._fold.view, entries_of(nodes, self._fold.view)

    def _apply(self, event: Event) -> None:
        match event.body:
            case Item(purpose="submission"):
                pass  # the person's message stands above the trace
            case Item() as body:
                place_item(self._tree, event, body)
            case Step() as body:
                place_step(self._tree, event, body)
            case AttemptDropped() as body:
                self._dropped(event, body)
            case Requested() as body:
                self._requested(event, body)
            case Interrupted() as body:
                node = self._note(event, "interrupted", body.reason, body.detail)
                node.status, node.failure = "interrupted", Failure(reason=body.reason)
            case Unknown():
                self._note(event, event.kind, "a record of a kind this version does not know")
            case Damaged() as body:
                node = self._note(event, event.kind, "a record that cannot be read", body.problem)
                node.status, node.failure = "failed", Failure(reason="damaged")
            case _:
                pass

    def _note(self, event: Event, name: str, title: str | None, text: str | None = None) -> Node:
        node = self._tree.new((event.seq, 0), f"#{event.seq}")
        node.kind, node.name, node.title, node.text = "note", name, title, text
        node.status, node.started_at, node.ended_at = "succeeded", event.at, event.at
        return node

    def _dropped(self, event: Event, body: AttemptDropped) -> None:
        """Text that an attempt had shown stays where it was shown, and a note says why it was dropped."""
        places = {closed.draft: (closed.after, closed.rev) for closed in body.closes}
        drafts = [(text.draft, places.get(text.draft, (event.seq, 0)), text.text) for text in body.dropped]
        for group in grouped(drafts):
            node = draft_node(len(self._tree.nodes), group, target_of(self._tree, group))
            fill(node, group)
            self._tree.add(node)
            node.status, node.mark, node.ended_at = "interrupted", "dropped", event.at
        note = self._note(event, "attempt_dropped", body.reason)
        note.mark = "dropped"
        self._tree.forget_unanswered()

    def _requested(self, event: Event, body: Requested) -> None:
        if body.what == "interrupt":
            self._note(event, "interrupt_requested", body.by)
            return
        node = self._tree.find(body.approval)
        if node is None or node.shown_kind != "approval":
            self._note(event, "decision", body.approval, json_text(body.value))
        elif node.item_status is None:
            node.item_status, node.output, node.ended_at = "succeeded", json_text(body.value), event.at

    def _late(self, event: Event, late: ThreadLate) -> None:
        """What came after the end is shown as late, with what it says. The row names its place, all else stays."""
        if self._fold is not None:
            view = self._fold.view
            self._fold.view = msgspec.structs.replace(view, late=[*view.late, event.seq])
        body = decode_body(late.late, event.v, late.raw)
        inner = msgspec.structs.replace(event, kind=late.late, turn=self.turn, body=body, data=late.raw)
        self._late_note(inner)

    def _collision(self, event: Event) -> None:
        """Another end after the one that stands: damage of the store, of which nobody is to see one side alone."""
        note = self._note(event, event.kind, "a second end of the turn; the first one stands")
        note.mark, note.status, note.failure = "late", "failed", Failure(reason="terminal_collision")

    def _late_note(self, event: Event) -> None:
        note = self._note(event, event.kind, "came after the end of the turn")
        note.mark = "late"
        said = Tree()
        if isinstance(event.body, Item):
            place_item(said, event, event.body)
        elif isinstance(event.body, Step):
            place_step(said, event, event.body)
        for node in said.nodes:
            note.text, note.args, note.output = node.text, node.args, node.output
            note.detail, note.failure, note.item = node.title or node.name, node.failure, node.item
