"""Where an item or a step goes in the tree of a timeline, and what it tells its node."""

from __future__ import annotations

from typing import Any, Final

from turnlog.events.kinds import Closed, Event, Failure, Item, Step, StepStatus
from turnlog.folds.drafts import draft_name
from turnlog.folds.items import (
    CLIENT_CALLS,
    NAMELESS_CALLS,
    RawItem,
    call_args,
    call_name,
    json_text,
    parts_text,
    read_item,
    reasoning_text,
)
from turnlog.folds.nodes import LEAVES, EntryKind, Node, Tree
from turnlog.folds.overlay import takes
from turnlog.folds.turn import is_call, is_call_output

_ITEM_STATUS: Final[dict[Any, StepStatus]] = {
    "completed": "succeeded",
    "failed": "failed",
    "incomplete": "interrupted",
}
_NAMELESS: Final = "\0nameless "
"""Begins the names of calls without any id, one for each type; no call id can be mistaken for one by accident."""


# --- items -----------------------------------------------------------------------------------------------------


def place_item(tree: Tree, event: Event, body: Item) -> None:
    """Put an item into its node: calls and outputs by call id, anything else into a node of its own."""
    raw = read_item(body.raw)
    if raw is None:
        _place_unreadable(tree, event, body)
    elif body.purpose is not None:
        _place_apart(tree, event, body, raw)
    elif is_call(body.type):
        _place_call(tree, event, body, raw)
    elif is_call_output(body.type):
        _place_result(tree, event, body, raw)
    else:
        _place_plain(tree, event, body, raw)


def _new(tree: Tree, event: Event) -> Node:
    node = tree.new((event.seq, 0), f"#{event.seq}")
    node.issued = True
    return node


def _place_call(tree: Tree, event: Event, body: Item, raw: RawItem) -> None:
    name = body.call_id or body.id or (f"{_NAMELESS}{body.type}" if body.type in NAMELESS_CALLS else "")
    node = tree.find(name)
    if node is None or node.call or node.result or node.kind in ("message", "reasoning"):
        node = _new(tree, event)
    tree.give_name(node, name)
    tree.give_name(node, body.id)
    node.replaces(body.closes)
    node.kind, node.call, node.issued, node.item = "tool", True, True, event.seq
    node.call_id = body.call_id or node.call_id
    node.name = node.name or call_name(raw, body.type)
    node.args = call_args(raw) or node.args
    node.started_at = event.at if node.started_at is None else node.started_at
    node.hosted = not body.call_id and body.type not in CLIENT_CALLS
    if node.hosted:
        _finish_hosted(node, event, raw)
    elif not (body.id and not body.call_id):
        tree.await_output(node, name)
    node.note_over((event.seq, 0))


def _finish_hosted(node: Node, event: Event, raw: RawItem) -> None:
    """A call that the model's own side carries out comes with its outcome."""
    node.item_status = _ITEM_STATUS.get(raw.status if isinstance(raw.status, str) else None)
    if raw.error is not None:
        node.item_status, node.failure = "failed", Failure(reason=parts_text(raw.error))
    if raw.output is not None:
        node.output = parts_text(raw.output, "\n")
    if node.item_status is not None:
        node.ended_at = event.at


def _place_result(tree: Tree, event: Event, body: Item, raw: RawItem) -> None:
    name = body.call_id or f"{_NAMELESS}{body.type.removesuffix('_output')}"
    node = tree.answered_by(name)
    if node is None:
        node = _new(tree, event)
        node.kind, node.name, node.item = "tool", call_name(raw, body.type), event.seq
        tree.give_name(node, body.call_id)
    node.replaces(body.closes)
    node.result, node.issued = True, True
    node.call_id = body.call_id or node.call_id
    node.output = parts_text(raw.output, "\n")
    node.item_status = _ITEM_STATUS.get(raw.status if isinstance(raw.status, str) else None, "succeeded")
    node.ended_at = event.at if node.ended_at is None else node.ended_at
    node.note_over((event.seq, 0))


def _place_plain(tree: Tree, event: Event, body: Item, raw: RawItem) -> None:
    node = _new(tree, event)
    node.replaces(body.closes)
    tree.give_name(node, body.id)
    node.item, node.synthesized, node.ended_at = event.seq, body.synthesized, event.at
    node.item_status = "interrupted" if body.synthesized == "interrupted" else "succeeded"
    if body.type == "reasoning":
        node.kind, node.text = "reasoning", reasoning_text(raw)
    elif raw.role == "assistant":
        node.kind, node.text = "message", parts_text(raw.content)
    else:
        node.kind, node.text = "note", parts_text(raw.content)
        node.name = raw.role if isinstance(raw.role, str) and raw.role else body.type


def _place_apart(tree: Tree, event: Event, body: Item, raw: RawItem) -> None:
    """A summary that the agent made for itself: a note, whatever the item looks like."""
    node = _new(tree, event)
    node.kind, node.name, node.item, node.ended_at = "note", body.purpose, event.seq, event.at
    node.title, node.item_status = "a summary the agent made for itself", "succeeded"
    node.text = reasoning_text(raw) if body.type == "reasoning" else parts_text(raw.content)


