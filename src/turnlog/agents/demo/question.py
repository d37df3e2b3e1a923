"""What a person wants to know, read from their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from turnlog.agents.demo.bounds import QUESTION_CHARS_MAX, TERMS_MAX
from turnlog.agents.demo.vocabulary import COUNTABLE, DEFINING, GREETINGS, LISTED, PLACE, STOP, SUBJECT, TYPES, USING
from turnlog.agents.demo.words import Term, spaceless

Want = Literal["help", "overview", "list", "file", "count", "define", "search"]

_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
_PATH: Final = re.compile(r"(?<![\w.])[\w.@+-]*(?:/[\w.@+-]+)+/?|[\w.@+-]+/(?!\w)|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}\b")
_WORD: Final = re.compile(r"\w+(?:['’][^\W\d_]{1,2}\b)?")


@dataclass(frozen=True)
class Question:
    """`paths` are files or folders that the text seems to name; `types` ends of file names; `carried` tells that the
    terms are those of an earlier message."""

    text: str
    want: Want
    terms: tuple[Term, ...] = ()
    paths: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    counted: str = ""
    carried: bool = False


def ask(content: str | list[Any], history: Sequence[bytes] = ()) -> Question:
    """Understand a message. One without any subject of its own is about what the messages before it asked for."""
    question = parse(text_of(content))
    if question.terms or question.paths or question.want in ("help", "overview", "list", "count"):
        return question
    for earlier in reversed(list(user_texts(history))):
        before = parse(earlier)
        if before.terms or before.paths:
            want = question.want if question.want != "search" or not before.paths else before.want
            return replace(question, want=want, terms=before.terms, paths=before.paths, carried=True)
    return question if not is_empty(question) else replace(question, want="help")


def is_empty(question: Question) -> bool:
    """Whether there is nothing to look for."""
    return not (question.terms or question.paths or question.types)


def parse(text: str) -> Question:
    """Understand one message by itself."""
    text = text[:QUESTION_CHARS_MAX]
    terms: list[Term] = []
    rest = _QUOTED.sub(lambda found: _phrase(next(filter(None, found.groups())), terms), text)
    paths = list(dict.fromkeys(found.rstrip(".") for found in _PATH.findall(rest) if found.strip("./")))
    rest = _PATH.sub(" ", rest)
    words = [word.replace("’", "'") for word in _WORD.findall(rest)]
    lower = [word.casefold() for word in words]
    types = tuple(end for word in lower for end in TYPES.get(word, ()))
    terms += [term for word in words if (term := _word(word)) is not None]
    terms += [Term(pair) for pair in spaceless(rest)]
    unique = tuple(dict.fromkeys(terms))[:TERMS_MAX]
    return _classified(Question(text, "search", unique, tuple(paths), types), lower)


def _phrase(quoted: str, terms: list[Term]) -> str:
    """Keep what stands in quotes as one term, unless it is a path, which is left in the text."""
    if _PATH.fullmatch(quoted.strip()):
        return f" {quoted} "
    terms.append(Term(quoted.strip(), "name" if re.fullmatch(r"\w+", quoted.strip()) else "phrase"))
    return " "


def _word(word: str) -> Term | None:
    if word.casefold() in STOP or (len(word) == 1 and word.isascii()) or spaceless(word):
        return None
    is_name = "_" in word.strip("_") or re.search(r"[a-z][A-Z]", word) or (word.isupper() and len(word) > 3)
    return Term(word, "name" if is_name else "word")


def _classified(question: Question, words: list[str]) -> Question:
    """Decide what is wanted, and drop the words that only said so from the terms."""
    asked, own = set(words), {term.text.casefold() for term in question.terms}
    count = next((word for word in words if word in COUNTABLE), "")
    is_count = "how many" in " ".join(words) or bool(asked & {"count", "number"})
    if is_count:
        return _without(question, "count", COUNTABLE | PLACE | set(TYPES) | {"count", "number"}, count)
    if not own and not question.paths and not question.types and (not asked or asked <= GREETINGS):
        return replace(question, want="help")
    if not own and {"you", "can"} <= asked:
        return replace(question, want="help")
    if asked & DEFINING or "where" in asked:
        found = _without(question, "define", DEFINING | PLACE | USING)
        return (
            found
            if asked & DEFINING or (len(found.terms) == 1 and not asked & USING)
            else replace(found, want="search")
        )
    if words[:1] == ["list"] or (own <= LISTED | PLACE | set(TYPES) and asked & LISTED):
        return _without(question, "list", LISTED | PLACE | set(TYPES) | {"list"})
    if own and own <= PLACE | SUBJECT and not question.paths:
        return replace(question, want="overview", terms=())
    if not own and not question.paths and asked & {"about", "summarise", "summarize", "explain", "describe"}:
        return replace(question, want="overview") if asked & {"this", "here", "all"} else question
    if question.paths and own <= SUBJECT | PLACE | {"file", "read", "open"}:
        return replace(question, want="file", terms=())
    return _without(question, "search", PLACE | LISTED | set(TYPES)) if len(own) > 1 else question


def _without(question: Question, want: Want, words: Iterable[str], counted: str = "") -> Question:
    gone = set(words)
    terms = tuple(term for term in question.terms if term.role == "phrase" or term.text.casefold() not in gone)
    return replace(question, want=want, terms=terms, counted=counted)


class _Message(msgspec.Struct, frozen=True):
    role: Any = None
    content: Any = None


def user_texts(history: Iterable[bytes]) -> Iterable[str]:
    """The texts of a person's messages in a history of raw items, oldest first."""
    for raw in history:
        try:
            message = msgspec.json.decode(raw, type=_Message)
        except msgspec.DecodeError:
            continue  # Only other agents write what we cannot read, and a follow-up needs none of it.
        if message.role == "user" and isinstance(message.content, str | list):
            yield text_of(message.content)


def text_of(content: str | list[Any]) -> str:
    """The text of a message: itself, or its text parts joined."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))
