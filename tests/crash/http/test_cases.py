"""Kinds of failure that people met, provoked over HTTP on real servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ...power.recording import NAME
from ...proof.stored import read_store
from ...web.followers import Follower, segment
from ...web.recording import ACCEPTED, Client, following
from ...web.wire import Gone, exchange
from .doing import THREAD, ask, check_all, ends, hears, stopped, watch
from .serving import served
from .speaking import TALK

RECONNECTIONS = 10


def test_death_in_the_first_line_of_the_agent(tmp_path: Path) -> None:
    """C01, C06, P1: the message of a turn whose server dies as the agent begins is there, interrupted, unanswered."""
    asyncio.run(_first_line(tmp_path))


async def _first_line(folder: Path) -> None:
    async with served(folder) as dying:
        try:
            turn = await ask(dying, "exit e0.0", key="k")
        except Gone:  # the server may die before its answer is read
            turn = ""
        assert await dying.reap() == 137
    async with served(folder) as server:
        follower = watch(server, "follower")
        turn = turn or await ask(server, "exit e0.0", key="k")
        assert (await ends(server, follower, turn))["reason"] == "process_died"
        (row,) = await server.client.turns(THREAD)
        assert (row["turn"], row["state"], row["reason"]) == (turn, "interrupted", "process_died")
        (message,) = (await server.client.transcript(THREAD))["messages"]
        assert (message["role"], message["text"]) == ("user", "exit e0.0")
        left = read_store(folder / NAME)
        async with served(folder):
            assert read_store(folder / NAME) == left
        await stopped(server)
    check_all(folder, dying, server, watchers=[follower])


def test_a_lost_acknowledgement_runs_nothing_twice(tmp_path: Path) -> None:
    """C03, P6: the client of a submission hangs up before its answer, then sends it three times at once to two servers;
    one turn, one start, and the others are told that it is a duplicate."""
    asyncio.run(_lost_acknowledgement(tmp_path))


async def _lost_acknowledgement(folder: Path) -> None:
    content, key = "brief b0.0", "k"
    async with served(folder) as first, served(folder) as second:
        async with Client(first.client.port, []) as hasty:
            sending = asyncio.create_task(hasty.submit(THREAD, content, key=key))
            await first.client.until_there(f"/api/threads/{segment(THREAD)}")
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        clients = (first.client, second.client, second.client)
        answers = await asyncio.gather(*(client.submit(THREAD, content, key=key) for client in clients))
        assert [(answer.status, answer.value["duplicate"]) for answer in answers] == [(ACCEPTED, True)] * 3
        (turn,) = {answer.value["turn"] for answer in answers}
        follower = watch(second, "follower")
        await second.client.until(lambda: follower.state(turn) == "completed")
        assert [event["kind"] for event in follower.events.values()].count("worker_started") == 1
        other = await first.client.submit(THREAD, content + "!", key=key)
        digests = (other.value["stored_digest"], other.value["given_digest"])
        assert (other.status, len(set(digests))) == (409, 2)
        await stopped(second)
        await stopped(first)
    check_all(folder, first, second, watchers=[follower])


@pytest.mark.parametrize(
    ("content", "draft", "kinds"),
    [
        pytest.param("silence s0.0", None, [], id="before-the-first-word"),
        pytest.param("words w0.0", TALK, ["message"], id="in-mid-text"),
        pytest.param("arguments a0.0", "0/call_1/args/0", [], id="in-mid-arguments"),
        pytest.param("call c0.0", None, ["function_call"], id="before-the-result"),
    ],
)
def test_a_stopped_answer_has_a_follow_up(content: str, draft: str | None, kinds: list[str], tmp_path: Path) -> None:
    """C28, C26: stopped anywhere, only what is whole or text is kept as an item, and the next turn has a history in
    which every call has its result."""
    asyncio.run(_follow_up(content, draft, kinds, tmp_path))


async def _follow_up(content: str, draft: str | None, kinds: list[str], folder: Path) -> None:
    async with served(folder) as server:
        turn = await ask(server, content)
        follower = watch(server, "follower")
        wanted = "worker_started" if not kinds else "item"
        await server.client.until(
            lambda: (
                (turn, draft) in follower.drafts
                if draft
                else any(event["kind"] == wanted for event in follower.events.values())
            )
        )
        assert (await server.client.turn_action(THREAD, turn, "interrupt")).status == ACCEPTED
        assert (await ends(server, follower, turn))["reason"] == "cancelled"
        assert [item["body"]["type"] for item in items_of(follower, turn)] == kinds
        assert all(item["body"].get("synthesized") == "interrupted" for item in items_of(follower, turn) if draft)
        entries = (await server.client.timeline(THREAD, turn))["entries"]
        assert not [entry for entry in entries if entry["status"] == "running"]
        if draft and not kinds:
            assert [entry["args"] for entry in entries if entry["status"] == "interrupted"][:1] == ['{"path":"/tm']
        history = (await server.client.ask("GET", f"/api/threads/{segment(THREAD)}/history")).value["items"]
        calls = [item["call_id"] for item in history if item["type"] == "function_call"]
        assert calls == [item["call_id"] for item in history if item["type"] == "function_call_output"]
        again = await ask(server, "brief b0.0")
        await server.client.until(lambda: follower.state(again) == "completed")
        await stopped(server)
    check_all(folder, server, watchers=[follower])


def items_of(follower: Follower, turn: str) -> list[Any]:
    """The items of a turn that a follower has."""
    return [event for event in follower.events.values() if event["turn"] == turn and event["kind"] == "item"]


def test_a_refresh_in_mid_stream_shows_all(tmp_path: Path) -> None:
    """C39, C40, P9: followers that drop at random instants and come back with their cursor or without one, and one that
    never drops, all have the whole once; a restart changes no id."""
    asyncio.run(_refresh(tmp_path))


async def _refresh(folder: Path) -> None:
    random = Random("refresh")
    async with served(folder) as server:
        turn = await ask(server, "talk t0.0")
        steady, dropping = watch(server, "steady"), Follower(THREAD, "dropping")
        anew: list[Follower] = []
        for n in range(RECONNECTIONS):
            anew.append(Follower(THREAD, f"anew {n}"))
            for follower in (dropping, anew[-1]):
                async with following(server.client, follower):
                    length = await hears(server, steady, turn, random.randint(1, 40))
                    await server.client.until(
                        lambda: len(follower.drafts.get((turn, TALK), "")) >= length  # noqa: B023
                    )
            assert dropping.drafts == {(turn, TALK): steady.drafts[turn, TALK][: len(dropping.drafts[turn, TALK])]}
        await server.client.turn_action(THREAD, turn, "interrupt")
        for follower in (dropping, *anew):
            server.client.follow(follower)
            await ends(server, follower, turn)
            assert (follower.events, follower.drafts) == (steady.events, {})
        await stopped(server)
    async with served(folder) as again:
        fresh = watch(again, "fresh")
        await ends(again, fresh, turn)
        assert (fresh.events, fresh.cursor) == (steady.events, steady.cursor)
        await stopped(again)
    check_all(folder, server, again, watchers=[steady, dropping, *anew, fresh])


def test_a_document_and_what_follows_it_are_the_whole(tmp_path: Path) -> None:
    """C41: a document read in mid-answer says where it is; what is followed from there adds to it, and takes nothing
    of it away."""
    asyncio.run(_document(tmp_path))


async def _document(folder: Path) -> None:
    async with served(folder) as server:
        turn = await ask(server, "talk t0.0")
        steady = watch(server, "steady")
        await hears(server, steady, turn, 30)
        document = await server.client.transcript(THREAD)
        await hears(server, steady, turn, 30)
        later = Follower(THREAD, "later", cursor=document["at"])
        server.client.follow(later)
        await hears(server, later, turn)
        question, answer = document["messages"]
        assert question["text"] == "talk t0.0"
        assert later.drafts[turn, answer["draft"]].startswith(answer["text"])
        await server.client.turn_action(THREAD, turn, "interrupt")
        await ends(server, steady, turn)
        await ends(server, later, turn)
        seq = int(document["at"].rpartition(".")[2])
        assert later.events == {n: event for n, event in steady.events.items() if n > seq}
        await stopped(server)
    check_all(folder, server, watchers=[steady, later])


def test_a_cursor_that_proves_nothing_is_told_so(tmp_path: Path) -> None:
    """C40: a cursor of the future and one of another store get a reset with the reason and where to go on; a client
    that reads everything again has all of it."""
    asyncio.run(_unprovable(tmp_path))


async def _unprovable(folder: Path) -> None:
    (folder / "other").mkdir()
    async with served(folder) as server, served(folder / "other") as other:
        turn = await ask(server, "brief b0.0")
        steady, elsewhere = watch(server, "steady"), await ask(other, "brief b0.0")
        strange = watch(other, "strange")
        await server.client.until(lambda: steady.state(turn) == "completed")
        await other.client.until(lambda: strange.state(elsewhere) == "completed")
        assert steady.cursor is not None
        epoch, _, head = steady.cursor.rpartition(".")
        future = f"{epoch}.{int(head) + 1}"
        for cursor, reason in ((future, "future"), (strange.cursor, "epoch")):
            lost = Follower(THREAD, f"lost in {reason}", cursor=cursor)
            async with following(server.client, lost):
                await server.client.until(lambda: bool(lost.resets))  # noqa: B023
            assert lost.resets == [{"reason": reason, "head": steady.cursor}]
            lost.cursor = None
            async with following(server.client, lost):
                await ends(server, lost, turn)
            assert lost.events == steady.events
        await stopped(other)
        await stopped(server)
    check_all(folder, server, watchers=[steady])


def test_half_a_request_accepts_nothing(tmp_path: Path) -> None:
    """P1: a submission whose body never ends, and one that is cut, leave no turn."""
    asyncio.run(_half(tmp_path))


async def _half(folder: Path) -> None:
    body = json.dumps({"content": "brief b0.0"}).encode()
    path, headers = f"/api/threads/{segment(THREAD)}/turns", {"content-type": "application/json"}
    async with served(folder) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.client.port)
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{server.client.port}", "Content-Type: application/json"]
        writer.write("\r\n".join([*lines, f"Content-Length: {len(body) + 1}", "", ""]).encode() + body)
        await writer.drain()
        writer.transport.abort()
        async with exchange(server.client.port, "POST", path, headers, body[:-1]) as request:
            assert request.head.status in (400, 422)
        assert (await server.client.ask("GET", "/api/threads")).value["threads"] == []
        await stopped(server)