def _place_unreadable(tree: Tree, event: Event, body: Item) -> None:
    node = _new(tree, event)
    node.replaces(body.closes)
    node.kind, node.name, node.title, node.item = "note", body.type, "an item that cannot be read", event.seq
    node.status, node.failure = "failed", Failure(reason="damaged")


# --- steps -----------------------------------------------------------------------------------------------------


def place_step(tree: Tree, event: Event, body: Step) -> None:
    """Put a step into its node: the one of its id, else that of its call, else a new one."""
    node = _step_node(tree, event, body)
    kind = node.step or _entry_kind(body)
    inside, own = _split_closes(kind, body)
    tree.give_parent(node, body.parent)
    tree.give_name(node, body.id)
    tree.give_name(node, body.call_id)
    node.replaces(own)
    node.step_id, node.issued = body.id, True
    node.step = kind
    if node.step is None and node.kind is None:
        node.kind = "tool" if body.call_id else None
    node.call_id = node.call_id or body.call_id or None
    _tell(node, body, text=None if inside else body.text)
    if inside:
        _place_inside(tree, event, node, inside, body)
    node.started_at = _first(body.started_at, node.started_at, event.at)
    if body.status is not None:
        node.status = body.status
        node.ended_at = _first(body.ended_at, event.at if node.over else None)
    elif body.ended_at is not None:
        node.ended_at = body.ended_at
    node.note_over((event.seq, 0))


def _first(*times: int | None) -> int | None:
    return next((time for time in times if time is not None), None)


def _step_node(tree: Tree, event: Event, body: Step) -> Node:
    own, linked = tree.find(body.id), tree.find(body.call_id)
    if own is not None and (_is_text_item(own) or _begins_again(own, body)):
        own = None
    elif own is not None and linked is not None and linked is not own and _joinable(linked, body):
        return tree.merge(own, linked)
    if own is not None:
        return own
    if linked is not None and _joinable(linked, body):
        return linked
    return tree.new((event.seq, 0), tree.step_entry_id(body.id, event.seq))


def _is_text_item(node: Node) -> bool:
    return node.kind in ("message", "reasoning") and node.step is None


def _joinable(node: Node, body: Step) -> bool:
    """Whether a step that names this node's call, and is not yet known by its own id, tells of that call."""
    return node.step_id is None and not _is_text_item(node) and not _begins_again(node, body)


def _begins_again(node: Node, body: Step) -> bool:
    """Whether a step is the next use of a name whose last use is over: some providers count calls from 0 again."""
    if body.status in ("running", "waiting") and (node.result or node.over):
        return True
    return any(
        name.kind in ("args", "output")
        and name.target in (body.id, body.call_id)
        and not takes(node, name.kind, (closed.after, closed.rev))
        for closed, name in ((closed, draft_name(closed.draft)) for closed in body.closes)
    )


def _entry_kind(body: Step) -> EntryKind | None:
    """A note that replaces text which was streamed inside another step is that message."""
    if body.step == "note" and any(draft_name(closed.draft).target != body.id for closed in body.closes):
        return "message"
    return "note" if body.step == "phase" else body.step


def _split_closes(kind: EntryKind | None, body: Step) -> tuple[list[Closed], list[Closed]]:
    """The drafts that were messages inside the step, and those that were parts of it."""
    inside: list[Closed] = []
    own: list[Closed] = []
    for closed in body.closes:
        name = draft_name(closed.draft)
        nested = name.kind == "text" and kind not in (*LEAVES, "message") and name.target in (body.id, body.call_id)
        (inside if nested else own).append(closed)
    return inside, own


def _place_inside(tree: Tree, event: Event, step: Node, closes: list[Closed], body: Step) -> None:
    """The text that was streamed inside a step stays an entry of its own, where it was."""
    node = tree.new((event.seq, 0), f"#{event.seq}")
    node.replaces(closes)
    node.kind, node.text, node.parent, node.issued = "message", body.text, step, True
    broken = body.status in ("interrupted", "unknown")
    node.item_status, node.ended_at = ("interrupted" if broken else "succeeded"), event.at


def _tell(node: Node, body: Step, *, text: str | None) -> None:
    """Fill in what the step says: absent fields keep their value, empty ones never erase, the call's own item wins."""
    for field in ("name", "title", "detail", "agent", "worker_thread", "round", "usage", "failure"):
        _set(node, field, getattr(body, field))
    _set(node, "text", text)
    if not node.call and _tells(node.args, body.args):
        node.args = json_text(body.args)
    if not node.result:
        _set(node, "output", body.output)


def _set(node: Node, field: str, value: Any) -> None:
    if _tells(getattr(node, field), value):
        setattr(node, field, value)


def _tells(known: Any, value: Any) -> bool:
    return value is not None and (known is None or value not in ("", {}, []))
