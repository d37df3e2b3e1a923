"""What a timeline is folded into: nodes that events fill, found by the names that agents gave them.

A name is a step id, a call id or an item id; all share one space, so that a step whose id is a call's id is that call.
Providers reuse call ids: a name then means its newest *occurrence*, and older ones keep their node.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final, Literal, TypeAlias

import msgspec

from turnlog.events.kinds import Closed, Failure, StepStatus, Synthesized
from turnlog.folds.drafts import Place

EntryKind: TypeAlias = Literal["reasoning", "message", "tool", "subagent", "plan", "note", "approval"]
Mark: TypeAlias = Literal["late", "dropped"]

LEAVES: Final = frozenset({"reasoning", "plan", "note", "approval"})
"""Kinds whose text is their own: a draft that targets one is its text, not a message inside it."""


class Node(msgspec.Struct, kw_only=True, eq=False):
    """One entry in the making. `key` is its number in its tree.

    `step` and `kind` are what steps and items say it is; `call` and `result` tell that a call item and an output item
    are in it, `hosted` that the call awaits no output item; `issued` that more than drafts is known of it. `over_at` is
    the place of the event that brought it to a lasting status.
    """

    key: int
    place: Place
    id: str
    kind: EntryKind | None = None
    step: EntryKind | None = None
    step_id: str | None = None
    call: bool = False
    result: bool = False
    hosted: bool = False
    issued: bool = False
    name: str | None = None
    title: str | None = None
    text: str | None = None
    args: str | None = None
    output: str | None = None
    detail: str | None = None
    agent: str | None = None
    worker_thread: str | None = None
    round: int | None = None
    usage: dict[str, Any] | None = None
    failure: Failure | None = None
    call_id: str | None = None
    item: int | None = None
    status: StepStatus | None = None
    item_status: StepStatus | None = None
    started_at: int | None = None
    ended_at: int | None = None
    over_at: Place | None = None
    draft: bool = False
    synthesized: Synthesized | None = None
    mark: Mark | None = None
    parent: Node | None = None
    merged: Node | None = None

    @property
    def whole(self) -> Node:
        """This node, or the one it was merged into."""
        node = self
        while node.merged is not None:
            node = node.merged
        return node

    @property
    def shown_kind(self) -> EntryKind:
        """The kind a step gave first, else what the items are."""
        return self.step or self.kind or "note"

    @property
    def reached(self) -> StepStatus:
        """The status that the node's own events gave it: a step's final word, else an item's, else running."""
        if self.status in ("succeeded", "failed", "interrupted", "unknown"):
            return self.status
        return self.item_status or self.status or "running"

    @property
    def over(self) -> bool:
        """Whether it has reached a status that lasts."""
        return self.reached not in ("running", "waiting")

    def note_over(self, place: Place) -> None:
        """Remember that it was the event at `place` after which it was over."""
        if self.over_at is None and self.over:
            self.over_at = place

    def seen_at(self, place: Place, id_: str) -> None:
        """It is also known from `place`: the earliest place gives the node its place and its id."""
        if place < self.place:
            self.place, self.id = place, id_

    def replaces(self, closes: list[Closed]) -> None:
        """Take the place of drafts that an event of this node has closed."""
        for closed in closes:
            self.seen_at((closed.after, closed.rev), closed.draft)


_NOT_ITSELF: Final = re.compile(r"[#~]|\d+/")
"""Step ids that look like the id of an entry that an item (`#seq`) or a draft (`0/...`) began."""


class Tree:
    """All nodes of one turn and their names."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._names: dict[str, Node] = {}
        self._awaiting: dict[str, deque[Node]] = {}
        self._children_of: dict[str, list[Node]] = {}
        self._step_ids: set[str] = set()

    def new(self, place: Place, id_: str) -> Node:
        """One more node."""
        return self.add(Node(key=len(self.nodes), place=place, id=id_))

    def add(self, node: Node) -> Node:
        """Take in a node whose key is the next one."""
        self.nodes.append(node)
        return node

    def step_entry_id(self, step_id: str, seq: int) -> str:
        """The entry id of a new step: its own id where that is free and looks like no other kind's, else by `seq`."""
        if not step_id or step_id in self._step_ids:
            return f"#{seq}"
        self._step_ids.add(step_id)
        return f"~{step_id}" if _NOT_ITSELF.match(step_id) else step_id

    def find(self, name: str | None) -> Node | None:
        """The newest node of that name; an empty name is none."""
        node = self._names.get(name) if name else None
        return None if node is None else node.whole

    def give_name(self, node: Node, name: str | None) -> None:
        """From now on `name` means `node`; children that were waiting for the name are its own."""
        if not name:
            return
        self._names[name] = node
        for child in self._children_of.pop(name, ()):
            child.whole.parent = node

    def give_parent(self, node: Node, name: str | None) -> None:
        """Nest `node` in the newest node of that name, at once or when it comes; until then it is the turn's."""
        if not name:
            return
        parent = self.find(name)
        if parent is None:
            self._children_of.setdefault(name, []).append(node)
        else:
            node.parent = parent

    def await_output(self, node: Node, call_id: str) -> None:
        """An output of `call_id` will belong to `node`; several calls of one id are answered in order."""
        self._awaiting.setdefault(call_id, deque()).append(node)

    def answered_by(self, call_id: str) -> Node | None:
        """The node an output item of `call_id` belongs to: the oldest unanswered call, else the newest of the name."""
        waiting = self._awaiting.get(call_id)
        if waiting:
            node = waiting.popleft()
            if not waiting:
                del self._awaiting[call_id]
            return node.whole
        newest = self.find(call_id)
        return None if newest is None or newest.result or newest.kind in ("message", "reasoning") else newest

    def forget_unanswered(self) -> None:
        """The calls so far get outputs by their name only: a new attempt may use the same ids."""
        self._awaiting.clear()

    def merge(self, first: Node, second: Node) -> Node:
        """Two nodes turned out to be one. The earlier one goes on; what it lacks comes from the other."""
        kept, gone = (first, second) if first.place <= second.place else (second, first)
        for field in _MERGED:
            if not getattr(kept, field):
                setattr(kept, field, getattr(gone, field))
        gone.merged = kept
        return kept

    def whole_nodes(self) -> list[Node]:
        """Every node that was not merged into another."""
        return [node for node in self.nodes if node.merged is None]


_KEPT: Final = frozenset({"key", "place", "id", "draft", "mark", "merged"})
_MERGED: Final = tuple(field for field in Node.__struct_fields__ if field not in _KEPT)
