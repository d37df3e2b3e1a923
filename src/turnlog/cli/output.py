"""The only place that prints: text for people with or without colour, JSON for programs, complaints for both."""

from __future__ import annotations

import codecs
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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

# In JSON text these stand in strings only; in UTF-8 no other character has such bytes.
_RAW_CONTROLS: Final = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


class OutputLost(OSError):
    """Standard output could not be written."""

    @property
    def unread(self) -> bool:
        """Whether whoever read it went away, as the end of a pipe or a terminal does, and is told nothing."""
        return self.errno in (errno.EPIPE, errno.EIO)


@contextmanager
def written() -> Iterator[None]:
    """Raise what goes wrong in writing standard output as `OutputLost`."""
    try:
        yield
    except OSError as error:
        raise OutputLost(error.errno, error.strerror) from error


def open_streams() -> None:
    """Give every standard stream that was closed when we started (`>&-`) a place: nothing else may take its number.

    Nothing comes from such an input or gets out by such an output; writing to the latter fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


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
        self._put(self.styled(text, style))

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
            self._put(self.styled(text, "dim"))
            self._status = text
        self.flush()

    def _erase(self) -> None:
        if self._status:
            self._put("\r\x1b[2K")
            self._status = ""

    def _put(self, text: str) -> None:
        with written():
            self._stream.write(text)

    def json(self, data: bytes) -> None:
        """One JSON value as a line of UTF-8, whatever the locale."""
        with written():
            self._stream.flush()
            self._stream.buffer.write(_without_controls(data) + b"\n")

    def json_list(self, name: str, values: Iterable[bytes], rest: Callable[[], bytes] = bytes) -> None:
        """One JSON object as a line, whose field `name` is a list of JSON values, written as they come.

        `rest` gives at the end an object with its other fields, which may be empty bytes.
        """
        with written():
            self._stream.flush()
            buffer = self._stream.buffer
            buffer.write(b'{"' + name.encode() + b'":[')
            for number, value in enumerate(values):
                buffer.write((b"," if number else b"") + _without_controls(value))
            more = rest()
            buffer.write(b"]," + more[1:] + b"\n" if more else b"]}\n")

    def flush(self) -> None:
        """Hand everything to who reads."""
        with written():
            self._stream.flush()


def _without_controls(data: bytes) -> bytes:
    """JSON text with U+007F to U+009F as escapes: the same value, and nothing that commands a terminal."""
    return _RAW_CONTROLS.sub(lambda control: f"\\u{ord(control[0].decode()):04x}".encode(), data)


def complain(text: str) -> None:
    """A sentence on standard error."""
    with _complaining():
        _be_lenient(sys.stderr)
        print(text, file=sys.stderr, flush=True)


def complain_json(data: bytes) -> None:
    """One JSON object on standard error."""
    with _complaining():
        sys.stderr.flush()
        sys.stderr.buffer.write(_without_controls(data) + b"\n")
        sys.stderr.buffer.flush()


@contextmanager
def _complaining() -> Iterator[None]:
    """Let nothing end because it could not be complained about: there is nobody left to tell."""
    try:
        yield
    except OSError:
        _let_go(sys.stderr)


def silence() -> None:
    """Standard output cannot be written any more: let what is still buffered, and what comes, go nowhere."""
    _let_go(sys.stdout)


def _let_go(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _be_lenient(stream: Any) -> None:
    stream.reconfigure(errors="turnlog_plain_form")
