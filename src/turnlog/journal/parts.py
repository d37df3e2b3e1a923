"""What a `Log` is made of, for the files that its methods are in."""

from __future__ import annotations

from turnlog.engines.protocol import Engine, OwnerId
from turnlog.events.clock import Clock
from turnlog.events.ids import IdSource
from turnlog.journal.aside import Aside
from turnlog.journal.follow import Hub
from turnlog.journal.reading import Reading
from turnlog.journal.writer import Writer


class LogParts:
    """Set when a `Log` is opened. `owner` is its id, never used again."""

    owner: OwnerId
    _engine: Engine
    _clock: Clock
    _ids: IdSource
    _hub: Hub
    _aside: Aside
    _reading: Reading
    _writer: Writer
