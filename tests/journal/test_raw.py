"""One raw item, by its place."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.journal.stores import Store, kinds, message
from turnlog.errors import InvalidInput, RecordDamaged, UnknownItem, UnknownThread
from turnlog.events.codec import encode_json
from turnlog.journal.log import Log

RAW = b'{ "type":"message" ,"role":"assistant","content":[], "n":1e2 }'


def test_an_item_comes_back_byte_for_byte(store: Store, log: Log) -> None:
    """P10: an item of a turn, a late one and one without a turn are read by their seq as they were accepted."""
    with log.turn("t", "x") as turn:
        inside = turn.item(RAW).result()
    late = turn.item(RAW).result()
    loose = log.append_message("t", RAW).result()
    for place in (log, store.open()):
        assert [place.item("t", seq) for seq in (inside, late, loose)] == [RAW] * 3


def test_a_mapping_is_what_it_was_encoded_to(log: Log) -> None:
    """P10: an item given as a mapping is read as the bytes it was encoded to, once."""
    raw = message("hello\u2028")
    assert log.item("t", log.append_message("t", raw).result()) == encode_json(raw)


def test_a_place_without_an_item_is_told(log: Log) -> None:
    """P4: a place that holds another event, or none, is unknown; one that no event can have is invalid."""
    with log.turn("t", "x") as turn:
        turn.step("s", status="succeeded")
    for seq in range(1, len(kinds(log)) + 2):
        with pytest.raises(UnknownItem) as caught:
            log.item("t", seq)
        assert caught.value.facts == {"thread": "t", "seq": seq}
    with pytest.raises(UnknownThread):
        log.item("u", 1)
    places: list[Any] = [0, -1, 2**63, 2**70, 1.5, True, "1"]
    for place in places:
        with pytest.raises(InvalidInput, match="seq"):
            log.item("t", place)


def test_a_damaged_item_is_told(tmp_path: Path) -> None:
    """P4: an item whose record cannot be read is damaged, and neither unknown nor made up."""
    with Store("sqlite", tmp_path) as store:
        seq = store.open().append_message("t", RAW).result()
    with sqlite3.connect(store.path) as db:
        assert db.execute("UPDATE event SET body = x'00' WHERE seq = ?", [seq]).rowcount == 1
    db.close()
    with Store("sqlite", tmp_path) as store, pytest.raises(RecordDamaged) as caught:
        store.open().item("t", seq)
    assert (caught.value.seq, caught.value.kind) == (seq, "thread_item")
