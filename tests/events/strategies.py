"""Hypothesis strategies for every known body, made from the fields of its struct."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from turnlog.events.codec import encode_json
from turnlog.events.kinds import KINDS, KnownBody


def _paired(text: str) -> str:
    """The text with adjacent halves of a surrogate pair joined, which is what any JSON reader makes of them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


TEXT = st.text(st.characters(codec=None), max_size=20).map(_paired)
"""Any text, NUL, U+2028 and lone surrogates included."""

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value that may be kept."""

RAW = st.dictionaries(TEXT, VALUES, max_size=4).map(encode_json)


def bodies() -> st.SearchStrategy[KnownBody]:
    """A body of any known kind."""
    return st.sampled_from(sorted(KINDS)).flatmap(lambda kind: _struct(KINDS[kind]))


def _struct(kind: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: _field(field.type) for field in msgspec.structs.fields(kind)})


def _field(kind: Any) -> st.SearchStrategy[Any]:
    plain: dict[Any, st.SearchStrategy[Any]] = {
        Any: VALUES,
        str: TEXT,
        bool: st.booleans(),
        bytes: RAW,
        int: st.integers(-(2**63), 2**63 - 1),
        type(None): st.none(),
    }
    if kind in plain:
        return plain[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(_field(argument) for argument in arguments))
    if origin is list:
        return st.lists(_field(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, _field(arguments[1]), max_size=3)
    assert issubclass(kind, msgspec.Struct)
    return _struct(kind)
