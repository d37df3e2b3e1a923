"""Which truncations of a thread hold: read from the newest back, from each to the one before it, never searched for."""

from __future__ import annotations

from turnlog.engines.protocol import Engine
from turnlog.events.thread_kinds import ThreadTruncated
from turnlog.folds.hidden import Hidden
from turnlog.journal.records import read_events
from turnlog.limits import TRUNCATIONS_MAX


def hidden_in(engine: Engine, thread: str, newest: int | None, first: int = 0) -> Hidden:
    """The truncations that hold, of which `newest` is the last one; those before the seq `first` are not looked for.

    One that cannot be read ends the search: the audit tells of it.
    """
    hidden, seq = Hidden(), newest
    for _ in range(TRUNCATIONS_MAX):
        if seq is None or seq <= first:
            break
        event = next(read_events(engine, thread, seq - 1, before=seq + 1), None)
        if event is None or not isinstance(event.body, ThreadTruncated):
            break
        hidden.add(event.body.after, event.seq)
        seq = event.body.earlier
    return hidden
