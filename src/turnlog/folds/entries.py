"""What a timeline shows: its entries, their nesting, their status once the turn has settled, their capped texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from turnlog.events.ids import text_bytes
from turnlog.events.kinds import Failure, StepStatus, Synthesized
from turnlog.folds.nodes import EntryKind, Mark, Node
from turnlog.folds.states import TERMINAL, State
from turnlog.folds.turn import TurnView
from turnlog.limits import VIEW_TEXT_BYTES_MAX

FINAL: Final = frozenset({"succeeded", "failed", "interrupted", "unknown"})
"""Statuses that an entry keeps."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in a turn.

    `id` stays the same from the first draft on; `parent` is the id of an entry of the same timeline. `seq` and `rev`
    are the entry's place, by which a timeline is ordered: the event that began it with rev 0, or the head and revision
    when its draft began. `item` is the seq of the raw item that gave its text or its call. `text`, `args` and `output`
    are cut at `VIEW_TEXT_BYTES_MAX` bytes, `truncated` tells that one of them was, `output_bytes` is the output's full
    size. `mark` sets apart what came `late` and what an attempt had shown that was `dropped`; `draft` is text still
    being written. Times are wall time in µs.
    """

    id: str
    parent: str | None
    seq: int
    rev: int = 0
    kind: EntryKind
    name: str | None
    title: str | None
    text: str | None
    status: StepStatus
    started_at: int | None
    ended_at: int | None
    args: str | None
    output: str | None
    output_bytes: int
    truncated: bool
    failure: Failure | None
    detail: str | None = None
    agent: str | None = None
    worker_thread: str | None = None
    round: int | None = None
    usage: dict[str, Any] | None = None
    call_id: str | None = None
    item: int | None = None
    draft: bool = False
    synthesized: Synthesized | None = None
    mark: Mark | None = None


class Brief(msgspec.Struct, frozen=True, array_like=True):
    """What of an entry decides where it stands among the others. See `Entry`."""

    id: str
    parent: str | None
    kind: EntryKind
    mark: Mark | None = None


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """One turn's trace: its row, and its entries flat and in order; `parent` nests them to any depth."""

    turn: TurnView
    entries: tuple[Entry, ...]


def entries_of(nodes: Sequence[Node], turn: TurnView) -> Iterator[Entry]:
    """Nodes as entries in order. `nodes` may hold copies that stand for nodes of the same `key`."""
    ordered = sorted((node for node in nodes if not _says_nothing(node)), key=_by_place)
    shown = {node.key: node for node in ordered}
    parents = _parents(ordered, shown)
    for node in ordered:
        yield _entry(node, parents[node.key], turn)


def _by_place(node: Node) -> tuple[int, int, int]:
    return (*node.place, node.key)


def _says_nothing(node: Node) -> bool:
    """Whether a step brought token counts only: they stand in the turn's row."""
    said = (node.name, node.title, node.text, node.detail, node.args, node.output, node.failure, node.mark)
    return node.shown_kind == "note" and node.usage is not None and all(value is None for value in said)


def _parents(ordered: Sequence[Node], shown: dict[int, Node]) -> dict[int, Node | None]:
    """The parent of each node, None for the turn itself. Of a cycle, the first node goes to the turn."""
    parents: dict[int, Node | None] = {}
    for node in ordered:
        parent = node.parent
        parents[node.key] = None if parent is None else shown.get(parent.whole.key)
    done: set[int] = set()
    for node in ordered:
        path: dict[int, None] = {}
        current: Node | None = node
        while current is not None and current.key not in done:
            if current.key in path:
                parents[_first_of_cycle(current.key, path, shown)] = None
                break
            path[current.key] = None
            current = parents[current.key]
        done.update(path)
    return parents


def _first_of_cycle(start: int, path: dict[int, None], shown: dict[int, Node]) -> int:
    keys = list(path)
    return min(keys[keys.index(start) :], key=lambda key: _by_place(shown[key]))


def _entry(node: Node, parent: Node | None, turn: TurnView) -> Entry:
    status = shown_status(node, turn.state)
    ended_at = node.ended_at
    if ended_at is None and status != node.reached and status in FINAL:
        ended_at = turn.settled_at
    text, args, output = cut(node.text), cut(node.args), cut(node.output)
    return Entry(
        id=node.id,
        parent=None if parent is None else parent.id,
        seq=node.place[0],
        rev=node.place[1],
        kind=node.shown_kind,
        name=node.name,
        title=node.title,
        text=text.text,
        status=status,
        started_at=node.started_at,
        ended_at=ended_at,
        args=args.text,
        output=output.text,
        output_bytes=output.whole_bytes,
        truncated=text.truncated or args.truncated or output.truncated,
        failure=node.failure,
        detail=node.detail,
        agent=node.agent,
        worker_thread=node.worker_thread,
        round=node.round,
        usage=node.usage,
        call_id=node.call_id,
        item=node.item,
        draft=node.draft,
        synthesized=node.synthesized,
        mark=node.mark,
    )


def shown_status(node: Node, state: State) -> StepStatus:
    """The status of an entry: what it reached itself, else what the end of its turn makes of it.

    A call that was issued and whose output never came stays unknown, whatever ended the turn.
    """
    reached = node.reached
    unanswered = node.call and not node.result and not node.hosted
    if state not in TERMINAL or (reached in FINAL and not (unanswered and reached == "interrupted")):
        return reached
    if state == "completed" or unanswered or (node.shown_kind == "tool" and node.issued):
        return "unknown"
    return "interrupted"


class CutText(msgspec.Struct, frozen=True):
    """A text as a view shows it, and the size of the whole in UTF-8 bytes."""

    text: str | None
    whole_bytes: int
    truncated: bool


def cut(text: str | None) -> CutText:
    """The longest beginning of `text` of at most `VIEW_TEXT_BYTES_MAX` bytes that ends between two code points."""
    if text is None:
        return CutText(None, 0, False)
    data = text_bytes(text)
    if len(data) <= VIEW_TEXT_BYTES_MAX:
        return CutText(text, len(data), False)
    end = VIEW_TEXT_BYTES_MAX
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return CutText(data[:end].decode("utf-8", "surrogatepass"), len(data), True)
