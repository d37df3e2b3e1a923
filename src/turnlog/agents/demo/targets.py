"""Which files a question is about: all, those of a folder it names, or the ones it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.agents.demo.files import File, Listing, Parts
from turnlog.agents.demo.question import Question
from turnlog.agents.demo.words import Term


@dataclass(frozen=True)
class Target:
    """`listing` holds what is in question; `base` is the folder it lies in; `named` the files that were named."""

    listing: Listing
    base: Parts
    named: list[File]
    terms: tuple[Term, ...]
    unknown: list[str]


def resolve(question: Question, listing: Listing) -> Target:
    """Find the files and folders that a question names.

    What looks like a path and is none (`log.turn`) becomes a phrase to look for, unless the question is only about it.
    """
    folders: list[Parts] = []
    files: list[File] = []
    unknown: list[str] = []
    for path in question.paths:
        wanted = tuple(part for part in path.casefold().split("/") if part not in ("", "."))
        inside = [parts for parts in listing.folders if _ends_with(parts, wanted)]
        exact = [file for file in listing.files if _ends_with(file.parts, wanted)]
        if exact:
            files += exact
        elif inside:
            folders.append(min(inside, key=lambda parts: (len(parts), parts)))
        else:
            unknown.append(path)
    folders += (spoken := _folder_words(question, listing) if not files and not folders else [])
    names = {parts[-1].casefold() for parts in spoken}
    terms = tuple(term for term in question.terms if term.text.casefold() not in names) + tuple(
        Term(path, "phrase") for path in unknown if question.want not in ("file", "list")
    )
    files = list(dict.fromkeys(files))
    base = folders[0] if len(folders) == 1 and not files else ()
    return Target(_narrowed(question, listing, files, folders), base, files, terms, unknown)


def _folder_words(question: Question, listing: Listing) -> list[Parts]:
    """Folders named by a plain word after "in", "inside", "under" or "of", or before "folder"."""
    words = question.text.casefold().replace("?", " ").replace("`", " ").split()
    named = []
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if before in ("in", "inside", "under", "of", "the") and (before != "the" or after in ("folder", "directory")):
            named += [parts for parts in listing.folders if parts[-1].casefold() == word]
    return [min(named, key=lambda parts: (len(parts), parts))] if named else []


def _ends_with(parts: Parts, wanted: Parts) -> bool:
    return bool(wanted) and tuple(part.casefold() for part in parts[-len(wanted) :]) == wanted


def _narrowed(question: Question, listing: Listing, files: Sequence[File], folders: Sequence[Parts]) -> Listing:
    if not (files or folders or question.types):
        return listing
    kept = list(files) or [
        file for file in listing.files if not folders or any(file.parts[: len(parts)] == parts for parts in folders)
    ]
    if question.types and (typed := [file for file in kept if file.suffix in question.types]):
        kept = typed
    elif question.types and question.want in ("count", "list"):
        kept = []
    inner = [parts for parts in listing.folders if not folders or any(parts[: len(top)] == top for top in folders)]
    return Listing(kept, inner, listing.skipped, listing.problems)


def group(target: Target) -> tuple[list[File], list[tuple[Parts, list[File]]]]:
    """The files right in the target's folder (or named one by one), and those of each folder in it."""
    if target.named:
        return target.listing.files, []
    depth = len(target.base)
    own: list[File] = []
    groups: dict[Parts, list[File]] = {}
    for file in target.listing.files:
        if len(file.parts) == depth + 1:
            own.append(file)
        else:
            groups.setdefault(file.parts[: depth + 1], []).append(file)
    return own, sorted(groups.items())
