"""Words: how those of a question are compared with those of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["word", "name", "phrase"]

_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_ENDINGS: Final = ("ations", "ation", "ings", "ing", "edly", "ers", "ies", "ied", "ed", "er", "es", "ly", "s", "e", "y")
# Scripts that put no spaces between words: Han, Hiragana, Katakana, Thai.
_SPACELESS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]+")
_STEM_CHARS_MIN: Final = 3
# Encoded data has words of a megabyte; reading them to their ends at each match would take forever.
_WORD_CHARS_MAX: Final = 64


def stem(word: str) -> str:
    """The part of a word that its other forms share: "settled", "settles" and "settling" are one."""
    word = word.casefold()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS_MIN:
            word = word[: -len(ending)]
            break
    if len(word) > _STEM_CHARS_MIN and word[-1] == word[-2] and word[-1] not in "aeiouls":
        return word[:-1]
    return word


def name_parts(name: str) -> list[str]:
    """The words inside a name of code: `OpenTurnsMax` and `open_turns_max` both have three."""
    return _PARTS.findall(name)


def spaceless(text: str) -> list[str]:
    """Pairs of characters from scripts without spaces, in order, each once: what such text is searched by."""
    pairs = []
    for run in _SPACELESS.findall(text):
        pairs += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    return list(dict.fromkeys(pairs))


@dataclass(frozen=True)
class Term:
    """One thing to look for. A *word* matches its forms; a *name* of code and a *phrase* match as they are written."""

    text: str
    role: Role = "word"

    @property
    def pattern(self) -> str:
        """A regular expression that finds at least every match, ignoring case."""
        if self.role == "phrase":
            return r"\s+".join(re.escape(part) for part in self.text.split())
        if self.role == "name":
            return r"[\W_]?".join(re.escape(part) for part in name_parts(self.text)) or re.escape(self.text)
        return re.escape(self.text if _SPACELESS.search(self.text) else stem(self.text))

    def weight(self, line: str, start: int, end: int) -> float:
        """How well the text found at `line[start:end]` matches: 3 as it is, 2 another form, 1 inside a name, 0 not."""
        if self.role == "phrase":
            return 4.0
        first, last = max(0, start - _WORD_CHARS_MAX), min(len(line), end + _WORD_CHARS_MAX)
        while start > first and _in_word(line[start - 1]):
            start -= 1
        while end < last and _in_word(line[end]):
            end += 1
        found = line[start:end]
        if found == self.text or (self.role == "word" and found.casefold() == self.text.casefold()):
            return 3.0
        if self.role == "name":
            return 2.0 if found.casefold() == self.text.casefold() else 1.0
        if _SPACELESS.search(self.text):
            return 2.0
        wanted = stem(self.text)
        if stem(found) == wanted:
            return 2.0
        return 1.0 if any(stem(part) == wanted for part in name_parts(found)) else 0.0


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()
