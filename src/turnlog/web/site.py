"""What every route of one server shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from anyio import CapacityLimiter
from starlette.requests import Request

from turnlog.events.clock import Clock
from turnlog.journal.log import Log
from turnlog.limits import FOLDS_AT_ONCE_MAX, PROMPT_READS_MAX
from turnlog.web.counts import Counts
from turnlog.web.keeper import Streams
from turnlog.web.work import Work


@dataclass(frozen=True, kw_only=True)
class Site:
    """One log, and the work on its turns, as `request.app.state.site`.

    `stop` is set when the server begins to stop: every stream then says `bye` and ends. `streams` are the open ones,
    `folding` lets few reads at once fold long turns, `health` has threads for those who ask how the server is,
    `caring` the one in which the store is audited and repaired.
    """

    log: Log
    work: Work
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    streams: Streams = field(init=False)
    folding: CapacityLimiter = field(init=False)
    health: CapacityLimiter = field(init=False)
    caring: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", Streams(self.stop, self.clock))
        object.__setattr__(self, "folding", CapacityLimiter(FOLDS_AT_ONCE_MAX))
        object.__setattr__(self, "health", CapacityLimiter(PROMPT_READS_MAX))
        object.__setattr__(self, "caring", CapacityLimiter(1))

    @property
    def counts(self) -> Counts:
        """What the server has done, for `/metrics`."""
        return self.work.counts


def site_of(request: Request) -> Site:
    """What the routes of this server share."""
    site: Site = request.app.state.site
    return site
