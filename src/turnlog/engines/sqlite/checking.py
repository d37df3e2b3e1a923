"""Whether a store is as it was written: what SQLite sees of its own pages, and what the tables say of each other.

Everything is read in short transactions, so that nobody who writes has to keep old pages for a long search. What is
damaged ends one of them, and the search goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import apsw

from turnlog.engines.asked import INT64_MAX
from turnlog.engines.protocol import Damage
from turnlog.engines.sqlite.places import PLACE_BITS
from turnlog.errors import StoreDamaged
from turnlog.events.ids import bytes_text, text_bytes

T = TypeVar("T")


class _Read(Protocol):
    """Gives what is read of a connection in a transaction of its own, and raises `StoreDamaged`."""

    def __call__(self, use: Callable[[apsw.Connection], T]) -> T: ...


_Row: TypeAlias = tuple[Any, ...]

_ROWS: Final = 1_000
"""Rows read in one transaction: some milliseconds."""

_OWN_KINDS: Final = b"thread_"
"""How the kinds of a thread's own events begin. No other event is without a turn."""

_THREADS: Final = "SELECT id, thread FROM thread WHERE id > ? ORDER BY id LIMIT ?"

_TURNS: Final = f"""
SELECT t.id, t.turn, t.places, CASE WHEN t.phase < 2 THEN t.owner END, (
    SELECT max(id) & {(1 << PLACE_BITS) - 1} FROM event
    WHERE id BETWEEN t.id << {PLACE_BITS} AND (t.id + 1 << {PLACE_BITS}) - 1
) FROM turn AS t WHERE t.thread = ? AND t.id > ? ORDER BY t.id LIMIT ?
"""  # noqa: S608

_EVENTS: Final = f"""
SELECT e.seq, e.id, t.turn, e.kind, e.body FROM event AS e LEFT JOIN turn AS t ON t.id = e.id >> {PLACE_BITS}
WHERE e.thread = ? AND (e.seq, e.id) > (?, ?) ORDER BY e.seq, e.id LIMIT ?
"""  # noqa: S608

_HEAD: Final = """
SELECT head, (SELECT coalesce(max(seq), 0) FROM event WHERE thread = t.id) FROM thread AS t WHERE id = ?
"""

_CHUNKS: Final = """
SELECT c.turn, count(*) FROM chunk AS c LEFT JOIN turn AS t ON t.id = c.turn
WHERE c.thread = ? AND t.id IS NULL GROUP BY c.turn
"""

_NEXT_THREAD: Final = "SELECT min(thread) FROM {table} WHERE thread > ?"

_OF_INDEX: Final = re.compile(r"(?:wrong # of entries in|missing from|non-unique entry in|null value in) index (\S+)")

_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table'"

_TWICE: Final = {
    "turn id": "SELECT turn, count(*) FROM turn WHERE thread = ? GROUP BY turn HAVING count(*) > 1",
    "key": "SELECT key, count(*) FROM turn WHERE thread = ? AND key IS NOT NULL GROUP BY key HAVING count(*) > 1",
    "retried turn": """
        SELECT retry_of, count(*) FROM turn WHERE thread = ? AND retry_of IS NOT NULL
        GROUP BY retry_of HAVING count(*) > 1
    """,
    "place of the started turn": """
        SELECT NULL, count(*) FROM turn WHERE thread = ? AND phase = 1 HAVING count(*) > 1
    """,
}


