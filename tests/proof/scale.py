"""How much is tried by default, and how much by `make test-long`: the one place that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest


@dataclass(frozen=True)
class Scale:
    """Numbers of one run."""

    subsets: int
    """Random subsets of the unsynced operations at each crash point of the scripted turns."""
    recovery_subsets: int
    """The same at each crash point of a recovery."""
    kills_a_store: int
    """Processes killed one after the other on the same store."""
    stores: int
    servers_a_store: int
    """The same of servers with clients."""
    served_stores: int


SHORT: Final = Scale(subsets=100, recovery_subsets=4, kills_a_store=8, stores=9, servers_a_store=8, served_stores=8)
LONG: Final = Scale(
    subsets=1_000, recovery_subsets=30, kills_a_store=50, stores=44, servers_a_store=30, served_stores=36
)

SCALES: Final = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
"""Parameters of a test that has both."""

PARTS: Final = 5
"""Parts that the points of one proof are dealt into, so that several processes of the test run share the work. Odd, for
points before and after a sync take turns, and those before it cost most."""
