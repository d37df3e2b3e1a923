"""Text on a terminal, ids in a shell."""

from __future__ import annotations

import os
import subprocess
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnlog.cli.words import command, cut_to, duration, harmless, one_line, shell_word

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


def in_bash(line: str) -> list[bytes]:
    """The words that a shell makes of a line."""
    ran = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True
    )
    return ran.stdout.split(b"\0")[:-1]


@settings(max_examples=60)
@example("a\n")
@example("-rf")
@example("../x")
@example("it's")
@example("back\\slash\n'")
@example("é\u0085\u202e\x1b]0;x\x07")
@given(IDS)
def test_an_id_is_shown_as_a_word_that_can_be_typed(thread: str) -> None:
    """C33: an id is shown on one line, without control characters, and a shell makes the very same id of it."""
    word = shell_word(thread)
    assert harmless(word) == word
    assert "\n" not in word
    assert in_bash(word) == [thread.encode()]


def test_an_argument_that_was_no_text_is_typed_as_its_bytes() -> None:
    """C33: an id of bytes that are not UTF-8 is shown so that a shell makes the same bytes of it."""
    assert in_bash(shell_word(os.fsdecode(b"caf\xe9 1"))) == [b"caf\xe9 1"]


@pytest.mark.parametrize("thread", ["-rf", "--help", "-"])
def test_advice_never_makes_a_flag_of_an_id(thread: str) -> None:
    """C33: in a command line that is shown as advice, an id that looks like a flag comes after the dashes."""
    words = in_bash(command("show", thread, options=("--store=sqlite:///a b.db",)))
    assert words == [b"turnlog", b"show", b"--store=sqlite:///a b.db", b"--", thread.encode()]


@given(TEXT)
def test_no_text_commands_a_terminal(text: str) -> None:
    """Text is shown without a character that moves the cursor, begins an escape sequence or turns the direction."""
    shown = harmless(text)
    assert not [char for char in shown if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]
    assert not set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029") & set(shown)


def test_nothing_unseen_is_shown_as_it_is() -> None:
    """C33: every format character, which nobody sees, is shown as an escape and typed back as itself; only joiners that
    belong to words, and those that are seen or set hieroglyphs, stay."""
    stay = {0x200C, 0x200D, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    stay |= set(range(0x13430, 0x13460))
    unseen = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf" and code not in stay]
    assert {"\u061c", "\u200b", "\U000e0001", "\U000e007f"} <= set(unseen)
    assert [char for char in unseen if char in harmless(char)] == []
    assert in_bash(" ".join(map(shell_word, unseen))) == [char.encode() for char in unseen]
    assert harmless("\u200c\u200d") == "\u200c\u200d"


@given(TEXT)
def test_one_line_is_one_line(text: str) -> None:
    """A title is one line, whatever ends of lines it has."""
    assert not set("\n\r\t\v\f\x85\u2028\u2029") & set(one_line(text))


def width(text: str) -> int:
    """Columns of a terminal: none for a mark on another character, two for a wide one."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" and not unicodedata.combining(char) for char in text)
    return wide + sum(not unicodedata.combining(char) for char in text)


@given(TEXT, st.integers(2, 30))
@example("00\u0300\u03000", 2)
def test_a_cut_says_so(text: str, columns: int) -> None:
    """A line that is too long for the terminal ends with the sign of a cut, and one that fits is whole."""
    shown = cut_to(text, columns)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]) and width(shown) <= columns)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 ms"),
        (12_900, "12 ms"),
        (999_999, "999 ms"),
        (1_000_000, "1.0 s"),
        (61_500_000, "1 min 1 s"),
        (-5, "0 ms"),
    ],
)
def test_a_duration_is_readable(us: int, text: str) -> None:
    """A duration is in ms under a second, then to a tenth of a second, then in minutes; never negative."""
    assert duration(us) == text
