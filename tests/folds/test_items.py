"""What is read from a raw item for a person is what it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import accept_raw
from turnlog.folds.items import RawItem, call_args, parts_text, read_item


def read(raw: bytes) -> RawItem:
    accept_raw(raw)  # only what is accepted is promised to be shown
    item = read_item(raw)
    assert item is not None
    return item


NUMBERS = ["1e400", "-1E+999", "0.10000000000000000001", "1.50", "5", "1" * 400, "-0.0", "1e-999", "1" * 5_000]


@pytest.mark.parametrize(
    ("number", "beside"), [(number, "") for number in NUMBERS] + [(number, "\\ud800") for number in NUMBERS[:-1]]
)
def test_a_number_is_shown_as_it_is_written(number: str, beside: str) -> None:
    """P3, P10: a view that shows raw JSON has its numbers digit for digit, also beside a lone surrogate."""
    value = f'{{"a":[{number},{{"b":{number}}}],"c":"{beside}"}}'
    assert call_args(read(f'{{"arguments":{value}}}'.encode())) == value
    assert call_args(read(f'{{"input":{number},"name":"{beside}"}}'.encode())) == number
    assert parts_text(read(f'{{"output":{value}}}'.encode()).output) == value
    assert parts_text(read(f'{{"content":[{number},{{"type":{number}}}]}}'.encode()).content) == f"{number}[{number}]"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), VALUES) | st.lists(VALUES))
def test_arguments_are_shown_as_their_value(value: Any) -> None:
    """P3: arguments that are no text are shown as JSON of the same value."""
    text = call_args(read(json.dumps({"arguments": value}).encode()))
    assert text is not None
    assert json.loads(text) == value


@pytest.mark.parametrize("raw", [b"", b"{torn", b'{"a":NaN}', b'{"a":"\\ud800","b":Infinity}', b"[1]", b'"\\ud800"'])
def test_what_is_no_json_object_is_no_item(raw: bytes) -> None:
    """P4: bytes that are not one JSON object are told from an item with nothing in it."""
    assert read_item(raw) is None
