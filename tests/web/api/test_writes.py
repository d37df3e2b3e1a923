"""What the API takes: messages, interrupts, retries, decisions; once each, and nothing of what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnlog
from tests.runner.running import answer, asking, hang, open_log, run, text
from tests.web.calling import Api, calling, plays
from turnlog.agents.protocol import Task
from turnlog.errors import StoreUnavailable
from turnlog.journal.log import Log
from turnlog.limits import BODY_BYTES_MAX, QUEUE_TURNS_MAX, SUBMISSION_BYTES_MAX
from turnlog.testing.scripted_agent import ScriptedAgent

TURNS = "/api/threads/t/turns"


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with open_log(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def one_log() -> Iterator[Log]:
    with turnlog.open("memory://") as opened:
        yield opened


# --- submitting ------------------------------------------------------------------------------------------------


def test_a_message_is_accepted_and_answered(log: Log) -> None:
    """A message is durable when it is answered with 202, and its turn is run to its end."""

    async def main() -> None:
        async with calling(log) as api:
            accepted = await api.submit("t", "Say hello", key="k1")
            assert accepted == {
                "thread": "t",
                "turn": accepted["turn"],
                "seq": 2,
                "duplicate": False,
                "state": accepted["state"],
                "queue_place": accepted["queue_place"],
            }
            row = await api.settled("t", accepted["turn"])
            assert (row["state"], row["key"], row["preview"]) == ("completed", "k1", "Say hello")
            assert [one["text"] for one in (await api.get("/api/threads/t/transcript"))["messages"]] == [
                "Say hello",
                "Hello.",
            ]

    run(main())


def test_one_key_is_one_turn_however_often_it_is_sent(log: Log) -> None:
    """Three posts of one key at once, and one more after a lost answer, are one turn that is run once (P6, C03)."""
    runs: list[str] = []

    def count(task: Task) -> None:
        runs.append(task.turn)

    async def main() -> None:
        async with calling(log, count, answer("Paid.")) as api:
            answers = await asyncio.gather(*(api.submit("t", "pay 10", key="X") for _ in range(3)))
            again = await api.submit("t", "pay 10", key="X")
            assert {one["turn"] for one in [*answers, again]} == {again["turn"]}
            assert sorted(one["duplicate"] for one in answers) == [False, True, True]
            assert (again["duplicate"], again["seq"]) == (True, 2)
            await api.settled("t", again["turn"])
            assert len((await api.get(TURNS))["turns"]) == 1
            assert (await api.submit("t", "pay 10", key="X"))["state"] == "completed"

    run(main())
    assert len(runs) == 1


def test_a_key_with_other_content_is_refused_with_both_digests(log: Log) -> None:
    """The same key with another amount is a 409 that names both digests; the first one is untouched (P6, C04)."""

    async def main() -> None:
        async with calling(log) as api:
            first = await api.submit("t", "pay 10", key="X")
            await api.settled("t", first["turn"])
            before = await api.get("/api/threads/t/events")
            problem = await api.submit("t", "pay 1000", 409, key="X")
            assert problem["stored_digest"] == before["events"][1]["body"]["digest"]
            assert problem["given_digest"] not in ("", problem["stored_digest"])
            assert (problem["turn"], problem["key"]) == (first["turn"], "X")
            assert await api.get("/api/threads/t/events") == before

    run(main())


def test_a_busy_thread_refuses_queues_or_replaces_as_the_caller_says(log: Log) -> None:
    """By default a second message is a 409 that names the running turn; it may wait behind it, or end it."""

    async def main() -> None:
        async with calling(log, hang(), quick=plays()) as api:
            first = await api.submit("t", "one")
            busy = await api.submit("t", "two", 409)
            assert busy["running"] == first["turn"]
            queued = await api.submit("t", "two", when_busy="queue", agent="quick")
            assert queued["queue_place"] == 1
            replacing = await api.submit("t", "three", when_busy="replace", agent="quick")
            row = await api.settled("t", replacing["turn"])
            assert row["state"] == "completed"
            ends = [(turn["state"], turn["reason"]) for turn in (await api.get(TURNS))["turns"]]
            assert ends == [("completed", None), ("interrupted", "cancelled"), ("interrupted", "cancelled")]

    run(main())


def test_a_full_queue_is_told_with_its_limit(one_log: Log) -> None:
    """More messages than may wait are refused by name of the limit, and may be sent again later."""

    async def main() -> None:
        async with calling(one_log, hang()) as api:
            for _ in range(QUEUE_TURNS_MAX):
                await api.submit("t", "x", when_busy="queue")
            response = await api.call("POST", TURNS, 503, json={"content": "x", "when_busy": "queue"})
            assert response.json()["limit"] == "QUEUE_TURNS_MAX"
            assert "retry-after" in response.headers

    run(main())


def test_an_accepted_message_stays_accepted_when_the_store_cannot_be_read(
    one_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a message is durable its answer is no error: an error would say that no agent was started (P1)."""

    def unreadable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable

    async def main() -> None:
        async with calling(one_log, hang()) as api:
            monkeypatch.setattr(one_log, "turn_view", unreadable)
            accepted = await api.submit("t", "x")
            assert (accepted["queue_place"], accepted["duplicate"]) == (None, False)
            monkeypatch.undo()

    run(main())


