"""Fifty ways to damage a store, each by itself."""

from __future__ import annotations

from typing import Final

from tests.audit.damaging import (
    Damage,
    both,
    event,
    file_left,
    flipped,
    of,
    root_torn,
    sql,
    thread_number,
    torn,
    truncated,
    turn_number,
)

T, A = thread_number("t"), turn_number("t", "a")

DAMAGES: Final[dict[str, Damage]] = {
    # --- events
    "a byte of a body": sql(f"UPDATE event SET body = CAST(x'ff' || substr(body, 2) AS BLOB) WHERE {of(9)}"),
    "a byte of a submission": sql(f"UPDATE event SET body = x'00' WHERE {of(34)}"),
    "another word in a submission": sql(
        f"UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'question z', 'question y') AS BLOB) WHERE {of(34)}"
    ),
    "another word in an answer": sql(
        f"UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'the answer', 'the unswer') AS BLOB) WHERE {of(9)}"
    ),
    "a kind from the future": sql(f"UPDATE event SET kind = CAST('dream' AS BLOB) WHERE {of(6)}"),
    "a version from the future": sql(f"UPDATE event SET v = 9 WHERE {of(5)}"),
    "the kind of another event": sql(f"UPDATE event SET kind = CAST('step' AS BLOB) WHERE {of(4)}"),
    "the end of a turn of an unknown kind": sql(f"UPDATE event SET kind = CAST('over' AS BLOB) WHERE {of(38)}"),
    "the first event is gone": sql(f"DELETE FROM event WHERE {of(1)}"),
    "an event in the middle is gone": sql(f"DELETE FROM event WHERE {of(7)}"),
    "a submission is gone": sql(f"DELETE FROM event WHERE {of(34)}"),
    "the end of an earlier turn is gone": sql(f"DELETE FROM event WHERE {of(10)}"),
    "the last event is gone": sql(f"DELETE FROM event WHERE {of(38)}"),
    "the last events are gone": sql(f"DELETE FROM event WHERE thread = {T} AND seq > 34", rows=4),
    "a truncation is gone": sql(f"DELETE FROM event WHERE {of(16)}"),
    "two events at one place": both(
        sql("DROP INDEX event_seq", rows=-1),
        event("a", "step", b'{"id":"s","kind":"note","status":"succeeded"}', seq=9),
    ),
    "a second end, another one": event("a", "interrupted", b'{"reason":"failed"}'),
    "a second end, the same": event("a", "completed", b"{}"),
    "an event after the end": event("d", "step", b'{"id":"s","kind":"note","status":"succeeded"}'),
    "an item before the start": sql(
        "CREATE TEMP TABLE was AS SELECT * FROM event",
        f"UPDATE event SET (kind, body) = (SELECT kind, body FROM was WHERE {of(37)}) WHERE {of(35)}",
        f"UPDATE event SET (kind, body) = (SELECT kind, body FROM was WHERE {of(35)}) WHERE {of(37)}",
    ),
    "a second beginning of the thread": event(None, "thread_created", b"{}"),
    "an event of the thread in a turn": event("a", "thread_renamed", b'{"title":"x"}'),
    "a retry of nothing": sql(
        f'UPDATE event SET body = CAST(replace(CAST(body AS TEXT), \'"retry_of":"c"\', \'"retry_of":"q"\') AS BLOB) '
        f"WHERE {of(23)}"
    ),
    "a truncation of the future": event(None, "thread_truncated", b'{"after":99,"turn":"z","why":"undo"}'),
    "a truncation that names nothing": event(None, "thread_truncated", b'{"after":33,"turn":"q","why":"undo"}'),
    "a call that nothing answers": sql(f"DELETE FROM event WHERE {of(6)} OR {of(7)}", rows=2),
    "an output of no call": sql(
        f"UPDATE event SET body = CAST(replace(CAST(body AS TEXT), '\"c1\"', '\"c9\"') AS BLOB) WHERE {of(7)}"
    ),
    # --- rows
    "the row of a turn is gone": sql(f"DELETE FROM turn WHERE id = {A}"),
    "the row of a thread is gone": sql(f"DELETE FROM thread WHERE id = {T}"),
    "the fold of a turn is no JSON": sql(f"UPDATE turn SET fold = x'00' WHERE id = {A}"),
    "the fold of another turn": sql(
        f"UPDATE turn SET fold = (SELECT fold FROM turn WHERE id = {turn_number('t', 'z')}) WHERE id = {A}"
    ),
    "a settled turn called started": sql(f"UPDATE turn SET phase = 1 WHERE id = {A}"),
    "another first event in a row": sql(f"UPDATE turn SET seq_first = 3 WHERE id = {A}"),
    "another last event in a row": sql(f"UPDATE turn SET seq_last = 99 WHERE id = {A}"),
    "too few places": sql(f"UPDATE turn SET places = 2 WHERE id = {A}"),
    "keys swapped": sql(
        f"UPDATE turn SET key = CAST('swap' AS BLOB) WHERE id = {A}",
        f"UPDATE turn SET key = CAST('key-a' AS BLOB) WHERE id = {turn_number('t', 'z')}",
    ),
    "an owner and a fence of nobody": sql(f"UPDATE turn SET owner = CAST('nobody' AS BLOB), fence = 9 WHERE id = {A}"),
    "the head of long ago": sql(f"UPDATE thread SET head = 5 WHERE id = {T}"),
    "a head ahead of all": sql(f"UPDATE thread SET head = 50 WHERE id = {T}"),
    "the fold of a thread is no JSON": sql(f"UPDATE thread SET fold = x'00' WHERE id = {T}"),
    "another time in a thread's row": sql(f"UPDATE thread SET updated_at = 5 WHERE id = {T}"),
    "a pin that nobody set": sql(f"UPDATE thread SET pinned = 1 WHERE id = {T}"),
    "a late event the row does not know": sql(
        f"UPDATE turn SET fold = CAST(replace(CAST(fold AS TEXT), '\"late\":[33]', '\"late\":[]') AS BLOB) "
        f"WHERE id = {turn_number('t', 'd')}"
    ),
    # --- drafts, snapshots, owners
    "text left by a settled turn": sql(
        f"INSERT INTO chunk VALUES (9999, {T}, {A}, CAST('0/~0/text/0' AS BLOB), 8, 1, 1, 0, CAST('left' AS BLOB))"
    ),
    "text of no turn": sql(
        f"INSERT INTO chunk VALUES (9999, {T}, 7777, CAST('0/~0/text/0' AS BLOB), 8, 1, 1, 0, CAST('left' AS BLOB))"
    ),
    "a byte of a snapshot": sql(
        "UPDATE snapshot_page SET body = CAST(substr(body, 1, 20) || x'ff' || substr(body, 22) AS BLOB) "
        f"WHERE id >> 20 = {A}"
    ),
    "a snapshot of another turn": sql(
        f"UPDATE snapshot_page SET body = (SELECT body FROM snapshot_page WHERE id >> 20 = {turn_number('t', 'c')}) "
        f"WHERE id >> 20 = {A}"
    ),
    "a snapshot of the future": sql(f"UPDATE snapshot SET seq = 77 WHERE turn = {A}"),
    "a page of a snapshot is gone": sql(f"DELETE FROM snapshot_page WHERE id >> 20 = {A}"),
    "a lease of nobody": sql("INSERT INTO owner VALUES (CAST('ghost' AS BLOB), 1e12)"),
    "a lock file left behind": file_left("ghost.lock"),
    # --- the file
    "a bit of a large body": flipped(b"page 1 xxx", 9),
    "a page of events": torn(b"page 1 xxx"),
    "an entry of an index is gone": sql(
        "DROP INDEX turn_order",
        f"CREATE INDEX turn_order ON turn (thread, id) WHERE id <> {45}",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = 'CREATE INDEX turn_order ON turn (thread, id)' WHERE name = 'turn_order'",
    ),
}

WIDE: Final[dict[str, Damage]] = {
    "the root of the index of events": root_torn("event_seq"),
    "the root of the index of turns": root_torn("turn_turn"),
}
"""Damage of what all threads share."""

UNOPENABLE: Final[dict[str, Damage]] = {"the file lost its end": truncated(1), "the file is half": truncated(12)}
