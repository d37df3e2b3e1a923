"""What the clients of killed servers know, against what the store holds."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from ...proof.checker import check
from ...proof.facts import Fact, ShownWords
from ...proof.scripts import Said, Script
from ...proof.stored import Stored
from ...web.followers import Seen, segment
from .speaking import script_of, template

_NAME: Final = re.compile(r"\b[a-z]\d+\.\d+\b")
_UNSEEN: Final = dict.fromkeys(map(ord, "\x00\ufffd\u2028\ud800"), " ")


def seen(text: str) -> str:
    """A text as a page shows it."""
    return " ".join(text.translate(_UNSEEN).split())


def scripts_in(stored: Stored) -> list[Script]:
    """The script of each stored turn; a turn whose content names none has none."""
    found = []
    for thread in stored.threads.values():
        for turn in thread.turns:
            content = thread.of(turn)[0].fields["content"]
            if template(content) is not None:
                found.append(script_of(thread.name, turn, content))
    return found


class Pages:
    """What pages have shown, told by its words: messages by name, drafts as far as they were shown."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._names: set[str] = set()
        self._longest: dict[tuple[str, str, str], str] = {}

    def take(self, pieces: Iterable[Seen], scripts: Sequence[Script]) -> None:
        """Take what was shown by pages of a store that has these scripts."""
        for to, place, text in pieces:
            words = seen(text)
            names = set(_NAME.findall(words))
            self._names |= names
            for script in scripts:
                if names & set(_NAME.findall(script.content)) and segment(script.turn) in place:
                    self._take(to, words, script)

    def _take(self, to: str, words: str, script: Script) -> None:
        for draft, said in _said(script.content).items():
            longest = said.longest_in(words)
            place = (to, script.turn, draft)
            if len(longest) > len(self._longest.get(place, "")):
                self._longest[place] = longest
                self.facts.append(ShownWords(to=to, thread=script.thread, turn=script.turn, draft=draft, text=longest))

    def lost(self, scripts: Iterable[Script]) -> list[str]:
        """What pages have shown of messages that the store does not have."""
        lost = self._names - {name for script in scripts for name in _NAME.findall(script.content)}
        return [f"P2: a page showed {name}, which is gone" for name in sorted(lost)]


class _Whole(NamedTuple):
    """A draft's whole text, and its lengths after each of its chunks."""

    text: str
    cuts: list[int]

    def longest_in(self, words: str) -> str:
        """As much of the text as a page shows, cut behind a chunk."""
        shown = bisect_left(self.cuts, True, key=lambda cut: seen(self.text[:cut]) not in words)
        return self.text[: self.cuts[shown - 1]] if shown else ""


@cache
def _said(content: str) -> Mapping[str, _Whole]:
    """The drafts of a script that can be told by their words: those that begin with the message's name."""
    script = template(content)
    assert script is not None
    drafts: dict[str, _Whole] = {}
    for act in script.acts:
        if isinstance(act, Said) and (act.draft in drafts or _NAME.match(act.text)):
            before = drafts.get(act.draft, _Whole("", []))
            text = before.text + act.text
            drafts[act.draft] = _Whole(text, [*before.cuts, len(text)])
    return drafts


def wrong_submissions(stored: Stored) -> Iterator[str]:
    """P6: each message is there once, and once more for each time it was asked again, which is once a turn."""
    for thread in stored.threads.values():
        asked, retried = Counter[str](), Counter[str]()
        for turn in thread.turns:
            first = thread.of(turn)[0].fields
            if template(first["content"]) is None:
                yield f"{thread.name}/{turn}: nobody submitted {first['content']!r}"
            asked[first["content"]] += first.get("retry_of") is None
            retried[first.get("retry_of") or ""] += 1
        yield from (f"{thread.name}: {content!r} was accepted {n} times" for content, n in asked.items() if n > 1)
        yield from (f"{thread.name}: {turn} was retried {n} times" for turn, n in retried.items() if turn and n > 1)


def wrong(stored: Stored, facts: Sequence[Fact], pages: Pages, *, settled: bool) -> list[str]:
    """All that is wrong with a store, given what its clients know and what pages have shown them."""
    scripts = scripts_in(stored)
    found = [*wrong_submissions(stored), *pages.lost(scripts)]
    return found + check(stored, [*facts, *pages.facts], scripts, settled=settled)
