"""Many rows in one statement, and what a row that was read must be.

Each statement costs some microseconds and gives other Python threads a chance to hold this one up, so a batch runs few,
however many rows it has. Their sizes are powers of two, so that few texts are ever prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Final, TypeAlias

import apsw

from turnlog.events.ids import bytes_text

SqlRow: TypeAlias = tuple[bytes | int | None, ...]
Shape: TypeAlias = frozenset[tuple[type, ...]]

_ROWS_MAX: Final = 256
_TYPES: Final[dict[str, tuple[type, ...]]] = {"i": (int,), "f": (float,), "b": (bytes,), "B": (bytes, type(None))}


def write_rows(db: apsw.Connection, sql: str, rows: Sequence[SqlRow]) -> None:
    """Run `sql` over all rows, which stand in its place `{rows}`."""
    at = 0
    while at < len(rows):
        size = min(_ROWS_MAX, 1 << (len(rows) - at).bit_length() - 1)
        _execute(db, sql, rows[at : at + size])
        at += size


def read_rows(db: apsw.Connection, sql: str, asked: Sequence[SqlRow]) -> Iterator[apsw.Cursor]:
    """Run the query `sql` for all that is asked, filled up with NULLs, which equal nothing."""
    for at in range(0, len(asked), _ROWS_MAX):
        piece = asked[at : at + _ROWS_MAX]
        missing = (1 << (len(piece) - 1).bit_length()) - len(piece)
        nothing: SqlRow = (None,) * len(piece[0])
        yield _execute(db, sql, [*piece, *[nothing] * missing])


def _execute(db: apsw.Connection, sql: str, rows: Sequence[SqlRow]) -> apsw.Cursor:
    return db.execute(_statement(sql, len(rows), len(rows[0])), [value for row in rows for value in row])


@cache
def _statement(sql: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return sql.format(rows=", ".join([row] * rows))


def shape(columns: str) -> Shape:
    """The types that a row may have: a letter a column: `i` and `f` numbers, `b` bytes, `B` where there may be
    none."""
    return frozenset(product(*(_TYPES[letter] for letter in columns)))


def check_shape(row: Sequence[object], wanted: Shape) -> None:
    """Raise `apsw.CorruptError` for a row that nobody has stored so: SQLite gives whatever type the bytes now say."""
    if (*map(type, row),) not in wanted:
        raise apsw.CorruptError("a value has another type than was stored")


def stored_text(data: bytes) -> str:
    """A name of a row. Of a damaged one the bytes are shown: it is no name any more that anybody asks for, and hides no
    other row of its list."""
    try:
        return bytes_text(data)
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")
