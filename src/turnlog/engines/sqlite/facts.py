"""What is stored now of what a batch names.

Every step of a statement gives other Python threads a chance to hold this one up, so each statement asks for many
things and returns one row: a JSON array, blobs in hex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, TypeAlias

import apsw
import msgspec

from turnlog.engines.decide import Facts, Needs, Pair
from turnlog.engines.protocol import OwnerId, Phase, ThreadRow, TurnRow
from turnlog.engines.sqlite.rows import SqlRow, read_rows
from turnlog.events.ids import bytes_text, text_bytes

UNREAD: Final = bytes(bytearray(b"unread"))
"""Stands for the fold of a stored thread, known by identity: nothing is decided by it, and a write that brings none
leaves it as it is. So it need not be read."""

_ThreadJson: TypeAlias = tuple[str, int, int, int, int]

_THREADS: Final = """
SELECT (SELECT max(mark) FROM thread),
    json_group_array(json_array(hex(t.thread), t.id, t.head, t.rev, t.updated_at))
FROM carray(?) AS asked CROSS JOIN thread AS t ON t.thread = asked.value
"""

_TURNS: Final = """
WITH asked (turn_thread, turn, key_thread, key, retry_thread, retry) AS MATERIALIZED (VALUES {rows}), found (id) AS (
    SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = turn_thread AND t.turn = asked.turn
    UNION ALL SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = key_thread AND t.key = asked.key
    UNION ALL SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = retry_thread AND t.retry_of = retry
)
SELECT json_group_array(json_array(t.id, t.thread, t.places, hex(t.turn), iif(t.key IS NULL, NULL, hex(t.key)),
    hex(t.digest), iif(t.retry_of IS NULL, NULL, hex(t.retry_of)), t.phase, iif(t.owner IS NULL, NULL, hex(t.owner)),
    t.fence, t.seq_first, t.seq_last, hex(t.fold)))
FROM found CROSS JOIN turn AS t ON t.id = found.id
"""


class _TurnJson(msgspec.Struct, array_like=True):
    id: int
    thread: int
    places: int
    turn: str
    key: str | None
    digest: str
    retry_of: str | None
    phase: int
    owner: str | None
    fence: int
    seq_first: int
    seq_last: int
    fold: str


@dataclass
class Stored:
    """`facts` for `decide`, and the numbers the database knows the same things by."""

    facts: Facts
    counter: int = 0
    """The greatest number given so far."""
    thread_ids: dict[str, int] = field(default_factory=dict)
    turn_ids: dict[Pair, int] = field(default_factory=dict)
    turns: dict[Pair, TurnRow] = field(default_factory=dict)
    """Rows as stored, while `facts` goes on with the batch."""
    places: dict[Pair, int] = field(default_factory=dict)
    """Taken in a turn's cluster."""

    def next_number(self) -> int:
        """A number greater than all before it; it is the thread mark of this batch that makes it taken."""
        self.counter += 1
        return self.counter


def read_facts(db: apsw.Connection, needs: Needs, alive: Callable[[OwnerId], bool]) -> Stored:
    """Read what `decide` needs. The write lock is held."""
    stored = Stored(Facts(alive=alive))
    _read_threads(db, needs, stored)
    asked = [_asked(pairs, stored.thread_ids) for pairs in (needs.turns, needs.keys, needs.retries)]
    rows: list[SqlRow] = [turn + key + retry for turn, key, retry in zip_longest(*asked, fillvalue=(None, None))]
    for found in read_rows(db, _TURNS, rows):
        _learn_turns(str(found.get), stored)
    return stored


def _read_threads(db: apsw.Connection, needs: Needs, stored: Stored) -> None:
    names = tuple(text_bytes(name) for name in needs.threads)
    ((counter, rows),) = db.execute(_THREADS, (apsw.carray(names),))
    stored.counter = counter or 0
    for name_hex, number, head, rev, updated_at in msgspec.json.decode(rows, type=list[_ThreadJson]):
        name = _text(name_hex)
        stored.thread_ids[name] = number
        stored.facts.threads[name] = ThreadRow(thread=name, head=head, rev=rev, updated_at=updated_at, fold=UNREAD)


def _asked(pairs: Iterable[Pair], thread_ids: dict[str, int]) -> list[SqlRow]:
    return [(thread_ids[thread], text_bytes(text)) for thread, text in pairs if thread in thread_ids]


def _learn_turns(rows: str, stored: Stored) -> None:
    names = {number: name for name, number in stored.thread_ids.items()}
    for found in msgspec.json.decode(rows, type=list[_TurnJson]):
        row = _turn_row(names[found.thread], found)
        pair = (row.thread, row.turn)
        stored.turn_ids[pair], stored.places[pair], stored.turns[pair] = found.id, found.places, row
        stored.facts.learn(row)


def _turn_row(thread: str, found: _TurnJson) -> TurnRow:
    return TurnRow(
        thread=thread,
        turn=_text(found.turn),
        key=None if found.key is None else _text(found.key),
        digest=_text(found.digest),
        retry_of=None if found.retry_of is None else _text(found.retry_of),
        phase=Phase(found.phase),
        owner=None if found.owner is None else _text(found.owner),
        fence=found.fence,
        seq_first=found.seq_first,
        seq_last=found.seq_last,
        fold=bytes.fromhex(found.fold),
    )


def _text(data: str) -> str:
    return bytes_text(bytes.fromhex(data))
