"""What a growing answer costs on the wire and in work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
    "&",
    "a\n\n",
    "- x\n",
    "x ",
    "|a",
    "> ",
    "*a* ",
    "[a](http://b) ",
    "{",
    "\x01",
    "- ",
    "\n",
    "#\n",
    "[",
    "`",
    "\u2028",
    "😀",
)


@pytest.mark.parametrize(
    "text", [start + piece * 60_000 for piece in HEAVY for start in ("", "```js\n", "|a|b|\n|-|-|\n")]
)
def test_no_text_makes_a_large_frame(text: str) -> None:
    """Whatever is asked and answered, no frame is over 64 KiB, and the page is what a reload shows."""
    while len(encode_json(text)) > 60_000:
        text = text[: len(text) * 9 // 10]
    part = text[: len(text) // 8]
    thread = Simulator()
    thread.submit(text)
    thread.draft(text)
    thread.step("s", step="tool", args=part, output=part, title=part, name=part, detail=part)
    thread.step("s", status="failed", failure=Failure(reason=part, next_step=part))
    shown = html(fresh(thread.frames))
    live = Live(thread.frames)
    page = Page(shown)
    page.apply(frames(live.versions.whole(live.page.since(0)), "e.1"))
    assert page.thread.shown() == Page(shown).thread.shown()
    at, version = len(thread.frames), live.versions.version
    thread.message(text)
    thread.complete()
    live.take(thread.frames[at:])
    page.apply(frames(live.versions.since(version), "e.1"))
    assert page.thread.shown() == Page(html(fresh(thread.frames))).thread.shown()


def test_rows_that_have_not_changed_are_not_rendered_again() -> None:
    """A step more costs the rendering of its own row, not of all that stand before it."""
    thread = Simulator()
    rows = Rows(Place("t", "turn-1"), "turn-1")
    for number in range(60):
        thread.step(f"s{number}", step="tool", name="look", status="succeeded")
        (source,) = fresh(thread.frames).turns
        rows.elements(source.view().entries)
    assert rows.rendered == 60
