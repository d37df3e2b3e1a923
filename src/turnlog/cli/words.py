"""Text from the log on a terminal: ids as a shell takes them, and nothing in it that commands a terminal.

What a model, a file or another program wrote may hold escape sequences. Shown raw, they could move the cursor over what
was printed before, set titles or turn the reading direction around.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import Final

# Controls, ends of lines of others, halves of characters; then what is not seen and makes two texts look the same or
# hides one: marks of direction, joiners of words, annotations, tags. The joiners U+200C and U+200D belong to words and
# to pictures of several people, and stay.
_CONTROLS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_HARMFUL: Final = re.compile(f"[{_CONTROLS}]")
_NOT_ON_ONE_LINE: Final = re.compile(f"[\t\n{_CONTROLS}]")
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def harmless(text: str) -> str:
    """Text of several lines with its control characters written as escapes, `\\x1b` for one."""
    return _HARMFUL.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: ends of lines and tabs become spaces."""
    return harmless(" ".join(text.split()))


def shell_word(text: str) -> str:
    """An id as one word of a shell, on one line, so that what is shown can be typed; plain ids stay as they are."""
    if not _NOT_ON_ONE_LINE.search(text):
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _NOT_ON_ONE_LINE.sub(_escape, quoted) + "'"


def command(name: str, *ids: str, options: tuple[str, ...] = ()) -> str:
    """A command line as a person would type it. Options are `--name` or `--name=value`; an id is never one."""
    dashes = ["--"] if any(word.startswith("-") for word in ids) else []
    return " ".join(["turnlog", name, *map(_option, options), *dashes, *map(shell_word, ids)])


def _option(option: str) -> str:
    name, equals, value = option.partition("=")
    return name + equals + (shell_word(value) if equals else "")


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    # An argument that was no text keeps its bytes as these surrogates: back in a shell, they are bytes again.
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut_to(text: str, columns: int) -> str:
    """The beginning of one line that fits into so many columns of a terminal."""
    used = fits = 0
    for index, char in enumerate(text, 1):
        used += 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > columns:
            return text[:fits] + "…"
        if used < columns:  # with room for the sign
            fits = index
    return text


def duration(us: int) -> str:
    """A time span: ms under 1 s, else to 0.1 s, from a minute on in minutes and seconds."""
    if us < 1_000_000:
        return f"{max(us, 0) // 1_000} ms"
    if us < 60_000_000:
        return f"{us / 1_000_000:.1f} s"
    minutes, seconds = divmod(us // 1_000_000, 60)
    return f"{minutes} min {seconds} s"


def size(count: int) -> str:
    """A number of bytes."""
    return (
        f"{count} bytes"
        if count < 1_000
        else f"{count / 1_000:.1f} kB"
        if count < 1_000_000
        else f"{count / 1e6:.1f} MB"
    )


def plural(count: int, thing: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
