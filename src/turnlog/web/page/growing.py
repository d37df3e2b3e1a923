"""The end of a text that is still being written, shown as what it is about to become.

Each of these is a function of the text alone. Nothing that was shown is taken back by it: only marks, not words, are
held back or completed.
"""

from __future__ import annotations

import re
from typing import Final

_UNFINISHED_LINE: Final = re.compile(r"[-=]+|[-*+]|\*+|#{1,6}|>+|`+|~+|\d{1,9}[.)]?|[\t |:-]+")
"""A last line of which nobody can tell yet whether it begins a list, a heading, a listing or goes on with a text."""

_LINE_CHARS: Final = 80
"""Marks of more characters are no longer about to become anything."""

_LINK_BEGUN: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*$")
_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_STAR_BEGUN: Final = re.compile(r"(?:^|[\s(])\*[^\s*][^*]*$")


def without_unfinished_line(text: str) -> str:
    """The text without a last line that is marks only."""
    head, _, line = text.rpartition("\n")
    return head if len(line) <= _LINE_CHARS and _UNFINISHED_LINE.fullmatch(line.strip(" \t")) else text


def healed(text: str) -> str:
    """The text of an unfinished paragraph with its open emphasis, code and link closed."""
    if text.count("`") % 2:
        head, _, tail = text.rpartition("`")
        return f"{text}`" if tail.strip() else head
    outside = _CODE_SPAN.sub("", text)
    if _LINK_BEGUN.search(outside) and (begun := _LINK_BEGUN.search(text)):
        text, outside = text[: begun.start()] + begun[1], _LINK_BEGUN.sub(r"\1", outside)
    for mark in ("**", "~~"):
        if outside.count(mark) % 2:
            text = _close(text, mark)
            outside = _close(outside, mark)
    return _close(text, "*") if _STAR_BEGUN.search(outside.replace("**", "")) else text


def _close(text: str, mark: str) -> str:
    """Close what `mark` has opened; a mark with nothing after it yet is left out."""
    head, _, tail = text.rpartition(mark)
    if not tail.strip():
        return head
    return text.rstrip().removesuffix(mark[0]) + mark if len(mark) == 2 else text.rstrip() + mark
