"""JSON text taken apart without reading it: every byte that is not taken out stays as it is.

A number such as `1e400`, the order of keys and the spaces between them survive no decoding. The text must be valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_PLAIN: Final = re.compile(rb"[^ \t\n\r,\]}]+")
_NEXT_MARK: Final = re.compile(rb'["\[\]{}]')


class Part(NamedTuple):
    """A member of an object, or an element of an array (its key is then empty): `start` and `end` of its value, and
    `begin`, where the member itself starts."""

    key: str
    begin: int
    start: int
    end: int


def parts(text: bytes, at: int = 0) -> Iterator[Part]:
    """The parts of the object or array that begins at `at`; none of any other value."""
    at = _after_space(text, at)
    if text[at : at + 1] not in (b"{", b"["):
        return
    keyed = text[at : at + 1] == b"{"
    at = _after_space(text, at + 1)
    while text[at : at + 1] not in (b"}", b"]"):
        begin, key = at, ""
        if keyed:
            end = _value_end(text, at)
            key = json.loads(text[at:end].decode("utf-8"), strict=False)
            at = _after_space(text, _after_space(text, end) + 1)
        end = _value_end(text, at)
        yield Part(key, begin, at, end)
        at = _after_space(text, end)
        if text[at : at + 1] == b",":
            at = _after_space(text, at + 1)


class Edit(NamedTuple):
    """`new` in the place of what stands from `start` to `end`."""

    start: int
    end: int
    new: bytes = b""


def removals(members: Sequence[Part], names: Container[str]) -> list[Edit]:
    """What takes the members of these names out of their object, each with its comma."""
    kept = [member for member in members if member.key not in names]
    if not kept:
        return [Edit(members[0].begin, members[-1].end)] if members else []
    edits = [Edit(member.begin, after.begin) for member, after in pairwise(members) if member.key in names]
    edits = [edit for edit in edits if edit.start < kept[-1].begin]
    if members[-1].key in names:
        edits.append(Edit(kept[-1].end, members[-1].end))
    return edits


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with these edits, which do not overlap."""
    pieces, place = [], 0
    for edit in sorted(edits):
        pieces += [text[place : edit.start], edit.new]
        place = edit.end
    return b"".join([*pieces, text[place:]])


def _after_space(text: bytes, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value_end(text: bytes, at: int) -> int:
    """Where the value that begins at `at` ends."""
    if text[at : at + 1] in (b"{", b"["):
        return _nested_end(text, at)
    found = (_STRING if text[at : at + 1] == b'"' else _PLAIN).match(text, at)
    return len(text) if found is None else found.end()


def _nested_end(text: bytes, at: int) -> int:
    depth = 0
    while (mark := _NEXT_MARK.search(text, at)) is not None:
        if mark[0] == b'"':
            at = _value_end(text, mark.start())
            continue
        depth += 1 if mark[0] in b"[{" else -1
        at = mark.end()
        if depth == 0:
            return at
    return len(text)