# --- requests --------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_the_turn(log: Log) -> None:
    """An interrupt is durable when it is answered, and its turn ends; one that has ended cannot be interrupted."""

    async def main() -> None:
        async with calling(log, text("Half"), hang()) as api:
            turn = (await api.submit("t", "x"))["turn"]
            async for batch in log.watch("t"):
                if batch.drafts:
                    break
            first = await api.post(f"{TURNS}/{turn}/interrupt", {"by": "Ada"})
            assert first["turn"] == turn
            row = await api.settled("t", turn)
            assert (row["reason"], row["interrupt_requested"]) == ("cancelled", True)
            names = [one["title"] for one in (await api.get(f"{TURNS}/{turn}"))["entries"]]
            assert "Ada" in names
            assert (await api.post(f"{TURNS}/{turn}/interrupt", status=409))["state"] == "interrupted"
            assert (await api.post(f"{TURNS}/nobody/interrupt", status=404))["turn"] == "nobody"

    run(main())


def test_a_request_needs_no_body(one_log: Log) -> None:
    """An interrupt without any body is one of nobody in particular."""

    async def main() -> None:
        async with calling(one_log, hang()) as api:
            turn = (await api.submit("t", "x"))["turn"]
            await api.call("POST", f"{TURNS}/{turn}/interrupt", 202)
            assert (await api.settled("t", turn))["reason"] == "cancelled"

    run(main())


def test_an_interrupted_turn_is_asked_again_once(log: Log) -> None:
    """A retry makes one new turn with the same message; again, it gives that one. A completed turn is not retried."""

    async def main() -> None:
        async with calling(log, failing=plays(RuntimeError("no"))) as api:
            turn = (await api.submit("t", "x", agent="failing"))["turn"]
            await api.settled("t", turn)
            again = await api.post(f"{TURNS}/{turn}/retry", {"agent": "scripted"})
            assert again["duplicate"] is False
            row = await api.settled("t", again["turn"])
            assert (row["state"], row["retry_of"], row["preview"]) == ("completed", turn, "x")
            assert (await api.post(f"{TURNS}/{turn}/retry"))["turn"] == again["turn"]
            problem = await api.post(f"{TURNS}/{again['turn']}/retry", status=409)
            assert problem["state"] == "completed"
            hidden = {row["turn"]: row["hidden"] for row in (await api.get(TURNS))["turns"]}
            assert hidden == {turn: True, again["turn"]: False}

    run(main())


@pytest.mark.parametrize("value", [True, None, {"allow": ["a", 1.5]}, "\ud800", 2**70])
def test_a_decision_reaches_the_agent(one_log: Log, value: Any) -> None:
    """The value of a decision reaches the agent as it was sent."""
    decided: list[Any] = []

    async def wait(task: Task) -> None:
        async for request in task.requests:
            decided.append(request.value)
            break

    async def main() -> None:
        async with calling(one_log, asking("waiting"), wait, asking("succeeded")) as api:
            turn = (await api.submit("t", "x"))["turn"]
            path = f"{TURNS}/{turn}/decisions/approval-1"
            first = await api.call("POST", path, 202, content=json.dumps({"value": value}), headers=JSON)
            await api.settled("t", turn)
            assert first.json()["turn"] == turn

    run(main())
    assert decided == [value]


JSON = {"content-type": "application/json"}


def test_a_second_decision_is_refused_while_the_turn_is_open(one_log: Log) -> None:
    """The first decision stands, and the refusal names it."""

    async def main() -> None:
        async with calling(one_log, asking("waiting"), hang()) as api:
            turn = (await api.submit("t", "x"))["turn"]
            path = f"{TURNS}/{turn}/decisions/approval-1"
            first = await api.post(path, {"value": True, "by": "Ada"})
            problem = await api.post(path, {"value": False}, 409)
            assert (problem["approval"], problem["seq"]) == ("approval-1", first["seq"])

    run(main())


# --- what is refused -------------------------------------------------------------------------------------------

