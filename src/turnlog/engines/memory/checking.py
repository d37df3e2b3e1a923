"""Whether what the memory engine keeps agrees with itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from turnlog.engines.memory.store import StoredThread
from turnlog.engines.protocol import Damage


def damage_of(thread: StoredThread) -> Iterator[Damage]:
    """What of one thread is not as it was written."""
    name = thread.row.thread
    last = max((event.seq for event in thread.events), default=0)
    if thread.row.head != last:
        yield Damage(what="head", thread=name, seq=last, detail=f"the head is {thread.row.head}, the last event {last}")
    for seq, count in Counter(event.seq for event in thread.events).items():
        if count > 1:
            yield Damage(what="duplicate", thread=name, seq=seq, detail=f"{count} events have this seq")
    for event in thread.events:
        if event.turn is not None and event.turn not in thread.turns:
            yield Damage(what="orphan", thread=name, turn=event.turn, seq=event.seq, detail="the turn is not there")
    for turn in sorted({chunk.turn for chunk in thread.chunks} - set(thread.turns)):
        yield Damage(what="orphan", thread=name, turn=turn, detail="drafts of a turn that is not there")
