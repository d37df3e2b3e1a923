"""Making indexes again from their tables. Each function is called inside a write transaction."""

from __future__ import annotations

import apsw


def reindex(db: apsw.Connection) -> None:
    """Make all indexes again in their places. SQLite cannot when a page of one cannot be read."""
    db.execute("REINDEX")


def remake(db: apsw.Connection) -> None:
    """Forget all indexes, and make them again elsewhere: their old pages stay in the file, and nobody reads them.

    Those that a table has by its definition are made again in their places.
    """
    indexes = list(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"))
    db.pragma("writable_schema", 1)
    for name, _ in indexes:
        db.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND name = ?", (name,))
    db.execute("PRAGMA writable_schema = RESET")
    for (name,) in list(db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")):
        db.execute(f'REINDEX "{name}"')
    for _, sql in indexes:
        db.execute(sql)