DEEP = "[" * 500 + "]" * 500
DEEPER = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ("", 400, "content"),
        ("{}", 400, "content"),
        ("[]", 400, "body"),
        ("nonsense", 400, "body"),
        ('{"content":"x"} and more', 400, "body"),
        ('{"content":1}', 400, "content"),
        ('{"content":null}', 400, "content"),
        ('{"content":[]}', 400, "content"),
        ('{"content":["x"]}', 400, "content[0]"),
        ('{"content":"x","contnet":"y"}', 400, "contnet"),
        ('{"content":"x","key":1}', 400, "key"),
        ('{"content":"x","key":""}', 400, "key"),
        (f'{{"content":"x","key":"{"k" * 257}"}}', 413, "key"),
        (f'{{"content":"x","turn":"{"k" * 257}"}}', 413, "turn"),
        ('{"content":"x","agent":"nobody"}', 400, "agent"),
        ('{"content":"x","when_busy":"wait"}', 400, "when_busy"),
        ('{"content":"x","attachments":[{"path":"p"}]}', 400, "attachments[0].name"),
        ('{"content":"x","attachments":[{"name":"n","size":1}]}', 400, "attachments[0].size"),
        ('{"content":"x","content":"y"}', 400, "content"),
        ('{"content":"x","key":"k","k\\u0065y":"l"}', 400, "key"),
        ('{"content":[{"type":"a","type":"b"}]}', 400, "content[0].type"),
        ('{"content":[{},{"a":[{"b":{"c":1,"d":{},"c":1}}]}]}', 400, "content[1].a[0].b.c"),
        ('{"content":"x","attachments":[{"name":"a","name":"b"}]}', 400, "attachments[0].name"),
        ('{"content":""}', 400, "content"),
        ('{"content":" \\n\\u00a0"}', 400, "content"),
        ('{"content":"x","attachments":[{"name":"n","bytes":-1}]}', 400, "attachments"),
        (f'{{"content":"x","attachments":[{{"name":"n","bytes":1{"0" * 23}}}]}}', 400, "attachments"),
        (f'{{"content":"{"x" * BODY_BYTES_MAX}"}}', 413, "content"),
        ('{"content":[{"n":NaN}]}', 400, "body"),
        ('{"content":[{"n":1e999}]}', 400, "content"),
        (f'{{"content":[{{"n":1{"0" * 5_000}}}]}}', 400, "body"),
        (f'{{"content":[{{"n":{DEEP}}}]}}', 413, "content"),
        (f'{{"content":[{{"n":{DEEPER}}}]}}', 400, "body"),
        (f'{{"content":"{"x" * SUBMISSION_BYTES_MAX}"}}', 413, "content"),
    ],
)
def test_a_wrong_body_is_refused_by_field_and_nothing_is_stored(
    one_log: Log, body: str, status: int, field: str
) -> None:
    """What is wrong with a message is a 4xx that names the field, and no thread comes of it."""

    async def main() -> None:
        async with calling(one_log) as api:
            response = await api.call("POST", TURNS, status, content=body.encode(), headers=JSON)
            assert response.json()["field"] == field
            assert (await api.get("/api/threads"))["threads"] == []

    run(main())


def test_a_body_that_is_not_utf8_is_refused(one_log: Log) -> None:
    """Bytes that are no text are a 400."""

    async def main() -> None:
        async with calling(one_log) as api:
            response = await api.call("POST", TURNS, 400, content=b'{"content":"\xff"}', headers=JSON)
            assert response.json()["field"] == "body"

    run(main())


@pytest.mark.parametrize("content", ["\ud800 and \udfff", "a\u2028b\u0085c\0", "🙂é\u202e", [{"n": 2**70, "f": 1.1}]])
def test_odd_text_is_kept_as_it_was_sent(one_log: Log, content: Any) -> None:
    """Lone surrogates, line ends of all kinds, NUL and long numbers come back as they were sent (P10)."""

    async def main() -> None:
        async with calling(one_log) as api:
            body = json.dumps({"content": content})
            turn = (await api.call("POST", TURNS, 202, content=body, headers=JSON)).json()["turn"]
            await api.settled("t", turn)
            response = await api.call("GET", "/api/threads/t/events")
            assert response.json()["events"][1]["body"]["content"] == content
            assert not {"\u2028", "\u0085", "\0"} & set(response.text)

    run(main())


def test_a_method_that_a_path_has_not_is_told_those_it_has(one_log: Log) -> None:
    """405 names all methods of the path."""

    async def main() -> None:
        async with calling(one_log) as api:
            response: httpx.Response = await api.call("DELETE", TURNS, 405)
            assert {name.strip() for name in response.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}

    run(main())


def test_who_goes_away_cancels_nothing(one_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that hangs up while its message is accepted has it accepted and answered all the same."""
    begun = asyncio.Event()
    real_submit = one_log.submit

    def submit(*given: Any, **named: Any) -> Any:
        begun.set()
        return real_submit(*given, **named)

    async def main() -> None:
        monkeypatch.setattr(one_log, "submit", submit)
        async with calling(one_log) as api:
            task = asyncio.create_task(api.submit("t", "x", turn="T"))
            await begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await answered(api)

    async def answered(api: Api) -> None:
        async for event in one_log.follow("t"):
            if getattr(event, "kind", "") == "completed":
                return

    run(main())


def test_an_agent_that_is_named_runs(one_log: Log) -> None:
    """`agent` chooses one of the server's agents."""

    async def main() -> None:
        agents = {"other": lambda: ScriptedAgent(answer("I am the other."), name="other")}
        async with calling(one_log, **agents) as api:
            turn = (await api.submit("t", "x", agent="other"))["turn"]
            assert (await api.settled("t", turn))["agent"] == "other"

    run(main())
