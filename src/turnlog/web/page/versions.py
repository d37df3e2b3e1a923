"""What a live page shows now, and since which version: a client needs no more than what is newer than its own.

An operation is `["put", parent, after, html]` or `["keep", parent, [ids]]`. Puts come in document order, so that what
an element stands in and after is there before it; then the keeps, when everything that stays is where it belongs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from turnlog.limits import FRAME_BYTES_MAX
from turnlog.web.page.markup import Element, Fragment, flat
from turnlog.web.stream.frames import frame

Operation: TypeAlias = tuple[str, str, Any] | tuple[str, str, str | None, str]

_FRAME_ROOM: Final = FRAME_BYTES_MAX - 256
"""Bytes of a frame for its operations; the rest is for its event name, id and brackets."""


class _Order(NamedTuple):
    """The ids in an element, and the version in which one of them last left or moved."""

    ids: tuple[str, ...]
    version: int


_NEW: Final = _Order((), 0)


class _Top(NamedTuple):
    """One element of the page's top and all in it: fragments in document order, each with its version."""

    element: Element
    parent: str
    fragments: dict[str, tuple[Fragment, int]]
    orders: dict[str, _Order]
    version: int


class Versions:
    """The page in its newest version."""

    def __init__(self) -> None:
        self.version = 0
        self._tops: dict[str, _Top] = {}
        self._orders: dict[str, _Order] = {}

    def update(self, page: Sequence[Element]) -> None:
        """Take the page as it is now: leaves, and shells whose children are its tops."""
        self.version += 1
        tops: dict[str, _Top] = {}
        # What was a top of its own, or in one, may be in another one now, and keep what it had.
        stay = {child.id for one in page for child in (one.children or [one])}
        gone = [top for id_, top in self._tops.items() if id_ not in stay]
        for one in page:
            if one.children is None:
                tops[one.id] = self._top(one, "thread", gone)
                continue
            for child in one.children:
                tops[child.id] = self._top(child, one.id, gone)
            known = self._orders.get(one.id, _NEW)
            self._orders[one.id] = self._order(known, tuple(child.id for child in one.children))
        self._tops = tops

    def _top(self, element: Element, parent: str, gone: Sequence[_Top]) -> _Top:
        known = self._tops.get(element.id)
        if known is not None and known.element is element:
            return known
        old, orders = ({}, {}) if known is None else (known.fragments, known.orders)
        for top in gone:
            old, orders = old | top.fragments, orders | top.orders
        fragments: dict[str, tuple[Fragment, int]] = {}
        ids: dict[str, list[str]] = {}
        for fragment in flat([element], parent):
            before = old.get(fragment.id)
            same = before is not None and (before[0].html, before[0].parent) == (fragment.html, fragment.parent)
            fragments[fragment.id] = fragment, before[1] if same and before is not None else self.version
            if fragment.shell:
                ids[fragment.id] = []
            if fragment.id != element.id:
                ids[fragment.parent].append(fragment.id)
        ordered = {id_: self._order(orders.get(id_, _NEW), tuple(children)) for id_, children in ids.items()}
        newest = max(version for _, version in fragments.values())
        newest = max([newest, *(order.version for order in ordered.values())])
        return _Top(element, parent, fragments, ordered, newest)

    def _order(self, known: _Order, ids: tuple[str, ...]) -> _Order:
        """The order with a new version when one has left or moved; those that came are put where they belong."""
        stay = set(ids)
        left = [id_ for id_ in known.ids if id_ in stay]
        if len(left) == len(known.ids) and left == [id_ for id_ in ids if id_ in set(known.ids)]:
            return _Order(ids, known.version)
        return _Order(ids, self.version)

    # --- what a client is sent -----------------------------------------------------------------------------------

    def since(self, version: int) -> Iterator[Operation]:
        """What a client that holds `version` needs."""
        for after, top in self._placed():
            if top.version > version:
                yield from _puts(after, top, version)
        for top in self._tops.values():
            if top.version > version:
                yield from (("keep", id_, it.ids) for id_, it in top.orders.items() if it.version > version)
        yield from (("keep", id_, it.ids) for id_, it in self._orders.items() if it.version > version)

    def whole(self, ids: Collection[str]) -> Iterator[Operation]:
        """The tops `ids` whole, whatever a client holds of them, and the order of all."""
        for after, top in self._placed():
            if top.element.id in ids:
                yield from _puts(after, top, -1)
        for id_ in ids:
            if id_ in self._tops:
                yield from (("keep", name, order.ids) for name, order in self._tops[id_].orders.items())
        yield from (("keep", id_, order.ids) for id_, order in self._orders.items() if id_ != "earlier")

    def _placed(self) -> Iterator[tuple[str | None, _Top]]:
        """Each top with the one it stands after."""
        elder: dict[str, str] = {}
        for id_, top in self._tops.items():
            yield elder.get(top.parent), top
            elder[top.parent] = id_


def _puts(after: str | None, top: _Top, version: int) -> Iterator[Operation]:
    for fragment, changed in top.fragments.values():
        if changed > version:
            elder = after if fragment.id == top.element.id else fragment.after
            yield "put", fragment.parent, elder, fragment.html


def frames(operations: Iterator[Operation], at: str) -> bytes:
    """Operations as frames `frag`, none of which is larger than `FRAME_BYTES_MAX`; only the last carries `at`."""
    parts: list[list[bytes]] = [[]]
    size = 0
    for operation in operations:
        data = msgspec.json.encode(operation)
        # Leaves and lists of names are bounded where they are made: a client cuts off what is larger, and comes back.
        assert len(data) < _FRAME_ROOM, f"an operation of {len(data)} bytes"
        if parts[-1] and size + len(data) + 1 > _FRAME_ROOM:
            parts.append([])
            size = 0
        parts[-1].append(data)
        size += len(data) + 1
    if not parts[0]:
        return b""
    *most, last = (b"[" + b",".join(part) + b"]" for part in parts)
    return b"".join(frame("frag", data) for data in most) + frame("frag", last, id=at)
