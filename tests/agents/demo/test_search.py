"""What the demo agent finds, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.demo.asking import write
from turnlog.agents.demo.bounds import LINE_CHARS_MAX
from turnlog.agents.demo.files import Folder
from turnlog.agents.demo.search import Passage, defined_name, rank, search
from turnlog.agents.demo.shown import code, fence
from turnlog.agents.demo.words import Term


def ranked(folder: Path, *terms: str, define: bool = False) -> list[Passage]:
    wanted = [Term(text, "phrase" if " " in text else "word") for text in terms]
    reading = Folder(folder)
    return rank(search(reading, reading.listing().files, wanted), wanted, prefer_definitions=define)


def places(passages: list[Passage]) -> list[str]:
    return [f"{passage.file.path}:{passage.best.line}" for passage in passages]


def test_a_rare_word_says_more(tmp_path: Path) -> None:
    """The one place of a rare word comes before the many places of a frequent one."""
    write(tmp_path, a_txt="turn\n", b_txt="turn\n", c_txt="turn\n", d_txt="epoch\n")
    assert places(ranked(tmp_path, "turn", "epoch"))[0] == "d.txt:1"


def test_words_together_say_more(tmp_path: Path) -> None:
    """Two words in neighbouring lines come before each of them alone."""
    write(tmp_path, a_txt="lease\n" * 5, b_txt="owner\n" * 5, c_txt="x\nthe owner\nhas a lease\n")
    assert places(ranked(tmp_path, "owner", "lease"))[0] == "c.txt:2"


def test_two_words_together_say_more_than_a_rarer_one(tmp_path: Path) -> None:
    """A place that holds two of the words comes before one that holds only a rarer one."""
    write(tmp_path, **{f"{number}_txt": "lease\n\n\n\n\nowner\n" for number in range(8)})
    write(tmp_path, both_txt="owner of a lease\n", rare_txt="epoch\n")
    assert places(ranked(tmp_path, "owner", "lease", "epoch"))[0] == "both.txt:1"


def test_a_definition_comes_first_when_asked_for(tmp_path: Path) -> None:
    """Where a name is defined comes before where it is used, in a file that comes later too."""
    write(tmp_path, a_py="x = fence(1)\nfence(2)\n", z_py="# about\n\n\n\ndef fence(n):\n    return n\n")
    assert places(ranked(tmp_path, "fence", define=True))[0] == "z.py:5"


def test_a_heading_comes_before_a_mention(tmp_path: Path) -> None:
    """A heading about the word is a better place than a sentence with it."""
    write(tmp_path, a_md="We renew the lease.\n", b_md="text\n\n\n\n\n## Lease\n\nIt runs.\n")
    assert places(ranked(tmp_path, "lease"))[0] == "b.md:6"


def test_other_forms_and_parts_of_names_match(tmp_path: Path) -> None:
    """A word is found in its other forms and inside names of code, and not inside other words."""
    write(tmp_path, a_txt="settled\nsettling\nlate_settle_now\nLateSettleNow\nunsettledness\n")
    (passage,) = ranked(tmp_path, "settle")
    assert [hit.line for hit in passage.hits] == [1, 2, 3, 4]


def test_a_phrase_matches_as_a_whole(tmp_path: Path) -> None:
    """What was quoted is found with its words in order and next to each other."""
    write(tmp_path, a_txt="lock of the owner\nthe owner  lock\n")
    assert places(ranked(tmp_path, "owner lock")) == ["a.txt:2"]


@pytest.mark.timeout(20)
def test_a_line_of_a_megabyte_is_no_trap(tmp_path: Path) -> None:
    """P11: files with half a million matches in one line of one word cost little more than reading them."""
    write(tmp_path, **{f"{number}_js": "ab" * 500_000 for number in range(12)})
    assert ranked(tmp_path, "abab") == []


def test_a_long_line_is_quoted_around_the_match(tmp_path: Path) -> None:
    """Of a long line the part with the word is shown, and the cuts are marked."""
    write(tmp_path, a_js="x " * 5_000 + "needle" + " y" * 5_000)
    (passage,) = ranked(tmp_path, "needle")
    text = passage.best.text
    assert "needle" in text
    assert len(text) <= LINE_CHARS_MAX + 2
    assert text.startswith("…")
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    async def run(self):", "run"),
        ("export default class App {", "App"),
        ("pub(crate) fn open() {", "open"),
        ("LIMIT: Final = 3", "LIMIT"),
        ("limit = 3", "limit"),
        ("#define MAX 3", "MAX"),
        ("CREATE TABLE turns (", "turns"),
        ("if limit == 3:", None),
        ("return limit", None),
    ],
)
def test_definitions_are_told_from_uses(line: str, name: str | None) -> None:
    """The name that a line defines, in the languages people mostly use."""
    assert defined_name(line) == name


def test_quotes_hold_any_text() -> None:
    """A quoted text with backticks or fences of its own cannot end its quote."""
    assert code("a``b") == "``` a``b ```"
    assert fence(["````", "x"], "md") == "`````md\n````\nx\n`````"
