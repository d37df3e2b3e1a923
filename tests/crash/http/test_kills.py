"""Real servers that are killed: nothing their clients were told or shown is lost, invented or done twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from turnlog.testing.killing import Child

from ...power.recording import NAME, open_log
from ...proof.scale import LONG, SHORT, Scale
from ...proof.stored import Stored, read_store
from ...web.followers import Follower, segment
from ...web.recording import Client
from ...web.wire import Gone
from ..ledger import wrong_ledger
from .evidence import Pages, scripts_in, wrong
from .plan import Kill, draw
from .rounds import Clients, Round
from .serving import facts_of, port_of, start

INSTANT_S = 0.6
"""Within so many seconds of the first draft it showed, or of its beginning, a server is killed at a random instant."""

KILLS_MOST = 4
"""Times the wanted number of kills at the most, where a slow machine lets too few of them land in an open draft."""

RECOVERED = 3
"""Of so many kills one is followed by a recovery without a server; else the next server recovers."""

ITEMS = 20
"""Items that are compared byte for byte."""

STORES = [
    *(pytest.param(SHORT, n, id=f"short-{n}") for n in range(SHORT.served_stores)),
    *(pytest.param(LONG, n, id=f"long-{n}", marks=pytest.mark.long) for n in range(LONG.served_stores)),
]


async def live(clients: Clients, folder: Path, kill: Kill, random: Random) -> None:
    """One server, from its start to its death, with all clients."""
    with start(folder, kill) as child:
        port = await port_of(child)
        if port is not None:
            async with Client(port, clients.facts) as client, asyncio.TaskGroup() as group:
                group.create_task(die(child, client, clients, kill, random))
                group.create_task(play(child, Round(clients, client, kill.number)))
        clients.facts += facts_of(child)


async def play(child: Child, round_: Round) -> None:
    """Play until the server is gone. One that is still there is killed now, whatever it is still to reach."""
    try:
        await round_.play()
    except* Gone:
        pass
    finally:
        await asyncio.to_thread(child.kill)


async def die(child: Child, client: Client, clients: Clients, kill: Kill, random: Random) -> None:
    """Wait for a server's death, or cause it."""
    if kill.place is None:
        with suppress(Gone):
            await client.until(lambda: clients.shown(kill.mark) or not kill.in_draft)
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
            for follower in clients.followers.values():
                found += await wrong_items(client, follower, read_store(folder / NAME))
            os.kill(child.pid, signal.SIGTERM)
            assert await asyncio.to_thread(child.reap) == 0
            await client.over(*clients.everybody)
        clients.facts += facts_of(child)
    found += [f"{one.name} ended by {one.ends[-1]}" for one in clients.everybody if one.ends[-1] != "bye"]
    return found


async def wrong_items(client: Client, follower: Follower, stored: Stored) -> list[str]:
    """P10: the newest items come back byte for byte."""
    items = [event for event in stored.threads[follower.thread].events if event.kind == "item"][-ITEMS:]
    path = f"/api/threads/{segment(follower.thread)}/items"
    return [f"P10: {item}" for item in items if await client.raw(f"{path}/{item.seq}") != item.raw]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("scale", "store"), STORES)
def test_a_killed_server_loses_nothing(
    scale: Scale, store: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P3, P5, P6, P8, P9, C02, C03, C04, C06, C22, C23, C42: killed again and again, on one store."""
    random = Random(f"{scale.servers_a_store} servers of store {store}")
    clients, pages, drafts_open, kills = Clients(), Pages(), 0, 0
    for number in range(KILLS_MOST * scale.servers_a_store):
        if number >= scale.servers_a_store and 2 * drafts_open >= number:
            break
        kills += 1
        kill = draw(random, number, recovers=number % RECOVERED != 0)
        asyncio.run(live(clients, tmp_path, kill, random))
        drafts_open += read_store(tmp_path / NAME).drafts_open > 0
        recovers = number % RECOVERED == RECOVERED - 1
        if recovers:
            open_log(tmp_path).close()
        found = wrong_now(clients, pages, tmp_path, settled=recovers)
        assert not found, f"{kill}:\n" + "\n".join(found[:20])
    record_property("server_kills", kills)
    record_property("server_kills_in_draft", drafts_open)
    assert 2 * drafts_open >= kills, "too few kills landed while a draft was open: the run proves little"
    found = asyncio.run(end(clients, tmp_path, kills)) + wrong_now(clients, pages, tmp_path, settled=True)
    left = read_store(tmp_path / NAME)
    open_log(tmp_path).close()
    if read_store(tmp_path / NAME) != left:
        found.append("P8: another recovery changed something")
    assert not found, "\n".join(found[:20])


def wrong_now(clients: Clients, pages: Pages, folder: Path, *, settled: bool) -> list[str]:
    """What is wrong with the store, given what all clients know by now."""
    stored = read_store(folder / NAME)
    pages.take(clients.take_seen(), scripts_in(stored))
    found = wrong(stored, clients.all_facts, pages, settled=settled)
    return [*clients.broken, *found, *wrong_ledger(folder, stored)]