class Checker:
    """One search."""

    def __init__(self, read: _Read) -> None:
        self._read = read

    def store(self) -> Iterator[Damage]:
        """All of it; where an index differs from its table, nothing is looked for by it."""
        lost = False
        for found in self._pages():
            lost = lost or found.what == "index"
            yield found
        if lost:
            return
        for table in ("event", "chunk", "turn"):
            yield from self._without_thread(table)
        for row in self._walk(lambda after, limit: self._rows(_THREADS, (after, limit))):
            if isinstance(row, Damage):
                yield row
            else:
                yield from self._named(*row)

    def thread(self, name: str) -> Iterator[Damage]:
        """One thread; nothing for one that is not there."""
        try:
            rows = self._rows("SELECT id, thread FROM thread WHERE thread = ?", (text_bytes(name),))
        except StoreDamaged as error:
            yield Damage(what="unreadable", thread=name, detail=str(error))
            return
        for row in rows:
            yield from self._named(*row)

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[_Row]:
        return self._read(lambda db: list(db.execute(sql, values)))

    # --- what SQLite says -------------------------------------------------------------------------------------------

    def _pages(self) -> Iterator[Damage]:
        """Each table by itself with its indexes, so that no transaction lasts as long as all of them."""
        try:
            tables = ["sqlite_schema", *(name for (name,) in self._rows(_TABLES, ()))]
        except StoreDamaged as error:
            yield Damage(what="unreadable", detail=str(error))
            return
        for table in tables:
            try:
                said = [text for (text,) in self._rows(f"PRAGMA integrity_check('{table}')", ())]
            except StoreDamaged as error:
                said = [str(error)]
            if said := [text for text in said if text != "ok"]:
                yield from _of_table(table, said, self._is_whole(table))

    def _is_whole(self, table: str) -> bool:
        """Whether all rows of a table can be read by themselves, to their last bytes."""
        try:
            columns = [name for _, name, *_ in self._rows(f"PRAGMA table_info('{table}')", ())]
            ends = ", ".join(f'max(substr("{column}", -1))' for column in columns)
            self._rows(f"SELECT {ends} FROM {table} NOT INDEXED", ())  # noqa: S608
        except StoreDamaged:
            return False
        return not table.startswith("sqlite_")

    # --- what tables say of each other ------------------------------------------------------------------------------

    def _without_thread(self, table: str) -> Iterator[Damage]:
        """Rows of a table whose thread is not there, by the numbers of threads in its index."""
        number, sql = 0, _NEXT_THREAD.format(table=table)
        try:
            while (found := self._rows(sql, (number,))[0][0]) is not None:
                number = found
                if not self._rows("SELECT 1 FROM thread WHERE id = ?", (number,)):
                    ((count,),) = self._rows(f"SELECT count(*) FROM {table} WHERE thread = ?", (number,))  # noqa: S608
                    yield Damage(what="orphan", detail=f"{count} of table {table}, of a thread that is not there")
        except StoreDamaged as error:
            yield Damage(what="unreadable", detail=f"{table}, behind thread number {number}: {error}")

    def _named(self, number: int, name_bytes: bytes) -> Iterator[Damage]:
        name = _text(name_bytes)
        if name is None:
            yield Damage(what="unreadable", detail=f"the id of the thread with the number {number}")
            return
        try:
            yield from self._thread(number, name)
        except (TypeError, AttributeError) as error:
            yield Damage(what="unreadable", thread=name, detail=f"a value has another type than was stored: {error}")

    def _thread(self, number: int, name: str) -> Iterator[Damage]:
        yield from self._head(number, name)
        yield from self._events(number, name)
        yield from self._turns(number, name)
        for row in self._answers(name, _CHUNKS, number):
            yield row if isinstance(row, Damage) else _loose(name, row[1])
        for what, sql in _TWICE.items():
            for row in self._answers(name, sql, number):
                yield row if isinstance(row, Damage) else _twice(name, what, *row)

    def _answers(self, name: str, sql: str, number: int) -> list[_Row] | list[Damage]:
        """The rows of a question about one thread, or that it cannot be answered."""
        try:
            return self._rows(sql, (number,))
        except StoreDamaged as error:
            return [Damage(what="unreadable", thread=name, detail=str(error))]

    def _head(self, number: int, name: str) -> Iterator[Damage]:
        for row in self._answers(name, _HEAD, number):
            if isinstance(row, Damage):
                yield row
            elif row[0] != row[1]:
                detail = f"the head is {row[0]}, the last event {row[1]}"
                yield Damage(what="head", thread=name, seq=row[1], detail=detail)

    def _turns(self, number: int, name: str) -> Iterator[Damage]:
        for row in self._walk(lambda after, limit: self._rows(_TURNS, (number, after, limit))):
            if isinstance(row, Damage):
                yield Damage(what="unreadable", thread=name, detail=f"turns: {row.detail}")
            elif _text(row[1]) is None:
                yield Damage(what="unreadable", thread=name, detail=f"the id of the turn with the number {row[0]}")
            elif row[3] is not None and _text(row[3]) is None:
                detail = "the owner of the turn, which is open: nobody can settle it"
                yield Damage(what="unreadable", thread=name, turn=_text(row[1]), detail=detail)
            elif row[4] is not None and row[2] <= row[4]:
                detail = f"the next event would take a place that is taken: {row[2]} are noted, {row[4] + 1} are"
                yield Damage(what="places", thread=name, turn=_text(row[1]), detail=detail)

    def _walk(self, fetch: Callable[[int, int], list[_Row]]) -> Iterator[_Row | Damage]:
        """Rows behind a number, on and on. A row that cannot be read is looked for alone, and then what is behind."""
        after, limit = 0, _ROWS
        while True:
            try:
                rows = fetch(after, limit)
            except StoreDamaged as error:
                if limit > 1:
                    limit = 1
                    continue
                yield Damage(what="unreadable", detail=f"rows behind the number {after}: {error}")
                if (behind := _behind(fetch, after)) is None:
                    return
                after, limit = behind, _ROWS
                continue
            yield from rows
            if len(rows) < limit:
                return
            after = rows[-1][0]

    # --- events -----------------------------------------------------------------------------------------------------

    def _events(self, number: int, name: str) -> Iterator[Damage]:
        first = before = 0
        last = -1
        for found in self._event_pages(number):
            if isinstance(found, int):
                first, last = (first if last == found - 1 else found), found
                continue
            if last >= 0:
                yield _unread(name, first, last)
                last = -1
            for seq, _, turn, kind in found:
                if seq == before:
                    yield Damage(what="duplicate", thread=name, seq=seq, detail="two events have this seq")
                if turn is None and not kind.startswith(_OWN_KINDS):
                    yield Damage(what="orphan", thread=name, seq=seq, detail="the event's turn is not there")
                before = seq
        if last >= 0:
            yield _unread(name, first, last)

    def _event_pages(self, number: int) -> Iterator[list[_Row] | int]:
        """Seq, id, turn and kind of all events in order, their bodies read too; or the seq of one that cannot be."""
        place, end = (0, 0), self._end(number)
        while True:
            rows, whole = self._event_page(number, place)
            if rows:
                yield rows
                place = rows[-1][:2]
            if not whole:
                place = (place[0] + 1, INT64_MAX)
                yield place[0]
                if place[0] >= end:
                    return
            elif len(rows) < _ROWS:
                return

    def _event_page(self, number: int, place: tuple[int, int]) -> tuple[list[_Row], bool]:
        """What can be read behind a place, and whether that was without damage."""
        rows: list[_Row] = []

        def read(db: apsw.Connection) -> bool:
            try:
                for *columns, _ in db.execute(_EVENTS, (number, *place, _ROWS)):
                    rows.append(tuple(columns))
            except apsw.CorruptError:
                return False
            return True

        return rows, self._read(read)

    def _end(self, number: int) -> int:
        """Where a thread ends, as far as that can be told."""
        ends = [0]
        for sql in ("SELECT max(seq) FROM event WHERE thread = ?", "SELECT head FROM thread WHERE id = ?"):
            with suppress(StoreDamaged):
                ends += (end for (end,) in self._rows(sql, (number,)) if end is not None)
        return max(ends)


