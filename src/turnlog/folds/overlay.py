"""Open drafts laid over the nodes that events made: what a view shows of text still being written."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Final

from turnlog.events.kinds import DraftKind
from turnlog.folds.drafts import DraftGroup, Place
from turnlog.folds.nodes import LEAVES, EntryKind, Node, Tree

_BORN_AS: Final[dict[DraftKind, EntryKind]] = {
    "text": "message",
    "reasoning": "reasoning",
    "args": "tool",
    "output": "tool",
}


def lay_over(tree: Tree, groups: Iterable[DraftGroup]) -> list[Node]:
    """The tree's nodes, those that a draft adds to as copies, and a node for each draft that has none yet."""
    covered: dict[int, Node] = {}
    born: list[Node] = []
    begun: dict[str, Node] = {}
    for group in groups:
        target = target_of(tree, group)
        if target is not None and takes(target, group.name.kind, group.place):
            node = covered.setdefault(target.key, copy.copy(target))
            node.seen_at(group.place, group.id)
        elif group.name.kind in ("args", "output") and group.name.target in begun:
            node = begun[group.name.target]
        else:
            node = draft_node(len(tree.nodes) + len(born), group, target)
            born.append(node)
            if group.name.kind in ("args", "output"):
                begun[group.name.target] = node
        fill(node, group)
        node.draft = True
    return [covered.get(node.key, node) for node in tree.whole_nodes()] + born


def target_of(tree: Tree, group: DraftGroup) -> Node | None:
    """The node that a draft's target names now."""
    return None if group.name.anonymous else tree.find(group.name.target)


def takes(node: Node, kind: DraftKind, place: Place) -> bool:
    """Whether a draft that targets `node` is a part of it, and not something inside it or the next of its name.

    Arguments after a call, output after a result, or either begun when the node was over, belong to the next one.
    """
    if kind in ("args", "output"):
        full = node.call if kind == "args" else node.result
        later = node.over_at is not None and place > node.over_at
        return not full and not later and node.kind not in ("message", "reasoning")
    if kind == "reasoning":
        return node.step == "reasoning"
    return node.step in LEAVES


def draft_node(key: int, group: DraftGroup, target: Node | None) -> Node:
    """A node that begins with a draft; text and reasoning that target a step are inside it."""
    node = Node(key=key, place=group.place, id=group.id, kind=_BORN_AS[group.name.kind])
    if target is not None and group.name.kind in ("text", "reasoning") and target.kind not in ("message", "reasoning"):
        node.parent = target
    return node


def fill(node: Node, group: DraftGroup) -> None:
    """Put a draft's text where it belongs."""
    if group.name.kind == "args":
        node.args = group.text
    elif group.name.kind == "output":
        node.output = group.text
    else:
        node.text = group.text
