"""Servers that are told to stop, are stopped, or share a store: whoever watches sees the truth and loses nothing."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from ...power.recording import NAME
from ...proof.stored import read_store
from ...web.followers import Follower
from ...web.recording import ACCEPTED
from .doing import THREAD, ask, check_all, ends, hears, same_page, stop_outside_a_commit, stopped, watch, watch_page
from .rounds import CONFLICT
from .serving import served


def test_a_server_that_is_told_to_stop_says_so(tmp_path: Path) -> None:
    """SIGTERM in mid-answer: every stream ends with a bye, the answer is kept as cancelled and what waits as not
    started, and the next server finds nothing to do (P2, P5, P8)."""
    asyncio.run(_told_to_stop(tmp_path))


async def _told_to_stop(folder: Path) -> None:
    async with served(folder) as first:
        turn = await ask(first, "talk t0.0")
        follower, page = watch(first, "follower"), await watch_page(first, "page")
        waiting = await ask(first, "brief q0.0", when_busy="queue")
        await hears(first, follower, turn)
        await stopped(first)
        await first.client.over(follower, page)
        assert (follower.ends, page.ends) == (["bye"], ["bye"])
    left = read_store(folder / NAME)
    async with served(folder) as second:
        second.client.follow(follower)
        second.client.follow(page)
        assert (await ends(second, follower, turn))["reason"] == "cancelled"
        assert (await ends(second, follower, waiting))["reason"] == "not_started"
        await same_page(second, page)
        assert read_store(folder / NAME) == left
        await stopped(second)
    check_all(folder, first, second, watchers=[follower, page])


def test_a_client_that_goes_away_cancels_nothing(tmp_path: Path) -> None:
    """A turn whose every client has gone goes on, and whoever comes back has all of it."""
    asyncio.run(_goes_away(tmp_path))


async def _goes_away(folder: Path) -> None:
    async with served(folder) as server:
        turn = await ask(server, "answer a0.0\x00\u2028\ud800")
        follower = Follower(THREAD, "follower")
        task = server.client.follow(follower)
        await server.client.until(lambda: bool(follower.drafts))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        later = watch(server, "later")
        await server.client.until(lambda: later.state(turn) == "completed")
        server.client.follow(follower)
        await server.client.until(lambda: follower.state(turn) == "completed")
        assert (follower.events, follower.drafts) == (later.events, {})
        await stopped(server)
    check_all(folder, server, watchers=[follower, later])


def test_a_second_server_shows_and_stops_turns_of_the_first(tmp_path: Path) -> None:
    """C07, P6, P9: on one store, the pages of one server follow the turns of another; an interrupt through it reaches
    the agent, the same key is the same turn, what waits through it runs in its time; opening it changed nothing."""
    asyncio.run(_two_servers(tmp_path))


async def _two_servers(folder: Path) -> None:
    async with served(folder) as first, served(folder) as second:
        turn = await ask(first, "talk t0.0", key="k")
        own = watch(first, "follower of the first")
        other, page = watch(second, "follower of the second"), await watch_page(second, "page of the second")
        await hears(second, other, turn, 60)
        assert await ask(second, "talk t0.0", key="k") == turn
        for _ in range(3):
            async with served(folder):  # a server that opens the store and goes leaves the turns of others alone
                await hears(second, other, turn)
        assert (await second.client.submit(THREAD, "brief b0.0")).status == CONFLICT
        waiting = await ask(second, "brief q0.0", when_busy="queue")
        await hears(first, own, turn)
        assert (await second.client.turn_action(THREAD, turn, "interrupt")).status == ACCEPTED
        assert (await ends(second, other, turn))["reason"] == "cancelled"
        await ends(second, other, waiting)
        await ends(first, own, waiting)
        assert (own.events, own.drafts) == (other.events, other.drafts) == (own.events, {})
        assert other.state(waiting) == "completed"
        await same_page(second, page)
        await stopped(second)
        await stopped(first)
    check_all(folder, first, second, watchers=[own, other, page])


def test_a_stopped_server_is_taken_over(tmp_path: Path) -> None:
    """C07, C08, P7: the turn of a server that is stopped for longer than its lease is settled by another one; when the
    first goes on, its agent's writes are refused, its streams show the truth, and it serves again."""
    asyncio.run(_taken_over(tmp_path))


async def _taken_over(folder: Path) -> None:
    async with served(folder, "hurried") as first, served(folder, "hurried") as second:
        turn = await ask(first, "talk t0.0")
        own, page = watch(first, "follower of the first"), await watch_page(first, "page of the first")
        other = watch(second, "follower of the second")
        await hears(second, other, turn, 60)
        stop_outside_a_commit(first, folder)
        assert (await ends(second, other, turn))["reason"] == "process_died"
        first.signal(signal.SIGCONT)
        assert (await ends(first, own, turn))["reason"] == "process_died"
        await same_page(first, page)
        again = await ask(first, "brief b0.0")
        await ends(first, own, again)
        await ends(second, other, again)
        assert (own.events, own.drafts) == (other.events, other.drafts) == (own.events, {})
        await stopped(second)
        await stopped(first)
    check_all(folder, first, second, watchers=[own, other, page])


def test_a_server_stopped_for_a_moment_loses_no_turn(tmp_path: Path) -> None:
    """C07, P7: a server that goes on within its lease finds its turn as it was; another one has left it alone."""
    asyncio.run(_stopped_for_a_moment(tmp_path))


async def _stopped_for_a_moment(folder: Path) -> None:
    async with served(folder) as first, served(folder) as second:
        turn = await ask(first, "talk t0.0")
        own, other = watch(first, "follower of the first"), watch(second, "follower of the second")
        await hears(second, other, turn)
        first.signal(signal.SIGSTOP)
        for _ in range(20):
            (row,) = await second.client.turns(THREAD)
            assert row["state"] == "assistant_started"
        first.signal(signal.SIGCONT)
        await hears(first, own, turn)
        await hears(second, other, turn)
        assert (await first.client.turn_action(THREAD, turn, "interrupt")).status == ACCEPTED
        assert (await ends(first, own, turn))["reason"] == "cancelled"
        await ends(second, other, turn)
        await stopped(second)
        await stopped(first)
    check_all(folder, first, second, watchers=[own, other])
