"""Finding: which lines of which files answer a question best.

A word that few files hold says more than one that all do, a line with two of the words more than two
lines with one each, and a definition or heading more than a mention.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from turnlog.agents.demo.bounds import HITS_PER_FILE_MAX
from turnlog.agents.demo.files import File, Folder, Listing, Problem, Text, problem
from turnlog.agents.demo.shown import shown_line
from turnlog.agents.demo.words import Term

_DEFINITION: Final = re.compile(
    r"^\s*(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|static|async|abstract|final|unsafe)\s+)*"
    r"(?:def|class|function|func|fn|struct|enum|trait|interface|type|const|let|var|module|mod|impl|package|macro_rules!"
    r"|#\s*define|create\s+(?:table|index|view))\s+[`\"']?(?P<name>[\w.$]+)|^(?P<assigned>[A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)",
    re.IGNORECASE,
)
_HEADING: Final = re.compile(r"^#{1,6}\s+\S|^\s*\*\*[^*]+\*\*:?\s*$")
_UNDERLINE: Final = re.compile(r"^(={3,}|-{3,}|~{3,})\s*$")
_PASSAGE_LINES: Final = 3
_MATCHES_MAX: Final = 20
_DEFINITION_CHARS: Final = 400

Patterns = Sequence[re.Pattern[str]]


@dataclass(frozen=True)
class Hit:
    """One line that matches. `terms` are the places of the matched terms with how well each matches (1 to 4)."""

    line: int
    text: str
    terms: tuple[tuple[int, float], ...]
    defines: bool
    heading: bool

    @property
    def strength(self) -> float:
        """How good the line is, not knowing yet how rare the terms are."""
        return sum(weight for _, weight in self.terms) + 4 * self.defines + 2 * self.heading


@dataclass
class Found:
    """What searching some files gave. `matches` counts matching lines by file, `files_with` files by term."""

    hits: dict[File, list[Hit]] = field(default_factory=dict)
    matches: Counter[File] = field(default_factory=Counter)
    files_with: Counter[int] = field(default_factory=Counter)
    searched: int = 0
    bytes: int = 0
    cut: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    skipped: Listing = field(default_factory=Listing)

    def add(self, other: Found) -> None:
        """Take over all that another search found."""
        self.hits |= other.hits
        self.matches += other.matches
        self.files_with += other.files_with
        self.searched += other.searched
        self.bytes += other.bytes
        self.cut += other.cut
        self.problems += other.problems
        self.skipped.add(other.skipped)


def search(folder: Folder, files: Sequence[File], terms: Sequence[Term]) -> Found:
    """Read `files` and keep their matching lines. A file that cannot be read is a problem of the result."""
    found = Found()
    patterns = [re.compile(term.pattern, re.IGNORECASE) for term in terms]
    any_term = re.compile("|".join(term.pattern for term in terms), re.IGNORECASE)
    for file in files:
        if folder.stop.is_set():
            break
        if folder.read_enough:
            found.skipped.skip("over the limit", file.path)
            continue
        try:
            text = folder.read(file)
        except OSError as error:
            found.problems.append(problem(file.parts, error))
            continue
        if isinstance(text, str):
            found.skipped.skip(text, file.path)
        else:
            likely = [line for line in enumerate(text.lines, 1) if any_term.search(line[1])]
            _note(file, text, _hits(text, likely, terms, patterns), found)
    return found


def _hits(text: Text, likely: Sequence[tuple[int, str]], terms: Sequence[Term], patterns: Patterns) -> list[Hit]:
    """Those of the `likely` lines that do match."""
    hits = []
    for number, line in likely:
        matched = tuple((place, weight) for place, weight in _matched(line, terms, patterns) if weight)
        if matched:
            hits.append(_hit(text.lines, number, matched, terms, patterns))
    return hits


def _note(file: File, text: Text, hits: Sequence[Hit], found: Found) -> None:
    found.searched += 1
    found.bytes += file.bytes
    if text.cut:
        found.cut.append(file.path)
    if hits:
        found.matches[file] = len(hits)
        found.files_with.update({place for hit in hits for place, _ in hit.terms})
        best = heapq.nlargest(HITS_PER_FILE_MAX, hits, key=lambda hit: (hit.strength, -hit.line))
        found.hits[file] = sorted(best, key=lambda hit: hit.line)


def _matched(line: str, terms: Sequence[Term], patterns: Patterns) -> list[tuple[int, float]]:
    return [
        (place, max(term.weight(line, *match.span()) for match in matches))
        for place, (term, pattern) in enumerate(zip(terms, patterns, strict=True))
        if (matches := list(islice(pattern.finditer(line), _MATCHES_MAX)))
    ]


def _hit(
    lines: Sequence[str],
    number: int,
    matched: tuple[tuple[int, float], ...],
    terms: Sequence[Term],
    patterns: Patterns,
) -> Hit:
    line = lines[number - 1]
    first = patterns[matched[0][0]].search(line)
    name = defined_name(line)
    defines = name is not None and any(
        (match := patterns[place].search(name)) and terms[place].weight(name, *match.span()) for place, _ in matched
    )
    below = lines[number] if number < len(lines) else ""
    return Hit(number, shown_line(line, first.start() if first else 0), matched, defines, is_heading(line, below))


def defined_name(line: str) -> str | None:
    """The name that a line of code defines, in most languages."""
    match = _DEFINITION.match(line[:_DEFINITION_CHARS])
    return None if match is None else match["name"] or match["assigned"]


def is_heading(line: str, below: str = "") -> bool:
    """Whether a line of a document is a heading; `below` is the line after it."""
    return bool(_HEADING.match(line)) or (bool(line.strip()) and bool(_UNDERLINE.match(below)))


@dataclass(frozen=True)
class Passage:
    """Matching lines close to each other in one file, with what they are worth together."""

    file: File
    hits: tuple[Hit, ...]
    score: float

    @property
    def best(self) -> Hit:
        """The line to point at."""
        return max(self.hits, key=lambda hit: (hit.strength, -hit.line))


def rank(found: Found, terms: Sequence[Term], *, prefer_definitions: bool = False) -> list[Passage]:
    """All passages, the best first, in an order that depends on nothing but the files and terms."""
    rarity = [math.log(1 + (found.searched + 1) / (found.files_with[place] + 0.5)) for place in range(len(terms))]
    passages = [
        Passage(file, tuple(group), _score(file, group, terms, rarity, prefer_definitions))
        for file, hits in found.hits.items()
        for group in _grouped(hits)
    ]
    return sorted(passages, key=lambda passage: (-passage.score, passage.file.parts, passage.hits[0].line))


def _grouped(hits: Sequence[Hit]) -> list[list[Hit]]:
    groups: list[list[Hit]] = []
    for hit in hits:
        if groups and hit.line - groups[-1][-1].line <= _PASSAGE_LINES:
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return groups


def _score(
    file: File, hits: Sequence[Hit], terms: Sequence[Term], rarity: Sequence[float], prefer_definitions: bool
) -> float:
    best: dict[int, float] = {}
    for hit in hits:
        for place, weight in hit.terms:
            best[place] = max(best.get(place, 0.0), weight)
    score: float = sum(rarity[place] * weight for place, weight in best.items()) * math.pow(len(best), 1.5)
    if any(hit.defines for hit in hits):
        score *= 8 if prefer_definitions else 1.6
    elif any(hit.heading for hit in hits):
        score *= 1.5
    return score * (1 + 0.25 * named(file, terms)) * (0.6 if _is_test(file) else 1.0)


def named(file: File, terms: Sequence[Term]) -> int:
    """How many of the terms the file's path holds."""
    path = "/".join(file.parts)
    matches = ((term, re.search(term.pattern, path, re.IGNORECASE)) for term in terms)
    return sum(1 for term, match in matches if match and term.weight(path, *match.span()))


def _is_test(file: File) -> bool:
    return any(part.lower() in ("test", "tests", "spec", "__tests__") for part in file.parts[:-1])
