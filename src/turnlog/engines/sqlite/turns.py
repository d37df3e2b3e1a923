"""Lists of turns. Each form has an index that makes its cost that of the rows it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

from turnlog.engines.asked import INT64_MAX
from turnlog.engines.protocol import Page, Phase, TurnRow
from turnlog.engines.sqlite.cursors import number_bytes, number_of, thread_place, thread_place_bytes
from turnlog.engines.sqlite.rows import check_shape, shape, stored_text
from turnlog.events.ids import text_bytes

COLUMNS: Final = """n.thread, t.turn, t.key, t.digest, t.retry_of, t.phase, t.owner, t.fence, t.seq_first, t.seq_last,
    t.fold"""
"""Of a turn `t` in a thread `n`: what `turn_row` takes."""

_TURN: Final = shape("bbBbBiBiii")


@dataclass(frozen=True, kw_only=True)
class TurnQuery:
    """What to list; see `Engine.turns`."""

    thread: str | None
    turn: str | None
    key: str | None
    owner: str | None
    retry_of: str | None
    open_only: bool
    latest_each: bool

    @property
    def by_thread(self) -> bool:
        """Whether the list is in the order of threads."""
        return self.latest_each and self.thread is None

    @property
    def named(self) -> bool:
        """Whether at most one turn can match, by a unique index."""
        return not (self.turn is None and self.key is None and self.retry_of is None)

    def values(self) -> dict[str, bytes]:
        """What must be equal, by column."""
        texts = {"thread": self.thread, "turn": self.turn, "key": self.key, "owner": self.owner}
        texts["retry_of"] = self.retry_of
        return {name: text_bytes(text) for name, text in texts.items() if text is not None}


def read_turns(db: apsw.Connection, query: TurnQuery, before: bytes | None, limit: int) -> Page[TurnRow]:
    """See `Engine.turns`."""
    pinned, updated_at, number = (
        thread_place(before) if query.by_thread else (0, 0, INT64_MAX if before is None else number_of(before))
    )
    values = {"pinned": pinned, "updated_at": updated_at, "number": number, "limit": limit + 1}
    rows = list(db.execute(_statement(query), {**values, **query.values()}))
    shown = tuple(turn_row(row[3:]) for row in rows[:limit])
    more = None
    if shown and len(rows) > limit:
        pinned, updated_at, number = rows[len(shown) - 1][:3]
        more = thread_place_bytes(pinned, updated_at, number) if query.by_thread else number_bytes(number)
    return Page(rows=shown, next=more)


def _statement(query: TurnQuery) -> str:
    conditions = [f"t.{column} = :{column}" for column in query.values() if column != "thread"]
    if query.open_only:
        conditions.append("t.phase < 2")
    if query.by_thread:
        place = "n.importing = 0 AND (n.pinned, n.updated_at, n.id) < (:pinned, :updated_at, :number)"
        return f"""
        SELECT n.pinned, n.updated_at, n.id, {COLUMNS} FROM thread AS n CROSS JOIN turn AS t
            ON t.id = (SELECT max(id) FROM turn WHERE thread = n.id)
        WHERE {" AND ".join([place, *conditions])}
        ORDER BY n.pinned DESC, n.updated_at DESC, n.id DESC LIMIT :limit
        """  # noqa: S608
    if query.thread is not None:
        thread = "(SELECT id FROM thread WHERE thread = :thread)"
        conditions.append(f"t.thread = {thread}")
        if query.latest_each:
            conditions.append(f"t.id = (SELECT max(id) FROM turn WHERE thread = {thread})")  # noqa: S608
    else:
        conditions.append("n.importing = 0")
    # Left alone, the planner would walk every turn there is rather than sort the few open ones.
    index = "INDEXED BY turn_open" if query.open_only and not query.named and not query.latest_each else ""
    return f"""
    SELECT 0, 0, t.id, {COLUMNS} FROM turn AS t {index} CROSS JOIN thread AS n ON n.id = t.thread
    WHERE {" AND ".join(["t.id < :number", *conditions])} ORDER BY t.id DESC LIMIT :limit
    """  # noqa: S608


def turn_row(row: Sequence[Any]) -> TurnRow:
    """A turn's row from `COLUMNS`."""
    check_shape(row[:-1], _TURN)
    thread, turn, key, digest, retry_of, phase, owner, fence, seq_first, seq_last, fold = row
    return TurnRow(
        thread=stored_text(thread),
        turn=stored_text(turn),
        key=_text(key),
        digest=stored_text(digest),
        retry_of=_text(retry_of),
        phase=Phase(min(max(phase, Phase.SUBMITTED), Phase.SETTLED)),  # a damaged one as statements take it
        owner=_text(owner),
        fence=fence,
        seq_first=seq_first,
        seq_last=seq_last,
        fold=fold if isinstance(fold, bytes) else b"",  # damage of it alone is told of its turn, and hides no other
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else stored_text(data)
