"""Many rows in one statement.

Each statement costs some microseconds and gives other Python threads a chance to hold this one up, so a batch runs few,
however many rows it has. Their sizes are powers of two, so that few texts are ever prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

import apsw

SqlRow: TypeAlias = tuple[bytes | int | None, ...]

_ROWS_MAX: Final = 256


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