def _behind(fetch: Callable[[int, int], list[_Row]], after: int) -> int | None:
    """The least number behind which rows can be read again, found by doubling and halving; None if there is none."""

    def readable(number: int) -> bool:
        try:
            fetch(number, 1)
        except StoreDamaged:
            return False
        return True

    step = 1
    while not readable(after + step):
        step *= 2
        if after + step > INT64_MAX:
            return None
    low, high = after + step // 2, after + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if readable(middle) else (middle, high)
    return high


def _of_table(table: str, said: list[str], whole: bool) -> Iterator[Damage]:
    """What SQLite says of a table, an index at a time. Of one that is whole, all of it is about its indexes."""
    indexes: dict[str, list[str]] = {}
    for text in said:
        if found := _OF_INDEX.search(text):
            indexes.setdefault(f"index {found[1]}", []).append(text)
        elif whole:
            indexes.setdefault("an index", []).append(text)
        else:
            yield Damage(what="unreadable", detail=f"{table}: {text}")
    for index, texts in indexes.items():
        more = f", and {len(texts) - 1} more like it" if len(texts) > 1 else ""
        yield Damage(what="index" if whole else "unreadable", detail=f"{index} of {table}: {texts[0]}{more}")


def _loose(name: str, count: int) -> Damage:
    return Damage(what="orphan", thread=name, detail=f"{count} chunks of drafts of a turn that is not there")


def _twice(name: str, what: str, text: bytes | None, count: int) -> Damage:
    turn = _text(text) if what == "turn id" else None
    named = "" if text is None else f" {_text(text)!r}"
    return Damage(what="duplicate", thread=name, turn=turn, detail=f"{count} turns have the {what}{named}")


def _unread(name: str, first: int, last: int) -> Damage:
    detail = "the event cannot be read" if first == last else f"events up to {last} cannot be read"
    return Damage(what="unreadable", thread=name, seq=first, detail=detail)


def _text(data: bytes | None) -> str | None:
    """A text, or None when it is none any more."""
    try:
        return bytes_text(data) if isinstance(data, bytes) else None
    except UnicodeDecodeError:
        return None
