"""Ids: any text within its bytes, nothing normalised."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnlog.errors import InvalidInput, TooLarge
from turnlog.events.clock import SystemClock, rfc3339
from turnlog.events.ids import (
    CountedIds,
    RandomIds,
    bytes_text,
    check_key,
    check_name,
    check_thread_id,
    check_turn_id,
    text_bytes,
)
from turnlog.limits import NAME_BYTES_MAX, THREAD_ID_BYTES_MAX, TURN_ID_BYTES_MAX

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

CHECKS: list[tuple[Callable[[str], str], int]] = [
    (check_thread_id, THREAD_ID_BYTES_MAX),
    (check_turn_id, TURN_ID_BYTES_MAX),
    (check_key, TURN_ID_BYTES_MAX),
]
STRANGE = ["../x", "..", ".", " ", "/etc/x", "a/b", "a\\b", "a\n", "-rf", "CON", "a.", "a:b", "\x01", "%2e%2e", "\x00"]
DATED = r"\d{8}T\d{6}Z-[0-9a-f]{12}"


@pytest.mark.parametrize("id_", STRANGE)
def test_any_text_is_an_id(id_: str) -> None:
    """Texts that are paths, flags or control characters are ids like any other, returned as they came (C33)."""
    assert [check(id_) for check, _ in CHECKS] == [id_] * len(CHECKS)
    assert check_name("step", id_) == id_


@pytest.mark.parametrize(
    ("one", "other"),
    [("a:b", "a-b"), ("A", "a"), ("\u00e9", "e\u0301"), ("x" * 300 + "1", "x" * 300 + "2"), ("a", "a "), ("a", "a.")],
)
def test_different_texts_are_different_ids(one: str, other: str) -> None:
    """Ids that cleaning would make one stay two (C34)."""
    assert check_thread_id(one) != check_thread_id(other)
    assert text_bytes(one) != text_bytes(other)


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_bytes_are_equal_for_equal_texts_only(one: str, other: str) -> None:
    """The bytes of a text give it back exactly, lone surrogates included, so two texts never share them (C19, C34)."""
    assert bytes_text(text_bytes(one)) == one
    assert (text_bytes(one) == text_bytes(other)) == (one == other)


@pytest.mark.parametrize(("check", "limit"), CHECKS)
@pytest.mark.parametrize("character", ["x", "é", "\u20ac", "\U0001f600", "\ud800"])
def test_the_limit_counts_bytes(check: Callable[[str], str], limit: int, character: str) -> None:
    """An id of exactly the limit in UTF-8 bytes is taken, one byte more is refused with limit and size."""
    size = len(character.encode("utf-8", "surrogatepass"))
    fits = character * (limit // size) + "x" * (limit % size)
    assert check(fits) == fits
    with pytest.raises(TooLarge) as refused:
        check(fits + "x")
    assert (refused.value.limit_value, refused.value.given) == (limit, limit + 1)


@pytest.mark.parametrize(("character", "size"), [("x", 1), ("é", 2), ('"', 2), ("\x00", 6), ("\ud800", 6)])
def test_names_are_counted_as_json(character: str, size: int) -> None:
    """A step's, call's or item's name is measured as events carry it, so that one that is taken can be repeated."""
    fits = character * (NAME_BYTES_MAX // size)
    assert check_name("step", fits) == fits
    with pytest.raises(TooLarge) as refused:
        check_name("step", fits + character)
    assert (refused.value.field, refused.value.limit) == ("step", "NAME_BYTES_MAX")


@pytest.mark.parametrize(("check", "_limit"), CHECKS)
@pytest.mark.parametrize("value", ["", None, 7, b"x"])
def test_empty_and_foreign_ids_are_refused(check: Callable[[str], str], _limit: int, value: str) -> None:
    """An empty id or one that is not text is refused with the field named (C33)."""
    with pytest.raises(InvalidInput) as refused:
        check(value)
    assert refused.value.field


def test_made_ids_are_dated_and_new() -> None:
    """Our turn ids have the dated form, owner ids 32 hex digits, and none comes twice."""
    ids = RandomIds()
    turns = {ids.turn_id(1_700_000_000_000_000) for _ in range(1_000)}
    assert len(turns) == 1_000
    assert all(re.fullmatch(DATED, turn) and turn.startswith("20231114T221320Z-") for turn in turns)
    owners = {ids.owner_id() for _ in range(1_000)}
    assert len(owners) == 1_000
    assert all(re.fullmatch(r"[0-9a-f]{32}", owner) for owner in owners)


def test_counted_ids_count() -> None:
    """Ids for tests count from the given start, turns and owners together."""
    ids = CountedIds(start=7)
    assert ids.turn_id(0) == "19700101T000000Z-000000000007"
    assert ids.owner_id() == f"{8:032x}"


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_written_exactly(at_us: int, text: str) -> None:
    """A time is RFC 3339 in UTC with all its microseconds, before 1970 too."""
    assert rfc3339(at_us) == text


@given(st.integers(-(2**63), 2**63 - 1))
@example(2**63 - 1)
@example(-(2**63))
@example(1_700_000_000_000_000_000)
def test_any_number_can_be_written_as_a_time(at_us: int) -> None:
    """P3: a number that is no time of the years 1 to 9999 stays that number, as text; any other is the time it is."""
    text = rfc3339(at_us)
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    if (first - EPOCH) // MICROSECOND <= at_us <= (last - EPOCH) // MICROSECOND:
        assert (datetime.fromisoformat(text) - EPOCH) // MICROSECOND == at_us
    else:
        assert text == str(at_us)


def test_the_boot_clock_goes_forward() -> None:
    """The clock of leases is never set back, and wall time is in microseconds."""
    clock = SystemClock()
    readings = [clock.boot_s() for _ in range(100)]
    assert readings == sorted(readings)
    assert clock.now_us() > 1_600_000_000_000_000
