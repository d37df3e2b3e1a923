"""Damage on purpose, in what is made of the events of a thread: a snapshot, a row. It is done by a process of its own,
for who has a store open must not open its file in another way."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import apsw

BUSY_MS = 30_000
"""Milliseconds to wait for the store, which a stopped process may hold."""

OF_THREAD = "(SELECT id FROM turn WHERE thread = (SELECT id FROM thread WHERE thread = ?) AND phase = 2)"
HARMS = (
    """UPDATE turn SET fold = CAST(replace(CAST(fold AS TEXT), '"state":"completed"', '"state":"interrupted"') AS BLOB)
    WHERE id IN """
    + OF_THREAD,
    "UPDATE snapshot_page SET body = CAST(replace(CAST(body AS TEXT), 'a', 'b') AS BLOB) WHERE id >> 20 IN "
    + OF_THREAD,
)


async def harm(folder: Path, thread: str) -> bool:
    """Damage rows of a thread that nobody writes to; whether there was something to damage."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(folder / "store.db"), thread, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await child.communicate()
    assert child.returncode == 0
    return int(printed) > 0


def main() -> None:
    """Arguments: the file, and the thread."""
    db = apsw.Connection(sys.argv[1])
    db.set_busy_timeout(BUSY_MS)
    before = db.total_changes()
    with db:
        for statement in HARMS:
            db.execute(statement, (sys.argv[2].encode(),))
    sys.stdout.write(f"{db.total_changes() - before}\n")
    db.close()


if __name__ == "__main__":
    main()
