"""Text of files and file names as it may be shown: one form a name, nothing that could steer a terminal or Markdown.

File names are bytes: they may hold line feeds, control characters and bytes that are no text. What is shown of one is
injective, so two files never look the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from turnlog.agents.demo.bounds import LINE_CHARS_MAX

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def shown_name(name: str) -> str:
    """A file name or path for people: backslashes doubled, what has no glyph of its own as an escape."""
    return "".join(_shown_char(char) for char in name)


def _shown_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # How Python carries a byte of a name that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown_text(text: str) -> str:
    """A line of a file's text for people: tabs become spaces, other characters without a glyph become visible."""
    if text.isprintable():
        return text
    return "".join(_visible(char) for char in text.expandtabs(4))


def _visible(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs" or char == "\u200d":
        return char
    code = ord(char)
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def shown_line(text: str, around: int = 0) -> str:
    """At most `LINE_CHARS_MAX` characters of a line, those about the character `around`; cuts are marked `…`."""
    if len(text) <= LINE_CHARS_MAX:
        return shown_text(text)
    start = max(0, min(around - LINE_CHARS_MAX // 3, len(text) - LINE_CHARS_MAX))
    end = start + LINE_CHARS_MAX
    return ("…" if start else "") + shown_text(text[start:end]) + ("…" if end < len(text) else "")


def code(text: str) -> str:
    """`text` as a Markdown code span, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`" if text else "` `"
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}"


def fence(lines: Sequence[str], language: str = "") -> str:
    """`lines` as a fenced Markdown block, whatever fences they hold."""
    longest = max((len(run) for line in lines for run in re.findall("`{3,}", line)), default=2)
    ticks = "`" * (longest + 1)
    return "\n".join([f"{ticks}{language}", *lines, ticks])


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: "1 file", "2 files"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """A number of bytes for people."""
    if number < 1_000:
        return counted(number, "byte")
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if number < scale * 1_000 or unit == "GB":
            break
    return f"{number / scale:.1f} {unit}"


def joined(parts: Sequence[str]) -> str:
    """Parts as prose: "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def bounded(lines: Sequence[str], chars_max: int) -> str:
    """Lines joined, as many as fit into `chars_max`; a last line says how many do not."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += len(line) + 1
        if used > chars_max - 40:
            kept.append(f"… {counted(len(lines) - len(kept), 'more line')}")
            break
        kept.append(line)
    return "\n".join(kept)
