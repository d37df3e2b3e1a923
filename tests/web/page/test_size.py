"""What a growing answer costs on the wire and in work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.folds.simulate import Simulator
from tests.web.page.dom import Page
from tests.web.page.test_frames import Live, fresh, html
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Failure
from turnlog.web.page.fragments import Place, Rows
from turnlog.web.page.markdown import Markdown
from turnlog.web.page.versions import frames

PARAGRAPH = (
    "The reader keeps a cursor into the log and a bell, never a queue: after each commit the bell rings, and the "
    "reader takes what lies behind its cursor. So a **slow** follower costs nothing, and `what it shows` was "
    "durable. See [the guarantees](https://example.org/guarantees) for what it means when a *machine* loses power.\n\n"
)
LIST = "".join(
    f"{number}. Step {number} reads `part_{number}.py`, then writes what it found to the log.\n"
    for number in range(1, 41)
)
CODE = "".join(
    f'    if row["number"] == {number}:  # the {number}th case\n        yield f"{{row}}"\n' for number in range(113)
)
TABLE = "| name | size | what |\n|------|-----:|------|\n" + "".join(
    f"| file{number}.py | {number * 37} | reads *things* |\n" for number in range(25)
)
ANSWER = f"## What I found\n\n{PARAGRAPH * 15}{LIST}\n\n```python\n{CODE}```\n\n{TABLE}\n{PARAGRAPH * 13}"

SECONDS = 60
"""A fast model writes 20 KB in a minute; at 10 frames a second."""


def growing(text: str, steps: int) -> Iterator[str]:
    """Beginnings of a text, ever longer."""
    return (text[: len(text) * step // steps] for step in range(1, steps + 1))


def test_a_long_answer_is_cheap() -> None:
    """All frames of a 20 KB answer at 10 frames a second are at most 1 MB together, none is over 64 KiB."""
    assert 20_000 < len(ANSWER.encode()) < 24_000
    assert len(CODE) > 7_500
    thread = Simulator()
    thread.draft("## ")
    live = Live(thread.frames)
    page = Page(html(fresh(thread.frames)))
    sent, shown = 0, "## "
    for text in growing(ANSWER, SECONDS * 10):
        at, version = len(thread.frames), live.versions.version
        if not text.startswith(shown) or text == shown:
            continue
        thread.draft(text[len(shown) :])
        shown = text
        live.take(thread.frames[at:])
        data = frames(live.versions.since(version), "e.1")
        page.apply(data)
        sent += len(data)
    at, version = len(thread.frames), live.versions.version
    thread.message(ANSWER)
    thread.complete()
    live.take(thread.frames[at:])
    data = frames(live.versions.since(version), "e.1")
    page.apply(data)
    assert page.thread.shown() == Page(html(fresh(thread.frames))).thread.shown()
    assert sent + len(data) <= 1_000_000, f"{sent + len(data):,} bytes"


def test_what_has_not_changed_is_not_rendered_again() -> None:
    """A longer text costs the rendering of its last block, not of all that stand before it."""
    message = Markdown("m")
    for text in growing(PARAGRAPH * 50, 400):
        message.elements(text, growing=True)
    assert message.rendered < 400 + 50 + 50


HEAVY = (
    *("&", "a\n\n", "- x\n", "x ", "|a", "> ", "*a* ", "[a](http://b) ", "{", "\x01", "- ", "\n", "#\n", "[", "`"),
    *(
        "\u2028",
        "😀",
        '"',
        "<a@b>",
        "[a]",
        "[a]\n\n",
        "- [a]\n",
        "|\n",
        "|a|b|\n",
        "> - ",
        "{\n",
        "```js\n{\n```\n",
        "\\",
    ),
)
"""Pieces of which many make much: of HTML, of JSON, or of work."""

STARTS = ("", "```js\n", "|a|b|\n|-|-|\n", f"[a]: http://{'x' * 2_000}\n\n", f"|{'a|' * 100}\n|{'-|' * 100}\n")
ODD_STARTS = (f"[a]: http://{'x' * 20_000}\n\n", f"```{'x' * 20_000}\n", "- " * 12, "{")


def fitting(text: str, most: int = 60_000) -> str:
    """As much of a text as a message, or one of `most` bytes, may have."""
    while len(encode_json(text)) > most:
        text = text[: len(text) * 9 // 10]
    return text


def thread_of(asked: str, answered: str, parts: list[str]) -> Simulator:
    """A turn that runs, in which everything that takes a text has one, and a step waits for a person."""
    thread = Simulator()
    thread.submit(asked)
    thread.draft(answered)
    for number, part in enumerate(parts):
        for field in ("args", "output", "title", "name", "detail"):
            thread.step(f"{field}{number}", step="tool", **{field: part})
        name = part[:150]
        thread.step(f"s{number}", step="tool", args=part, output=part, title=name, name=name, detail=part)
        thread.step(f"s{number}", status="failed", failure=Failure(reason=part, next_step=part))
        thread.step(f"a{number}", step="approval", status="waiting", args={"command": part}, title=name, detail=part)
    return thread


def check_sizes(asked: str, answered: str, parts: list[str]) -> None:
    """No frame is over 64 KiB (`Page.apply` looks), and a page is at most some times the text that is in it."""
    thread = thread_of(asked, answered, parts)
    text = len(asked) + len(answered) + 20 * sum(map(len, parts))
    shown = html(fresh(thread.frames))
    assert len(shown) <= PAGE_CHARS + PAGE_TIMES * text
    live = Live(thread.frames)
    page = Page(shown)
    page.apply(frames(live.versions.whole(live.page.since(0)), "e.1"))
    assert page.thread.shown() == Page(shown).thread.shown()
    at, version = len(thread.frames), live.versions.version
    thread.message(answered)
    thread.complete()
    live.take(thread.frames[at:])
    page.apply(frames(live.versions.since(version), "e.1"))
    shown = html(fresh(thread.frames))
    assert page.thread.shown() == Page(shown).thread.shown()
    assert len(shown) <= PAGE_CHARS + PAGE_TIMES * text


PAGE_TIMES = 12
"""How many times its text a page may be: its messages ten times, and what is written as escapes."""

PAGE_CHARS = 150_000
"""Characters of a page with one turn that are free."""


@pytest.mark.parametrize("start", STARTS, ids=range(len(STARTS)))
@pytest.mark.parametrize("piece", HEAVY, ids=range(len(HEAVY)))
def test_no_text_makes_a_large_frame(piece: str, start: str) -> None:
    """Whatever is asked and answered, no frame is over 64 KiB, the page is at most some times its text, and what a
    reload shows (P9, P11)."""
    text = fitting(start + piece * (60_000 // len(piece)))
    check_sizes(text, text, [fitting(text, 18_500)])


RECIPES = st.tuples(
    st.sampled_from(STARTS + ODD_STARTS),
    st.lists(st.tuples(st.sampled_from(HEAVY), st.sampled_from([1, 3, 25, 400, 3_000])), max_size=12),
)


def made(recipe: tuple[str, list[tuple[str, int]]], most: int = 60_000) -> str:
    """The text that a start and pieces, each so many times, make."""
    start, pieces = recipe
    return fitting(start + "".join(piece * times for piece, times in pieces), most) or "x"


@settings(max_examples=15, deadline=None)
@given(RECIPES, RECIPES, st.lists(RECIPES, max_size=5))
def test_no_texts_together_make_a_large_frame(asked: Any, answered: Any, parts: list[Any]) -> None:
    """What is heavy in different ways makes, together, no larger frame than each alone (P9, P11)."""
    check_sizes(made(asked), made(answered), [made(part, 18_500) for part in parts])


def test_rows_that_have_not_changed_are_not_rendered_again() -> None:
    """A step more costs the rendering of its own row, not of all that stand before it."""
    thread = Simulator()
    rows = Rows(Place("t", "turn-1"), "turn-1")
    for number in range(60):
        thread.step(f"s{number}", step="tool", name="look", status="succeeded")
        (source,) = fresh(thread.frames).turns
        rows.elements(source.view().entries)
    assert rows.rendered == 60
