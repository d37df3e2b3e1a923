"""What every route of one server shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from turnlog.events.clock import Clock
from turnlog.journal.log import Log
from turnlog.web.counts import Counts
from turnlog.web.page.live import LivePage, Pace
from turnlog.web.stream.changing import ChangeFeed
from turnlog.web.stream.feed import ThreadFeed
from turnlog.web.stream.keeping import Streams
from turnlog.web.stream.sharing import Shared
from turnlog.web.work import Work


@dataclass(frozen=True, kw_only=True)
class Site:
    """One log, and the work on its turns, as `request.app.state.site`.

    `stop` is set when the server begins to stop: every stream then says `bye` and ends. `streams` are the open ones,
    `feeds` what they read of threads, `changes` what they
    read of all of them, `pages` what the pages of threads show live.
    """

    log: Log
    work: Work
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    streams: Streams = field(init=False)
    feeds: Shared[ThreadFeed] = field(init=False)
    changes: Shared[ChangeFeed] = field(init=False)
    pages: Shared[LivePage] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", Streams(self.stop, self.clock))
        object.__setattr__(self, "feeds", Shared[ThreadFeed](lambda thread: ThreadFeed(self.log, thread)))
        object.__setattr__(self, "changes", Shared[ChangeFeed](lambda _: ChangeFeed(self.log)))
        pace = Pace()
        object.__setattr__(self, "pages", Shared[LivePage](lambda thread: LivePage(self.log, thread, pace)))

    @property
    def counts(self) -> Counts:
        """What the server has done, for `/metrics`."""
        return self.work.counts
