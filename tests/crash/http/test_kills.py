"""Real servers that are killed: nothing their clients were told or shown is lost, invented or done twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from turnlog.testing.killing import Child

from ...power.recording import NAME, open_log
from ...proof.scale import LONG, SHORT, Scale
from ...proof.stored import read_store
from ...web.recording import Client, Follower, Gone, following
from ..ledger import wrong_ledger
from .evidence import wrong
from .plan import Kill, draw
from .rounds import Clients, Round
from .serving import facts_of, port_of, start

INSTANT_S = 0.6
"""Within so many seconds of the first draft it showed, or of its beginning, a server is killed at a random instant."""

KILLS_MOST = 4
"""Times the wanted number of kills at the most, where a slow machine lets too few of them land in an open draft."""

RECOVERED = 3
"""Of so many kills one is followed by a recovery without a server; else the next server recovers."""

STORES = [
    *(pytest.param(SHORT, n, id=f"short-{n}") for n in range(SHORT.served_stores)),
    *(pytest.param(LONG, n, id=f"long-{n}", marks=pytest.mark.long) for n in range(LONG.served_stores)),
]


async def live(clients: Clients, folder: Path, kill: Kill, random: Random) -> None:
    """One server, from its start to its death, with all clients."""
    with start(folder, kill) as child:
        port = await port_of(child)
        if port is not None:
            async with Client(port, clients.facts) as client:
                dying = asyncio.create_task(die(child, client, clients, kill, random))
                try:
                    await Round(clients, client, kill.number).play()
                    child.kill()
                except* Gone:
                    pass
                await dying
        clients.facts += facts_of(child)


async def die(child: Child, client: Client, clients: Clients, kill: Kill, random: Random) -> None:
    """Wait for a server's death, or cause it."""
    if kill.place is None:
        before = clients.drafts_shown
        if kill.in_draft:
            await client.until(lambda: clients.drafts_shown > before)
        await asyncio.to_thread(child.kill_within, random, INSTANT_S)
    else:
        assert await asyncio.to_thread(child.killed), "the server ended by itself"


async def end(clients: Clients, folder: Path, number: int) -> list[str]:
    """A last server: everything settles, who followed all the time has what a new client gets, and it stops well."""
    found = []
    with start(folder) as child:
        port = await port_of(child)
        assert port is not None
        async with Client(port, clients.facts) as client:
            await Round(clients, client, number).settle()
            for thread, follower in clients.followers.items():
                new = Follower(thread, "a new follower")
                head = max(follower.events)
                async with following(client, new):
                    await client.until(lambda new=new, head=head: head in new.events)  # type: ignore[misc]
                if (new.events, new.drafts) != (follower.events, follower.drafts) or new.drafts:
                    found.append(f"P9: {thread} is not what its follower has")
            os.kill(child.pid, signal.SIGTERM)
            assert await asyncio.to_thread(child.reap) == 0
        clients.facts += facts_of(child)
    found += [f"{one.name} ended by {one.ends[-1]}" for one in clients.everybody if one.ends[-1] != "bye"]
    return found


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("scale", "store"), STORES)
def test_a_killed_server_loses_nothing(
    scale: Scale, store: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P3, P5, P6, P8, P9, C02, C03, C04, C06, C22, C23, C42: killed again and again, on one store."""
    random = Random(f"{scale.servers_a_store} servers of store {store}")
    clients, drafts_open, kills = Clients(), 0, 0
    for number in range(KILLS_MOST * scale.servers_a_store):
        if number >= scale.servers_a_store and 2 * drafts_open >= number:
            break
        kills += 1
        kill = draw(random, number, recovers=number % RECOVERED != 0)
        asyncio.run(live(clients, tmp_path, kill, random))
        left = read_store(tmp_path / NAME)
        drafts_open += left.drafts_open > 0
        recovers = number % RECOVERED == RECOVERED - 1
        if recovers:
            open_log(tmp_path).close()
            left = read_store(tmp_path / NAME)
        found = [*clients.broken, *wrong(left, clients.all_facts, clients.seen, settled=recovers)]
        found += wrong_ledger(tmp_path, left)
        assert not found, f"{kill}:\n" + "\n".join(found[:20])
    record_property("server_kills", kills)
    record_property("server_kills_in_draft", drafts_open)
    assert 2 * drafts_open >= kills, "too few kills landed while a draft was open: the run proves little"
    found = asyncio.run(end(clients, tmp_path, kills))
    left = read_store(tmp_path / NAME)
    found += [*clients.broken, *wrong(left, clients.all_facts, clients.seen, settled=True)]
    open_log(tmp_path).close()
    if read_store(tmp_path / NAME) != left:
        found.append("P8: another recovery changed something")
    assert not found, "\n".join(found[:20])
