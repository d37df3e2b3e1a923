"""Damaging a store that nobody has open: by SQL, or in its bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from turnlog.events.kinds import VERSION

Damage = Callable[[Path], None]

PLACE_BITS = 20
PAGE_BYTES = 4_096


def thread_number(name: str) -> str:
    return f"(SELECT id FROM thread WHERE thread = x'{name.encode().hex()}')"


def turn_number(thread: str, turn: str) -> str:
    return f"(SELECT id FROM turn WHERE thread = {thread_number(thread)} AND turn = x'{turn.encode().hex()}')"


def of(seq: int, thread: str = "t") -> str:
    """The row of an event."""
    return f"thread = {thread_number(thread)} AND seq = {seq}"


def sql(*statements: str, rows: int = 1) -> Damage:
    """Statements, the last of which changes so many rows (-1: it is no change of rows)."""

    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            changed = [db.execute(statement).rowcount for statement in statements]
            assert changed[-1] == rows, f"{changed} rows changed"

    return damage


def event(turn: str | None, kind: str, body: bytes, *, thread: str = "t", seq: int | None = None) -> Damage:
    """An event more, as if it had been written: at the head, of a turn or of the thread."""

    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            number, head, at = db.execute(
                f"SELECT id, head, updated_at FROM thread WHERE thread = x'{thread.encode().hex()}'"
            ).fetchone()
            if turn is None:
                (cluster,) = db.execute("SELECT max(mark) + 1000 FROM thread").fetchone()
                place = 0
            else:
                cluster, place = db.execute(
                    f"SELECT id, places FROM turn WHERE id = {turn_number(thread, turn)}"
                ).fetchone()
                db.execute("UPDATE turn SET places = places + 1 WHERE id = ?", (cluster,))
            db.execute(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
                (cluster << PLACE_BITS | place, number, seq or head + 1, at, VERSION, kind.encode(), body),
            )
            if seq is None:
                db.execute("UPDATE thread SET head = head + 1 WHERE id = ?", (number,))

    return damage


def both(*damages: Damage) -> Damage:
    """One after the other."""

    def damage(path: Path) -> None:
        for each in damages:
            each(path)

    return damage


def flipped(needle: bytes, at: int = 0, *, bits: int = 0x80) -> Damage:
    """A bit flipped in the file itself, where `needle` stands last."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[data.rindex(needle) + at] ^= bits
        path.write_bytes(data)

    return damage


def torn(needle: bytes) -> Damage:
    """The page of the file in which `needle` stands last, filled with nonsense."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        start = data.rindex(needle) // PAGE_BYTES * PAGE_BYTES
        data[start : start + PAGE_BYTES] = b"\xa5" * PAGE_BYTES
        path.write_bytes(data)

    return damage


def root_torn(name: str) -> Damage:
    """The root page of a table or index filled with nonsense."""

    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        data = bytearray(path.read_bytes())
        data[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = b"\xa5" * PAGE_BYTES
        path.write_bytes(data)

    return damage


def truncated(pages: int) -> Damage:
    """A file that lost its end."""

    def damage(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - pages * PAGE_BYTES])

    return damage


def file_left(name: str) -> Damage:
    """A file left beside the store."""

    def damage(path: Path) -> None:
        folder = path.with_name(f"{path.name}.owners")
        folder.mkdir(exist_ok=True)
        (folder / name).touch()

    return damage
