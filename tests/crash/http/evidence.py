"""What the clients of killed servers know, against what the store holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ...proof.checker import check
from ...proof.facts import Fact, ShownWords
from ...proof.scripts import Said, Script
from ...proof.stored import Stored
from ...web.recording import Seen, segment
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
        (name,) = _NAME.findall(script.content)
        for draft, cuts in _cuts(script).items():
            longest = next((cut for cut in reversed(cuts) if name in cut and seen(cut) in words), "")
            place = (to, script.turn, draft)
            if len(longest) > len(self._longest.get(place, "")):
                self._longest[place] = longest
                fact = ShownWords(to=to, thread=script.thread, turn=script.turn, draft=draft, text=longest)
                self.facts.append(fact)

    def lost(self, scripts: Iterable[Script]) -> list[str]:
        """Names of messages that pages have shown and the store does not have."""
        return sorted(self._names - {name for script in scripts for name in _NAME.findall(script.content)})


def _cuts(script: Script) -> Mapping[str, list[str]]:
    """The text of each draft after each of its chunks."""
    cuts: dict[str, list[str]] = {}
    for act in script.acts:
        if isinstance(act, Said):
            texts = cuts.setdefault(act.draft, [])
            texts.append((texts[-1] if texts else "") + act.text)
    return cuts


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
    found = [*wrong_submissions(stored), *(f"P2: a page showed {name}, which is gone" for name in pages.lost(scripts))]
    return found + check(stored, [*facts, *pages.facts], scripts, settled=settled)
