"""The recording client sees what it must, and says what a stream must not do: else it proves nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..proof.facts import ShownDraft, ShownJson
from .followers import Follower, PageFollower
from .frames import Frame, FrameReader

STREAM = b'retry: 1000\n\n: ping\n\nid: e.1\nevent: event\ndata: {"a":\ndata: 1}\n\nevent: bye\ndata: {}\n\nevent: cut'
FRAMES = [Frame("event", "e.1", '{"a":\n1}'), Frame("bye", None, "{}")]


def test_frames_are_read_in_any_pieces() -> None:
    """A stream cut between any two bytes gives the same whole frames, and nothing of one that is not whole."""
    for size in range(1, len(STREAM) + 1):
        reader = FrameReader()
        found = [frame for n in range(0, len(STREAM), size) for frame in reader.feed(STREAM[n : n + size])]
        assert (found, reader.retry_ms, reader.comments) == (FRAMES, 1000, ["ping"])


@pytest.mark.parametrize("line", [b"event: a\r", b"data", b"\rdata: a", b"what: a"])
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    """Other ends of lines than LF, and unknown lines, are no frames."""
    with pytest.raises(ValueError, match=r"a CR|no line"):
        FrameReader().feed(line + b"\n\n")


def event(seq: int, *closes: str, id_: str = "e.{}") -> Frame:
    body = {"closes": [{"draft": draft, "after": 1, "rev": 1} for draft in closes]}
    value = {"seq": seq, "turn": "t", "kind": "item", "at": "", "body": body}
    return Frame("event", id_.format(seq), json.dumps(value))


def draft(offset: int, text: str, *, id_: str | None = None) -> Frame:
    value = {"turn": "t", "draft": "d", "item": None, "kind": "text", "after": 1, "offset": offset, "text": text}
    return Frame("draft", id_, json.dumps(value))


def test_a_follower_folds_frames() -> None:
    """Chunks join by their offsets, an event closes drafts, all of it becomes facts, and the cursor is the last id."""
    follower = Follower("T")
    for frame in (event(1), draft(0, "ab"), draft(1, "cd")):
        follower.take(frame)
    assert (follower.drafts, follower.cursor, follower.wrong) == ({("t", "d"): "acd"}, "e.1", [])
    follower.take(event(2, "d"))
    assert (follower.drafts, follower.cursor, sorted(follower.events)) == ({}, "e.2", [1, 2])
    assert [type(fact) for fact in follower.facts] == [ShownJson, ShownDraft, ShownDraft, ShownJson]


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([event(2)], id="gap"),
        pytest.param([event(1), event(1)], id="twice"),
        pytest.param([event(1, id_="e.2")], id="another-cursor"),
        pytest.param([draft(1, "b")], id="beginning-missed"),
        pytest.param([draft(0, "a", id_="e.1")], id="draft-with-cursor"),
        pytest.param([Frame("other", None, "{}")], id="unknown"),
    ],
)
def test_a_follower_tells_what_is_wrong(frames: list[Frame]) -> None:
    """C39, C40: gaps, repetitions, chunks without a beginning and unknown frames are told."""
    follower = Follower("T")
    for frame in frames:
        follower.take(frame)
    assert len(follower.wrong) == 1


PAGE = '<main id="thread" data-thread data-at="e.1"><section id="turn-t" data-shell></section></main>'


def page_of(*operations: Any) -> PageFollower:
    page = PageFollower("T")
    page.load(PAGE)
    page.take(Frame("frag", "e.2", json.dumps(operations)))
    return page


def test_a_page_is_what_its_frames_make_of_it() -> None:
    """Operations are applied, what they show is noted with its place, and the cursor is the last id."""
    page = page_of(["put", "turn-t", None, '<p id="ask-t">Hello <b>you</b></p>'])
    same = PageFollower("T")
    same.load(PAGE.replace("</section>", '<p id="ask-t">Hello <b>you</b></p></section>'))
    assert (page.content, page.cursor, page.wrong) == (same.content, "e.2", [])
    assert page.seen[-1].place == "turn-t ask-t"
    assert page.seen[-1].text.split() == ["Hello", "you"]


def test_a_page_tells_what_is_wrong() -> None:
    """An operation that does not fit the page is told."""
    assert page_of(["put", "turn-u", None, '<p id="ask-u"></p>']).wrong
    assert page_of(["keep", "turn-t", ["ask-t"]]).wrong
