"""The answers, in plain Markdown. Pure: everything they say was found before."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnlog.agents.demo.bounds import ANSWER_CHARS_MAX, LIST_LINES_MAX, MENTIONS_MAX, QUOTE_LINES_MAX
from turnlog.agents.demo.describe import first_paragraph, kinds, language, outline, title
from turnlog.agents.demo.files import File, Listing, Parts, Problem, SkipWhy, Text
from turnlog.agents.demo.question import Question
from turnlog.agents.demo.search import Found, Passage
from turnlog.agents.demo.shown import bounded, code, counted, fence, joined, shown_line, shown_name, size
from turnlog.agents.demo.words import Term


@dataclass(frozen=True)
class Quote:
    """Lines of a file as they were read; `line` is the number of the first one, `point` of the one meant."""

    file: File
    line: int
    lines: Sequence[str]
    point: int

    @property
    def place(self) -> str:
        """`path:line`."""
        return f"{self.file.path}:{self.point}"

    def block(self) -> str:
        """The quote, its place above it."""
        shown = [shown_line(line) for line in self.lines]
        return f"{code(self.place)}\n\n{fence(shown, language(self.file))}"


@dataclass(frozen=True)
class FolderNote:
    """What a sub-agent learned about one folder."""

    parts: Parts
    files: Sequence[File]
    about: str = ""
    place: str = ""


@dataclass
class Scope:
    """Where was looked, and what was left out: the last line of each answer."""

    listing: Listing
    unknown: list[str] = field(default_factory=list)
    """Paths of the question that do not exist here."""


def finished(parts: Sequence[str]) -> str:
    """Paragraphs as one answer, within its bound."""
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= ANSWER_CHARS_MAX else text[: ANSWER_CHARS_MAX - 1] + "…"


def terms_text(terms: Sequence[Term]) -> str:
    """What was looked for: "`lease` and `fence`"."""
    return joined([code(shown_name(term.text[:60])) for term in terms])


def searched(found: Found, scope: Scope) -> str:
    """The closing line of a search: how much was read, what was not."""
    folders = len({file.parts[:-1] for file in scope.listing.files})
    line = f"I searched {counted(found.searched, 'file')} in {counted(folders, 'folder')} ({size(found.bytes)})."
    notes = [line, *_left_out(scope.listing, found.skipped), *_troubles([*scope.listing.problems, *found.problems])]
    if found.cut:
        notes.append(f"Of {_some(found.cut)} only the beginning.")
    return " ".join(notes)


def _left_out(*listings: Listing) -> list[str]:
    skipped: dict[SkipWhy, list[str]] = {}
    for listing in listings:
        for why, paths in listing.skipped.items():
            skipped.setdefault(why, []).extend(paths)
    if not skipped:
        return []
    parts = [f"{_some(paths)} ({why})" for why, paths in sorted(skipped.items())]
    return [f"Left out: {'; '.join(parts)}."]


def _troubles(problems: Sequence[Problem]) -> list[str]:
    if not problems:
        return []
    shown = [f"{code(trouble.path)} ({trouble.failure.reason})" for trouble in problems[:3]]
    rest = len(problems) - len(shown)
    return [f"I could not read {joined([*shown, f'{rest} more'] if rest else shown)}."]


def _some(paths: Sequence[str], shown_max: int = 4) -> str:
    shown = [code(path) for path in paths[:shown_max]]
    rest = len(paths) - len(shown)
    return joined([*shown, f"{rest:,} more"] if rest else shown)


def found_answer(
    question: Question, found: Found, passages: Sequence[Passage], quotes: Sequence[Quote], scope: Scope
) -> str:
    """The answer of a search that found something."""
    lines, files = sum(found.matches.values()), len(found.matches)
    wanted = terms_text(question.terms)
    where = f"in {counted(lines, 'line')} of {counted(files, 'file')}"
    best = passages[0]
    if question.want == "define" and best.best.defines:
        lead = f"{wanted} is defined in {code(f'{best.file.path}:{best.best.line}')}; it comes up {where}."
    elif len(question.terms) == 1:
        lead = f"{wanted} comes up {where}."
    else:
        lead = f"{wanted} come up {where}; first where they stand closest together."
    return finished(
        [
            _carried(question) + lead,
            _unknown(scope),
            *(quote.block() for quote in quotes),
            mentions(passages, quotes),
            searched(found, scope),
        ]
    )


def _carried(question: Question) -> str:
    return "About what you asked before: " if question.carried else ""


def _unknown(scope: Scope) -> str:
    return f"There is no {joined([code(shown_name(path)) for path in scope.unknown])} here." if scope.unknown else ""


def mentions(passages: Sequence[Passage], quotes: Sequence[Quote]) -> str:
    """Further places, a line each, those not quoted already."""
    told = {(quote.file, line) for quote in quotes for line in range(quote.line, quote.line + len(quote.lines))}
    lines = []
    for passage in passages:
        hit = passage.best
        if (passage.file, hit.line) not in told:
            lines.append(f"- {code(f'{passage.file.path}:{hit.line}')} {code(hit.text.strip())}")
    if not lines:
        return ""
    rest = len(lines) - MENTIONS_MAX
    more = [f"- and {counted(rest, 'more place')}"] if rest > 0 else []
    return "\n".join(["Also:", "", *lines[:MENTIONS_MAX], *more])


def nothing_answer(question: Question, found: Found, scope: Scope, names: Sequence[File]) -> str:
    """The answer of a search that found nothing: what was looked for, where, and what might help."""
    wanted = terms_text(question.terms)
    named = f"But its name fits: {_some([file.path for file in names])}." if names else ""
    advice = "Try another word, or ask `list files` to see what is here." if not names else ""
    return finished(
        [f"{_carried(question)}I found nothing about {wanted}.", named, _unknown(scope), searched(found, scope), advice]
    )


def list_answer(files: Sequence[File], base: Parts, scope: Scope) -> str:
    """The files themselves."""
    where = f"in {code(shown_name('/'.join(base)) + '/')}" if base else "here"
    if not files:
        return finished([f"There are no files {where}.", _unknown(scope), " ".join(_left_out(scope.listing))])
    total = sum(file.bytes for file in files)
    lines = [f"{file.path}  ({size(file.bytes)})" for file in files[:LIST_LINES_MAX]]
    rest = len(files) - len(lines)
    block = fence(
        bounded([*lines, *([f"… and {counted(rest, 'more file')}"] if rest else [])], ANSWER_CHARS_MAX // 2).split("\n")
    )
    closing = " ".join([*_left_out(scope.listing), *_troubles(scope.listing.problems)])
    return finished([f"There are {kinds(files)} {where}, {size(total)} together.", _unknown(scope), block, closing])


def count_answer(question: Question, files: Sequence[File], folders: int, lines: int, scope: Scope) -> str:
    """How many files, folders, lines or bytes there are."""
    closing = " ".join([*_left_out(scope.listing), *_troubles(scope.listing.problems)])
    if question.counted.startswith(("folder", "director")):
        lead = f"There are {counted(folders, 'folder')}, with {counted(len(files), 'file')} in them."
    elif question.counted.startswith("line"):
        lead = f"There are {counted(lines, 'line')} in {counted(len(files), 'file')}."
    elif question.counted.startswith("byte"):
        lead = f"There are {counted(sum(file.bytes for file in files), 'byte')} in {counted(len(files), 'file')}."
    else:
        lead = f"There are {counted(len(files), 'file')}: {kinds(files)}."
    return finished([lead, _unknown(scope), closing])


def matches_answer(question: Question, found: Found, scope: Scope) -> str:
    """How often something comes up, file by file."""
    frequent = sorted(found.matches.items(), key=lambda pair: (-pair[1], pair[0].parts))
    lines = [f"- {code(file.path)}: {counted(number, 'line')}" for file, number in frequent[:MENTIONS_MAX]]
    rest = len(frequent) - len(lines)
    lead = (
        f"{terms_text(question.terms)} comes up in {counted(sum(found.matches.values()), 'line')} "
        f"of {counted(len(frequent), 'file')}:"
    )
    more = [f"- and in {counted(rest, 'more file')}"] if rest else []
    return finished([_carried(question) + lead, "\n".join([*lines, *more]), _unknown(scope), searched(found, scope)])


def overview_answer(
    name: str, front: tuple[str, Quote] | None, own: Sequence[File], notes: Sequence[FolderNote], scope: Scope
) -> str:
    """What a folder is about, by its front page, its numbers and its folders."""
    parts = []
    files = scope.listing.files
    if front is not None:
        heading, quote = front
        prose = "\n".join(f"> {shown_line(line).strip()}" for line in quote.lines)
        parts += [f"{heading} says about itself ({code(quote.place)}):", prose]
    total = sum(file.bytes for file in files)
    folders = len({file.parts[:at] for file in files for at in range(1, len(file.parts))})
    parts.append(
        f"{code(shown_name(name))} holds {kinds(files)} in {counted(folders, 'folder')}, {size(total)} together."
        if files
        else f"{code(shown_name(name))} holds no files that I can read."
    )
    largest = sorted(notes, key=lambda note: (-len(note.files), note.parts))
    parts.append("\n".join(_folder_line(note) for note in largest))
    if own:
        parts.append(f"At its top: {_some([file.path for file in own], 8)}.")
    parts.append(" ".join([*_left_out(scope.listing), *_troubles(scope.listing.problems)]))
    return finished(parts)


def _folder_line(note: FolderNote) -> str:
    names = [shown_name("/".join(file.parts[len(note.parts) :])) for file in note.files]
    about = f" {note.about} ({code(note.place)})" if note.about else f" For example {_some(names, 3)}."
    return f"- {code(shown_name('/'.join(note.parts)) + '/')}: {kinds(note.files, 2)}.{about}"


def help_answer(name: str, listing: Listing) -> str:
    """What can be asked, with examples from this very folder."""
    example = listing.files[0].path if listing.files else "README.md"
    return finished(
        [
            f"I answer questions about the files in {code(shown_name(name or '/'))}: {kinds(listing.files)}. "
            "I work offline: I list, search and read, and quote what I find with its place.",
            "You can ask, for example:",
            "\n".join(
                [
                    "- What is this folder about?",
                    f"- What is in {code(example)}?",
                    "- Where is `main` defined?",
                    "- How many files are there?",
                    "- Anything else: I look for its words.",
                ]
            ),
            " ".join(_left_out(listing)),
        ]
    )


def file_part(file: File, text: Text | None) -> str:
    """One file in short: its size, what it begins with, its outline."""
    if text is None:
        return f"{code(file.path)} ({size(file.bytes)}) has no text that I can read."
    heading = title(text.lines) if file.suffix in (".md", ".rst", ".txt", "") else None
    lead = f"{code(file.path)} has {counted(len(text.lines), 'line')}, {size(file.bytes)}"
    lead += f", and is titled “{shown_line(heading)}”." if heading else "."
    if text.cut:
        lead += " It is long: I read only its beginning."
    line, paragraph = first_paragraph(text.lines, file)
    if not paragraph:
        line, paragraph = 1, text.lines[:QUOTE_LINES_MAX]
    quote = Quote(file, line, paragraph, line).block() if paragraph else ""
    found = outline(text.lines, file)
    points = [f"- {code(f'{file.path}:{number}')} {code(shown_line(point))}" for number, point in found]
    return "\n\n".join(part for part in (lead, quote, "\n".join(["It holds:", "", *points]) if points else "") if part)


def files_answer(parts: Sequence[str], others: Sequence[File], scope: Scope) -> str:
    """Several files in short."""
    more = f"The same name have {_some([file.path for file in others])}." if others else ""
    return finished([*parts, more, _unknown(scope)])


def no_file_answer(scope: Scope, paths: Sequence[str]) -> str:
    """The question names a file that is not here."""
    wanted = {part.casefold() for path in paths for part in path.split("/")}
    near = difflib.get_close_matches(
        next(iter(sorted(wanted)), ""), [file.parts[-1] for file in scope.listing.files], n=3, cutoff=0.75
    )
    like = [file.path for file in scope.listing.files if file.parts[-1] in near]
    hint = f"Similar: {_some(like)}." if like else "Ask `list files` to see what is here."
    return finished([_unknown(scope), hint, " ".join(_left_out(scope.listing))])
