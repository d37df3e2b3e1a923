"""The only place that prints: text for people with or without colour, JSON for programs, complaints for both."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from typing import Any, Final, Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["plain", "dim", "bold", "red", "yellow", "green"]

_CODES: Final[dict[Style, str]] = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32"}
_PLAIN_FORMS: Final = {"…": "...", "·": "-", "▸": ">", "—": "-", "“": '"', "”": '"', "’": "'", "×": "x"}
_COLUMNS_LEAST: Final = 20
_COLUMNS_ELSEWHERE: Final = 200


def _plain_form(error: UnicodeError) -> tuple[str, int]:
    """What a terminal that lacks a character shows instead: its plain form, else its number as an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    parts = []
    for char in error.object[error.start : error.end]:
        escaped = char.encode("ascii", "backslashreplace").decode()
        parts.append(_PLAIN_FORMS.get(char, escaped))
    return "".join(parts), error.end


codecs.register_error("turnlog_plain_form", _plain_form)


class Output:
    """Standard output. Text given to it has been made harmless; it adds colour only on a terminal that wants it."""

    def __init__(self) -> None:
        self._stream: TextIO = sys.stdout
        _be_lenient(self._stream)
        self.terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self.terminal and not os.environ.get("NO_COLOR")
        self._status = ""

    @property
    def columns(self) -> int:
        """The width of the terminal; a file or a pipe is wide."""
        if not self.terminal:
            return _COLUMNS_ELSEWHERE
        return max(_COLUMNS_LEAST, shutil.get_terminal_size().columns)

    def write(self, text: str, style: Style = "plain") -> None:
        """Text that may go on in the same line."""
        if self._status:
            self._erase()
        self._stream.write(self.styled(text, style))

    def line(self, text: str = "", style: Style = "plain") -> None:
        """A whole line."""
        self.write(text, style)
        self.write("\n")

    def styled(self, text: str, style: Style) -> str:
        """Text in a style, each line of it on its own so that a pager shows it too."""
        if style == "plain" or not self._colour:
            return text
        start, end = f"\x1b[{_CODES[style]}m", "\x1b[0m"
        return "\n".join(f"{start}{line}{end}" if line else "" for line in text.split("\n"))

    def status(self, text: str) -> None:
        """A line that the next output replaces. Only at the beginning of a line, and only a terminal shows it."""
        if self.terminal and text != self._status:
            self._erase()
            self._stream.write(self.styled(text, "dim"))
            self._status = text
        self.flush()

    def _erase(self) -> None:
        if self._status:
            self._stream.write("\r\x1b[2K")
            self._status = ""

    def json(self, data: bytes) -> None:
        """One JSON value as a line of UTF-8, whatever the locale."""
        self._stream.flush()
        self._stream.buffer.write(data + b"\n")

    def flush(self) -> None:
        """Hand everything to who reads."""
        self._stream.flush()


def complain(text: str) -> None:
    """A sentence on standard error."""
    _be_lenient(sys.stderr)
    print(text, file=sys.stderr, flush=True)


def complain_json(data: bytes) -> None:
    """One JSON object on standard error."""
    sys.stderr.flush()
    sys.stderr.buffer.write(data + b"\n")
    sys.stderr.buffer.flush()


def silence() -> None:
    """Whoever read standard output is gone: let what is still buffered go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _be_lenient(stream: Any) -> None:
    stream.reconfigure(errors="turnlog_plain_form")
