"""Ids in paths: every id has one segment, and comes back from it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidInput
from turnlog.web.paths import ROUTE_WORDS, SEGMENT, id_of, path_id

ODD_IDS = [
    *["../x", "..", ".", ".hidden", "/etc/x", "a/b", "a\\b", "a\nb", "-rf", "%2e%2e", "%2F", "a\0b"],
    *["\ud800", "x\udfff", "😀", "~", "~YQ", "latest", "a b", "a?b=c", "a#b", "a:b;c"],
    *["é", "e\u0301", "é" * 512, "x" * 1_024, "\u2028"],
]


@pytest.mark.parametrize("text", ODD_IDS)
def test_an_odd_id_comes_back_from_its_segment(text: str) -> None:
    """What is written as a segment is read as the same id, whatever stands in it (C33)."""
    assert id_of(path_id(text)) == text


@given(st.text(st.characters(), min_size=1, max_size=40))
def test_every_id_has_a_segment_that_nothing_on_the_way_changes(text: str) -> None:
    """A segment is made of characters that no URL, router or element id gives a meaning, and names its id (C33)."""
    segment = path_id(text)
    assert re.search(SEGMENT, segment)
    assert not segment.startswith(".")
    assert segment not in ROUTE_WORDS
    assert id_of(segment) == text


@given(st.text(st.characters(), max_size=20))
def test_a_segment_has_one_id_or_is_refused_by_name(segment: str) -> None:
    """Any text at all as a segment names an id whose own segment names it too, or is refused with the field (C33)."""
    try:
        text = id_of(segment, "turn")
    except InvalidInput as error:
        assert error.field == "turn"
    else:
        assert id_of(path_id(text)) == text


@pytest.mark.parametrize(
    "segment", ["..", "a/b", "a b", "latest", "", "~Y", "~YR", "~YQ=", "~gA", "~a/b", "~YQ\n", "é"]
)
def test_a_segment_that_is_no_spelling_of_an_id_is_refused(segment: str) -> None:
    """An id has no second spelling by accident: padding, loose bits and a missing escape are refused."""
    with pytest.raises(InvalidInput):
        id_of(segment)


def test_an_escape_that_was_not_needed_is_read() -> None:
    """A client may escape every id without looking at it."""
    assert id_of("~YQ") == "a"
