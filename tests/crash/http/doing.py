"""What tests do with servers: ask, watch, and compare what everybody was told with what is there."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from ...power.recording import NAME
from ...proof.facts import Fact
from ...proof.stored import read_store
from ...web.followers import TERMINAL, Follower, PageFollower
from ...web.recording import ACCEPTED
from .evidence import Pages, scripts_in, wrong
from .rounds import same
from .serving import Served, facts_of
from .speaking import TALK

THREAD: Final = "T"

STOPS_MAX: Final = 20
BUSY_MS: Final = 500
"""Far longer than a commit of somebody who is awake."""


async def ask(server: Served, content: str, *, key: str | None = None, when_busy: str = "refuse") -> str:
    """Submit a message; its turn."""
    answer = await server.client.submit(THREAD, content, key=key, when_busy=when_busy)
    assert answer.status == ACCEPTED, answer
    return str(answer.value["turn"])


def watch(server: Served, name: str) -> Follower:
    """Follow the thread."""
    follower = Follower(THREAD, name)
    server.client.follow(follower)
    return follower


async def watch_page(server: Served, name: str) -> PageFollower:
    """Open the thread's page."""
    page = PageFollower(THREAD, name)
    await server.client.load(page)
    server.client.follow(page)
    return page


async def hears(server: Served, follower: Follower, turn: str, more: int = 1) -> int:
    """Wait until the follower has this much more of what a turn says; how much it has."""
    name = (turn, TALK)
    length = len(follower.drafts.get(name, "")) + more
    await server.client.until(lambda: len(follower.drafts.get(name, "")) >= length)
    return len(follower.drafts[name])


async def ends(server: Served, follower: Follower, turn: str) -> Any:
    """Wait until the follower has a turn's end; its body."""
    await server.client.until(lambda: follower.state(turn) is not None)
    events = follower.events.values()
    return next(event["body"] for event in events if event["turn"] == turn and event["kind"] in TERMINAL)


def stop_outside_a_commit(server: Served, folder: Path) -> None:
    """Let a server stand still where it does not hold the store: inside a commit it would keep everybody from writing,
    and nobody could take its turns over until it goes on (P8)."""
    for _ in range(STOPS_MAX):
        server.signal(signal.SIGSTOP)
        if _is_free(folder / NAME):
            return
        server.signal(signal.SIGCONT)
    raise AssertionError("each time it stood still it held the store")


def _is_free(store: Path) -> bool:
    """Whether anybody can write. The store is open in no engine of this process."""
    with closing(apsw.Connection(str(store))) as db:
        db.set_busy_timeout(BUSY_MS)
        try:
            db.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
    return True


async def same_page(server: Served, page: PageFollower) -> None:
    """P9: wait until the page shows what a fresh one shows."""
    fresh = PageFollower(THREAD, "fresh")
    await server.client.load(fresh)
    await server.client.until(same(page, fresh))


def check_all(folder: Path, *servers: Served, watchers: Sequence[Follower | PageFollower] = ()) -> None:
    """Everything that anybody was told is in the store, and nothing else."""
    stored, pages, facts = read_store(folder / NAME), Pages(), list[Fact]()
    for server in servers:
        facts += [*server.client.facts, *facts_of(server.child)]
    for watcher in watchers:
        assert watcher.wrong == []
        if isinstance(watcher, PageFollower):
            pages.take(watcher.seen, scripts_in(stored))
        else:
            facts += watcher.facts
    assert wrong(stored, facts, pages, settled=True) == []


async def stopped(server: Served) -> None:
    """Stop a server in good order."""
    server.signal(signal.SIGTERM)
    assert await server.reap() == 0
