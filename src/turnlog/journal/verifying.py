"""Verifying: everything is read and folded again, in memory that does not grow with the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from turnlog.engines.protocol import Engine
from turnlog.folds.findings import Finding
from turnlog.journal.auditing import ThreadAuditing, store_findings, thread_names
from turnlog.limits import VERIFY_TELLS_EVENTS


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a verification is: threads and events that were read, findings so far. `done` is the last one's."""

    threads: int
    events: int
    findings: int
    done: bool = False


Verified: TypeAlias = Finding | Progress


def verify_store(engine: Engine) -> Iterator[Verified]:
    """All findings, and how far it is after every `VERIFY_TELLS_EVENTS` events; at the end, what it came to."""
    threads = events = findings = told = 0
    lost = False
    for found in store_findings(engine):
        findings += 1
        lost = lost or found.kind == "index_differs"
        yield found
    for name in () if lost else thread_names(engine):
        if isinstance(name, Finding):
            findings += 1
            yield name
            continue
        audit = ThreadAuditing(engine, name)
        for found in audit.findings():
            findings += 1
            yield found
        threads, events = threads + 1, events + audit.events
        if events - told >= VERIFY_TELLS_EVENTS:
            told = events
            yield Progress(threads=threads, events=events, findings=findings)
    yield Progress(threads=threads, events=events, findings=findings, done=True)
