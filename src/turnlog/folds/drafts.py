"""Open drafts as folds see them: many chunks and one whole chunk give the same text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from turnlog.events.kinds import Closed, Draft, DraftName
from turnlog.folds.items import joined

Place: TypeAlias = tuple[int, int]
"""Where something stands in its turn: (after, rev) of what began as a draft, (seq, 0) of all else."""


class OpenDraft:
    """One draft that no event has closed."""

    __slots__ = ("_length", "_parts", "id", "name", "place")

    def __init__(self, first: Draft) -> None:
        self.id = first.draft
        self.name = draft_name(first.draft)
        self.place: Place = (first.after, first.rev)
        self._parts: list[str] = []
        self._length = 0

    def apply(self, chunk: Draft) -> None:
        """Take a chunk: `text[:offset] + chunk.text`."""
        if chunk.offset < self._length:
            kept = "".join(self._parts)[: chunk.offset]
            self._parts, self._length = [kept], len(kept)
        self._parts.append(chunk.text)
        self._length += len(chunk.text)

    @property
    def text(self) -> str:
        """The text so far."""
        whole = "".join(self._parts)
        self._parts = [whole]
        return whole


class DraftGroup(msgspec.Struct):
    """Drafts that are parts of one thing: the same attempt, target and kind. The earliest gives id and place."""

    name: DraftName
    id: str
    place: Place
    parts: dict[int, str]

    @property
    def text(self) -> str:
        """The parts in order; parts of a reasoning are paragraphs."""
        joint = "\n\n" if self.name.kind == "reasoning" else ""
        return joined(joint.join(self.parts[part] for part in sorted(self.parts)))


class OpenDrafts:
    """The open drafts of one turn, and which ones have been closed: a closed draft's id is never used again."""

    def __init__(self) -> None:
        self._open: dict[str, OpenDraft] = {}
        self._closed: set[str] = set()

    def apply(self, chunk: Draft) -> None:
        """Take a chunk; one of a closed draft is the past."""
        if chunk.draft in self._closed:
            return
        if chunk.draft not in self._open:
            self._open[chunk.draft] = OpenDraft(chunk)
        self._open[chunk.draft].apply(chunk)

    def close(self, closes: Iterable[Closed]) -> None:
        """Forget what an event has replaced."""
        for closed in closes:
            self._closed.add(closed.draft)
            self._open.pop(closed.draft, None)

    def groups(self) -> Iterator[DraftGroup]:
        """The open drafts by place, parts of one thing together."""
        return iter(
            grouped((draft.id, draft.place, draft.text) for draft in sorted(self._open.values(), key=_by_place))
        )


def grouped(drafts: Iterable[tuple[str, Place, str]]) -> list[DraftGroup]:
    """Put (id, place, text) of drafts together that are parts of one thing."""
    groups: dict[tuple[int, str, str], DraftGroup] = {}
    for id_, place, text in drafts:
        name = draft_name(id_)
        key = (name.attempt, name.target, name.kind)
        group = groups.get(key)
        if group is None:
            groups[key] = DraftGroup(name, id_, place, {name.part: text})
            continue
        group.parts[name.part] = text
        if place < group.place:
            group.id, group.place = id_, place
    return list(groups.values())


def draft_name(id_: str) -> DraftName:
    """The parts of a draft's id; an id of another shape is a text whose target nobody knows."""
    try:
        return DraftName.parse(id_)
    except (ValueError, msgspec.ValidationError):
        return DraftName(0, f"~{id_}", "text")


def _by_place(draft: OpenDraft) -> Place:
    return draft.place
