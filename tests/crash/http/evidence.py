"""What the clients of killed servers know, against what the store holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Final

from ...proof.checker import check
from ...proof.facts import Fact, ShownDraft
from ...proof.scripts import Said, Script
from ...proof.stored import Stored
from ...web.recording import Seen, segment
from .speaking import script_of, template

_NAME: Final = re.compile(r"\b[a-z]\d+\.\d+\b")
_UNSEEN: Final = dict.fromkeys(map(ord, "\x00\ufffd\u2028\ud800"), " ")


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def seen(text: str) -> str:
    """A text as a page shows it."""
    return " ".join(text.translate(_UNSEEN).split())


def text_of(html: str) -> str:
    """What a reader sees of HTML."""
    texts = _Texts()
    texts.feed(html)
    texts.close()
    return seen("".join(texts.found))


def scripts_in(stored: Stored) -> list[Script]:
    """The script of each stored turn; a turn whose content names none has none."""
    found = []
    for thread in stored.threads.values():
        for turn in thread.turns:
            content = thread.of(turn)[0].fields["content"]
            if template(content) is not None:
                found.append(script_of(thread.name, turn, content))
    return found


def shown_by_pages(pieces: Iterable[Seen], scripts: Sequence[Script]) -> Iterator[Fact]:
    """The drafts that pages have shown, as far as each of them can be told by its words."""
    known: dict[str, int] = {}
    for to, place, html in pieces:
        text = text_of(html)
        for name in set(_NAME.findall(text)):
            for script in scripts:
                if name in script.content and segment(script.turn) in place:
                    yield from _shown(to, text, name, script, known)


def _shown(to: str, text: str, name: str, script: Script, known: dict[str, int]) -> Iterator[Fact]:
    for draft, cuts in _cuts(script).items():
        longest = next((cut for cut in reversed(cuts) if name in cut and seen(cut) in text), None)
        place = f"{to} {script.thread} {script.turn} {draft}"
        if longest is not None and len(longest) > known.get(place, 0):
            known[place] = len(longest)
            yield ShownDraft(
                to=to,
                thread=script.thread,
                turn=script.turn,
                draft=draft,
                after=None,
                rev=None,
                offset=0,
                text=longest,
            )


def _cuts(script: Script) -> Mapping[str, list[str]]:
    """The text of each draft after each of its chunks."""
    cuts: dict[str, list[str]] = {}
    for act in script.acts:
        if isinstance(act, Said):
            texts = cuts.setdefault(act.draft, [])
            texts.append((texts[-1] if texts else "") + act.text)
    return cuts


def wrong_pages(pieces: Iterable[Seen], scripts: Sequence[Script]) -> Iterator[str]:
    """P2: a message that a page has shown is there."""
    names = {_NAME.findall(script.content)[0] for script in scripts}
    for piece in pieces:
        if lost := set(_NAME.findall(text_of(piece.html))) - names:
            yield f"{piece.to} showed {sorted(lost)}, which are gone"


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


def wrong(stored: Stored, facts: Sequence[Fact], pieces: Sequence[Seen], *, settled: bool) -> list[str]:
    """All that is wrong with a store, given what its clients know and what pages have shown them."""
    scripts = scripts_in(stored)
    found = [*wrong_submissions(stored), *wrong_pages(pieces, scripts)]
    shown = [*facts, *shown_by_pages(pieces, scripts)]
    return found + check(stored, shown, scripts, settled=settled)
