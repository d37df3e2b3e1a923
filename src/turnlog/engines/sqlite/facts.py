"""What is stored now of what a batch names, in few statements whatever the size of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import apsw

from turnlog.engines.decide import Facts, Needs, Pair
from turnlog.engines.protocol import OwnerId, ThreadRow, TurnRow
from turnlog.engines.sqlite.rows import SqlRow, check_shape, read_rows, shape, stored_text
from turnlog.engines.sqlite.snapshots import snapshot_state
from turnlog.engines.sqlite.turns import COLUMNS, turn_row
from turnlog.events.ids import text_bytes

UNREAD: Final = bytes(bytearray(b"unread"))
"""Stands for the fold of a stored thread, known by identity: nothing is decided by it, and a write that brings none
leaves it as it is. So it need not be read."""

_THREAD: Final = shape("biiiiii")
_NUMBERS: Final = shape("ii")

_THREADS: Final = """
SELECT t.thread, t.id, t.head, t.rev, t.updated_at, t.pinned, t.importing FROM carray(?) AS asked CROSS JOIN thread AS t
    ON t.thread = asked.value
"""

_TURNS: Final = f"""
WITH asked (turn_thread, turn, key_thread, key, retry_thread, retry) AS MATERIALIZED (VALUES {{rows}}), found (id) AS (
    SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = turn_thread AND t.turn = asked.turn
    UNION ALL SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = key_thread AND t.key = asked.key
    UNION ALL SELECT t.id FROM asked CROSS JOIN turn AS t ON t.thread = retry_thread AND t.retry_of = retry
)
SELECT t.id, t.places, {COLUMNS}
FROM found CROSS JOIN turn AS t ON t.id = found.id CROSS JOIN thread AS n ON n.id = t.thread
"""  # noqa: S608


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
    grown: set[Pair] = field(default_factory=set)
    """Turns of which `places` is not what is stored."""

    def next_number(self) -> int:
        """A number greater than all before it. It counts as taken once a thread's mark is greater."""
        self.counter += 1
        return self.counter


def read_facts(db: apsw.Connection, needs: Needs, alive: Callable[[OwnerId], bool]) -> Stored:
    """Read what `decide` needs. The write lock is held."""
    stored = Stored(Facts(alive=alive))
    _read_threads(db, needs, stored)
    asked = [_asked(pairs, stored.thread_ids) for pairs in (needs.turns, needs.keys, needs.retries)]
    rows: list[SqlRow] = [turn + key + retry for turn, key, retry in zip_longest(*asked, fillvalue=(None, None))]
    for found in read_rows(db, _TURNS, rows):
        for number, places, *columns in found:
            check_shape((number, places), _NUMBERS)
            row = turn_row(columns)
            pair = (row.thread, row.turn)
            stored.turn_ids[pair], stored.places[pair], stored.turns[pair] = number, places, row
            stored.facts.learn(row)
    for pair in needs.snapshots:
        if pair in stored.turn_ids and (state := snapshot_state(db, stored.turn_ids[pair])) is not None:
            stored.facts.snapshots[pair] = state
    return stored


def _read_threads(db: apsw.Connection, needs: Needs, stored: Stored) -> None:
    stored.counter = db.execute("SELECT max(mark) FROM thread").get or 0
    names = tuple(text_bytes(name) for name in needs.threads)
    for row in db.execute(_THREADS, (apsw.carray(names),)):
        check_shape(row, _THREAD)
        name_bytes, number, head, rev, updated_at, pinned, importing = row
        name = stored_text(name_bytes)
        stored.thread_ids[name] = number
        stored.facts.threads[name] = ThreadRow(
            thread=name,
            head=head,
            rev=rev,
            updated_at=updated_at,
            pinned=bool(pinned),
            importing=bool(importing),
            fold=UNREAD,
        )


def _asked(pairs: Iterable[Pair], thread_ids: dict[str, int]) -> list[SqlRow]:
    return [(thread_ids[thread], text_bytes(text)) for thread, text in pairs if thread in thread_ids]
