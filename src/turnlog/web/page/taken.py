"""Turns that were taken back: one line for each run of neighbours, in which they are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from turnlog.web.page.markup import Element, shell
from turnlog.web.page.rendering import leaf


class Taken:
    """Puts neighbours into one line each. What has not changed since the last time is not made again."""

    def __init__(self) -> None:
        self._known: dict[str, Element] = {}

    @property
    def ids(self) -> set[str]:
        """The ids of the lines as they were made the last time."""
        return set(self._known)

    def folded(self, placed: Iterable[tuple[Element, bool]]) -> list[Element]:
        """Elements in order, each with whether it is of a turn that was taken back."""
        return list(self._folded(placed))

    def _folded(self, placed: Iterable[tuple[Element, bool]]) -> Iterator[Element]:
        known, self._known = self._known, {}
        for taken, run in groupby(placed, key=lambda pair: pair[1]):
            elements = [element for element, _ in run]
            if not taken:
                yield from elements
                continue
            line = _line(elements, known)
            self._known[line.id] = line
            yield line


def _line(sections: Sequence[Element], known: dict[str, Element]) -> Element:
    id_ = sections[0].id.replace("turn-", "taken-", 1)
    last = known.get(id_)
    if last is not None and last.children is not None and _same(last.children[1:], sections):
        return last
    return shell("details", id_, [leaf("taken", f"sum-{id_}", count=len(sections)), *sections], class_="taken")


def _same(old: Sequence[Element], new: Sequence[Element]) -> bool:
    return len(old) == len(new) and all(one is other for one, other in zip(old, new, strict=True))
