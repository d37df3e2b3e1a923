"""The union of kinds, and the ids of drafts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.strategies import TEXT
from turnlog.events.kinds import KINDS, PAYLOAD_KINDS, DraftName


def test_kinds_are_named_once() -> None:
    """Each known kind has its own name, which is the key it is found by."""
    assert all(body.kind == kind for kind, body in KINDS.items())
    assert len(set(KINDS.values())) == len(KINDS)


def test_payload_kinds_are_those_with_raw() -> None:
    """The kinds whose stored body goes on after its line are exactly those with a `raw` field."""
    assert {kind for kind, body in KINDS.items() if "raw" in body.__struct_fields__} == PAYLOAD_KINDS


@given(
    st.integers(0, 10**6),
    TEXT.filter(bool),
    st.sampled_from(["text", "reasoning", "args", "output"]),
    st.integers(0, 999),
)
def test_draft_ids_are_read_back(attempt: int, target: str, kind: str, part: int) -> None:
    """A draft's id gives its parts back, whatever slashes or line ends its target has."""
    name = DraftName(attempt, target, kind, part)  # type: ignore[arg-type]
    assert DraftName.parse(str(name)) == name


@pytest.mark.parametrize("id_", ["", "x", "0/a", "0/a/text", "0/a/levitation/0", "a/b/text/0", "0/a/text/x"])
def test_what_is_no_draft_id_is_refused(id_: str) -> None:
    """Text of another shape is no draft id."""
    with pytest.raises(ValueError, match=r".*"):
        DraftName.parse(id_)
