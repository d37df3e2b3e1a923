"""What a text is about, from its own words: title, first paragraph, outline, kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from turnlog.agents.demo.bounds import OUTLINE_LINES_MAX
from turnlog.agents.demo.files import File
from turnlog.agents.demo.search import defined_name, is_heading
from turnlog.agents.demo.shown import counted, joined

_PARAGRAPH_LINES_MAX: Final = 6
_NOT_PROSE: Final = re.compile(
    r"^\s*(?:$|#|=|-{3}|\*{3}|<|\[!\[|!\[|\||```|~~~|//|/\*|\*/|import |from |use |package |\W*$)"
)
_COMMENT: Final = re.compile(r"^\s*(?:\"\"\"|'''|#+!?|//+!?|/\*+|\*|--|;+)\s?")
_INDENTED: Final = re.compile(r"^\s{8,}")

KINDS: Final[dict[str, tuple[str, str]]] = {
    ".py": ("Python", "python"),
    ".pyi": ("Python", "python"),
    ".md": ("Markdown", "markdown"),
    ".rst": ("reStructuredText", "rst"),
    ".txt": ("text", ""),
    ".js": ("JavaScript", "javascript"),
    ".mjs": ("JavaScript", "javascript"),
    ".jsx": ("JavaScript", "jsx"),
    ".ts": ("TypeScript", "typescript"),
    ".tsx": ("TypeScript", "tsx"),
    ".rs": ("Rust", "rust"),
    ".go": ("Go", "go"),
    ".java": ("Java", "java"),
    ".c": ("C", "c"),
    ".h": ("C", "c"),
    ".cpp": ("C++", "cpp"),
    ".rb": ("Ruby", "ruby"),
    ".sh": ("shell", "bash"),
    ".sql": ("SQL", "sql"),
    ".json": ("JSON", "json"),
    ".toml": ("TOML", "toml"),
    ".yaml": ("YAML", "yaml"),
    ".yml": ("YAML", "yaml"),
    ".html": ("HTML", "html"),
    ".css": ("CSS", "css"),
    ".csv": ("CSV", ""),
}
"""By the end of a file's name: the kind in words, and its name in a fenced block."""

_DOCUMENTS: Final = frozenset({".md", ".rst", ".txt", ""})
_FRONT_NAMES: Final = ("readme", "index", "__init__", "main", "mod", "lib")


def kinds(files: Iterable[File], shown_max: int = 5) -> str:
    """How many files of which kind, the most frequent first: "12 Python, 3 Markdown and 2 other files"."""
    by_kind = Counter(KINDS.get(file.suffix, ("other", ""))[0] for file in files)
    others = by_kind.pop("other", 0)
    frequent = sorted(by_kind.items(), key=lambda pair: (-pair[1], pair[0]))
    others += sum(number for _, number in frequent[shown_max:])
    parts = [f"{number:,} {kind}" for kind, number in frequent[:shown_max]]
    if others:
        parts.append(f"{others:,} other" if parts else f"{others:,}")
    last = others or (frequent[0][1] if len(frequent) == 1 else 2)
    return f"{joined(parts)} {'file' if last == 1 else 'files'}" if parts else counted(0, "file")


def language(file: File) -> str:
    """The name of a file's language for a fenced block, or ""."""
    return KINDS.get(file.suffix, ("", ""))[1]


def front_page(files: Sequence[File]) -> File | None:
    """The file that introduces a folder, if there is one; `files` are its files, the outer ones first."""
    for name in _FRONT_NAMES:
        for file in files:
            stem = file.parts[-1].lower().partition(".")[0]
            if stem == name and (file.suffix in KINDS or not file.suffix):
                return file
    return None


def title(lines: Sequence[str]) -> str | None:
    """The first heading of a document, without its marks."""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and is_heading(line, below):
            return line.strip().strip("#*").strip()
        if line.strip() and not _NOT_PROSE.match(line):
            return None
    return None


def first_paragraph(lines: Sequence[str], file: File) -> tuple[int, list[str]]:
    """The first lines of prose with the number of their first line; (0, []) when there are none.

    In code that is the comment or docstring it begins with.
    """
    if file.suffix not in _DOCUMENTS:
        return _first_comment(lines)
    fenced = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        below = lines[at + 1] if at + 1 < len(lines) else ""
        if fenced or _NOT_PROSE.match(line) or _INDENTED.match(line) or is_heading(line, below):
            continue
        return at + 1, _until_blank(lines[at:])
    return 0, []


def _until_blank(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for line in lines[:_PARAGRAPH_LINES_MAX]:
        if not line.strip() or is_heading(line):
            break
        kept.append(line)
    return kept


def _first_comment(lines: Sequence[str]) -> tuple[int, list[str]]:
    for at, line in enumerate(lines[:20]):
        opening = _COMMENT.match(line)
        if line.startswith("#!") or not line.strip():
            continue
        if opening is None:
            return 0, []
        text = _COMMENT.sub("", line).strip("\"'*/ ")
        if text:
            return at + 1, [text]
    return 0, []


def outline(lines: Sequence[str], file: File) -> list[tuple[int, str]]:
    """The headings of a document or the top-level definitions of a program, with their lines, the first ones."""
    found = []
    fenced = False
    document = file.suffix in _DOCUMENTS
    for number, line in enumerate(lines, 1):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        below = lines[number] if number < len(lines) else ""
        if document and not fenced and is_heading(line, below):
            found.append((number, line.strip()))
        elif not document and line[:1].strip() and defined_name(line) is not None:
            found.append((number, line.strip().rstrip("{:").strip()))
        if len(found) == OUTLINE_LINES_MAX:
            break
    return found
