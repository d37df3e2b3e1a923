"""What the API tells: lists, traces, items, transcripts, histories and events, in pages that meet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import turnlog
from tests.runner.running import answer, asking, call, hang, output, run, text
from tests.web.calling import Api, calling, plays
from turnlog.agents.protocol import ItemSignal, StepSignal
from turnlog.errors import TurnlogError
from turnlog.events.clock import rfc3339
from turnlog.events.kinds import Failure
from turnlog.journal.log import Log
from turnlog.limits import BODY_BYTES_MAX, PAGE_BYTES_MAX
from turnlog.testing.scripted_agent import Act

ODD_RAW = (
    b'{ "type":"message",\n\t"role" : "assistant", "big": 123456789012345678901234567890, "f": 1.10, '
    b'"twice": 1, "twice": 2, '
    b'"content": [{"type":"output_text","text":"a\\ud800b \xe2\x80\xa8 \\u0000 \xc2\x85 end"}] }'
)
"""Valid JSON that every second encoding would change: white space, a lone surrogate, line ends, a field given twice."""


@pytest.fixture
def log() -> Iterator[Log]:
    with turnlog.open("memory://") as opened:
        yield opened


async def pages(api: Api, path: str, field: str, after: str = "before", **query: Any) -> list[Any]:
    """All rows of a list, page by page; it is not one page."""
    found: list[Any] = []
    cursor: str | None = None
    count = 0
    while True:
        page = await api.get(path, params=query if cursor is None else {**query, after: cursor})
        found += page[field]
        count += 1
        cursor = page["next"]
        if cursor is None:
            assert count > 1
            return found


# --- lists -----------------------------------------------------------------------------------------------------


def test_threads_come_in_pages_that_meet(log: Log) -> None:
    """The last changed thread comes first, and pages give each thread once."""

    async def main() -> None:
        async with calling(log) as api:
            for name in "abcde":
                await api.settled(name, (await api.submit(name, f"about {name}"))["turn"])
            rows = await pages(api, "/api/threads", "threads", limit=2)
            assert [row["thread"] for row in rows] == list("edcba")
            assert await api.get("/api/threads/c") == rows[2]
            assert rows[2]["title"] == "about c"

    run(main())


def test_turns_come_in_pages_that_meet(log: Log) -> None:
    """The newest turn comes first, and the list tells where to follow the thread from."""

    async def main() -> None:
        async with calling(log) as api:
            for number in range(5):
                await api.settled("t", (await api.submit("t", f"question {number}"))["turn"])
            rows = await pages(api, "/api/threads/t/turns", "turns", limit=2)
            assert [row["preview"] for row in rows] == [f"question {number}" for number in (4, 3, 2, 1, 0)]
            head = log.thread("t").head
            assert (await api.get("/api/threads/t/turns", limit=1))["at"] == f"{log.epoch}.{head}"

    run(main())


def test_the_newest_turn_of_each_thread_is_listed(log: Log) -> None:
    """`/api/turns?latest=1` has one row a thread, in pages that meet."""

    async def main() -> None:
        async with calling(log) as api:
            for name in ("a", "b", "a", "c"):
                last = await api.submit(name, name)
                await api.settled(name, last["turn"])
            rows = await pages(api, "/api/turns", "turns", latest="1", limit=1)
            assert [row["thread"] for row in rows] == ["c", "a", "b"]
            assert rows[1]["turn"] == (await api.get("/api/threads/a"))["latest"]
            assert (await api.get("/api/turns", 400))["field"] == "latest"

    run(main())


def test_a_waiting_turn_tells_its_place(log: Log) -> None:
    """A turn behind two others says how many come before it; the row of the running one says who works on it."""

    async def main() -> None:
        async with calling(log, hang()) as api:
            turns = [await api.submit("t", "x", when_busy="queue") for _ in range(3)]
            assert [turn["queue_place"] for turn in turns][1:] == [1, 2]
            rows = (await api.get("/api/threads/t/turns"))["turns"]
            assert [row["queue_place"] for row in rows][:2] == [2, 1]
            assert {row["owner"] for row in rows} == {log.owner}

    run(main())


# --- traces ----------------------------------------------------------------------------------------------------


def test_a_trace_comes_in_pages_that_meet(log: Log) -> None:
    """Pages of any size give the entries of a trace once and in order, parents and failures with them."""
    script: list[Act] = [
        StepSignal(id="sub", step="subagent", name="reader"),
        *(StepSignal(id=f"s{n}", parent="sub", step="tool", name="read", status="succeeded") for n in range(6)),
        StepSignal(id="bad", step="tool", status="failed", failure=Failure(reason="no such file")),
        answer("Done."),
    ]

    async def main() -> None:
        async with calling(log, *script) as api:
            turn = (await api.submit("t", "x"))["turn"]
            row = await api.settled("t", turn)
            whole = await api.get(f"/api/threads/t/turns/{turn}")
            assert whole["next"] is None
            assert [entry["parent"] for entry in whole["entries"]] == [None, *["sub"] * 6, None, None]
            assert whole["entries"][7]["failure"] == {"reason": "no such file", "next_step": None}
            assert (row["failures"], row["subagents"]) == (1, 1)
            for limit in (1, 2, 4):
                entries = await pages(api, f"/api/threads/t/turns/{turn}", "entries", "after", limit=limit)
                assert entries == whole["entries"]
            assert await api.get("/api/threads/t/turns/latest") == whole

    run(main())


def test_a_page_of_a_trace_is_bounded_in_bytes(log: Log) -> None:
    """However long its texts are, a page of a trace stays under its bound, and what is cut says so (P4, P11)."""
    long = "x" * (BODY_BYTES_MAX - 1_000)
    script: list[Act] = [StepSignal(id=f"s{n}", step="tool", output=long) for n in range(30)]

    async def main() -> None:
        async with calling(log, *script) as api:
            turn = (await api.submit("t", "x"))["turn"]
            await api.settled("t", turn)
            response = await api.call("GET", f"/api/threads/t/turns/{turn}", params={"limit": 1_000})
            assert len(response.content) < PAGE_BYTES_MAX + 10_000
            entries = await pages(api, f"/api/threads/t/turns/{turn}", "entries", "after", limit=1_000)
            assert [entry["id"] for entry in entries] == [f"s{n}" for n in range(30)]

    run(main())


def test_a_running_trace_shows_drafts(log: Log) -> None:
    """Text that is still being written is in the trace, and the thread can be followed from where it was read."""

    async def main() -> None:
        async with calling(log, text("Half a sent"), hang()) as api:
            turn = (await api.submit("t", "x"))["turn"]
            async for batch in log.watch("t"):
                if batch.drafts:
                    break
            page = await api.get(f"/api/threads/t/turns/{turn}")
            assert [(one["text"], one["draft"]) for one in page["entries"]] == [("Half a sent", True)]
            assert page["at"] == f"{log.epoch}.{page['turn']['seq_last']}"

    run(main())


# --- items, histories, events ----------------------------------------------------------------------------------


def test_a_raw_item_comes_back_byte_for_byte(log: Log) -> None:
    """An item is served as the very bytes that were accepted, and never changes (P10)."""

    async def main() -> None:
        async with calling(log, ItemSignal(raw=ODD_RAW)) as api:
            turn = (await api.submit("t", "x"))["turn"]
            seq = (await api.settled("t", turn))["answer"]
            response = await api.call("GET", f"/api/threads/t/items/{seq}")
            assert response.content == ODD_RAW
            tag = {"if-none-match": response.headers["etag"]}
            assert (await api.call("GET", f"/api/threads/t/items/{seq}", 304, headers=tag)).content == b""
            await api.call("HEAD", f"/api/threads/t/items/{seq}")

    run(main())


def test_documents_carry_the_value_of_a_raw_item(log: Log) -> None:
    """In history and events a raw item stands as the value it is, each time, on one line (P10)."""

    async def main() -> None:
        async with calling(log, ItemSignal(raw=ODD_RAW)) as api:
            await api.settled("t", (await api.submit("t", "x"))["turn"])
            history = await api.call("GET", "/api/threads/t/history", params={"profile": "raw"})
            events = await api.call("GET", "/api/threads/t/events")
            value = json.loads(ODD_RAW)
            assert history.json()["items"][1] == value
            assert [event["body"]["raw"] for event in events.json()["events"] if event["kind"] == "item"] == [value]
            for response in (history, events):
                assert not {ord(end) for end in "\n\r\u2028\u0085"} & set(map(ord, response.text))

    run(main())


def test_history_is_given_by_profile_and_up_to_a_turn(log: Log) -> None:
    """A call without an output gets one in `responses`, which is told, and `until` leaves later turns out."""

    async def main() -> None:
        async with calling(log, call("c1")) as api:
            first = await api.submit("t", "first")
            await api.settled("t", first["turn"])
            second = await api.submit("t", "second")
            await api.settled("t", second["turn"])
            whole = await api.get("/api/threads/t/history")
            part = await api.get("/api/threads/t/history", until=second["turn"])
            raw = await api.get("/api/threads/t/history", until=second["turn"], profile="raw")
            assert part["items"] == whole["items"][: len(part["items"])]
            assert [added["at"] for added in part["added"]] == [2]
            assert (len(part["items"]), len(raw["items"]), raw["added"]) == (3, 2, [])
            assert (await api.get("/api/threads/t/history", 400, profile="best"))["field"] == "profile"
            assert (await api.get("/api/threads/t/history", 404, until="nobody"))["turn"] == "nobody"
            ported = await api.get("/api/threads/t/history", profile="portable", limit=1)
            assert (len(ported["items"]), ported["omitted"][0]["until"] is not None) == (2, True)
            for wrong in ("0", "x", "-1", "1e3"):
                assert (await api.get("/api/threads/t/history", 400, limit=wrong))["field"] == "limit"

    run(main())


def test_events_come_in_pages_that_meet(log: Log) -> None:
    """Every event comes once and in order, of the time it was written, and the last page ends at the head."""

    async def main() -> None:
        async with calling(log, call("c1"), output("c1"), asking("waiting"), answer("Done.")) as api:
            await api.settled("t", (await api.submit("t", "x"))["turn"])
            events = await pages(api, "/api/threads/t/events", "events", "after", limit=2)
            assert [event["seq"] for event in events] == list(range(1, log.thread("t").head + 1))
            assert [event["at"] for event in events] == [rfc3339(event.at) for event in log.events("t")]
            last = await api.get("/api/threads/t/events", after="5")
            assert last["at"] == f"{log.epoch}.{log.thread('t').head}"
            again = await api.get("/api/threads/t/events", after=last["at"])
            assert (again["events"], again["at"], again["next"]) == ([], last["at"], None)

    run(main())


def test_a_page_of_events_and_of_a_transcript_is_bounded_in_bytes(log: Log) -> None:
    """A page has fewer rows when their bytes would be too many, and what is left comes with the next one (P11)."""
    long = "y" * 50_000

    async def main() -> None:
        async with calling(log, answer(long)) as api:
            for _ in range(12):
                await api.settled("t", (await api.submit("t", long))["turn"])
            for path, field, after in (("events", "events", "after"), ("transcript", "messages", "before")):
                response = await api.call("GET", f"/api/threads/t/{path}", params={"limit": 1_000})
                assert len(response.content) < PAGE_BYTES_MAX + 100_000
                rows = await pages(api, f"/api/threads/t/{path}", field, after, limit=1_000)
                assert len({row["seq"] for row in rows}) == len(rows)
                assert len([row for row in rows if field == "events" or row["text"] == long]) == len(rows)

    run(main())


def test_a_cursor_of_elsewhere_is_refused_with_the_head(log: Log) -> None:
    """A cursor of another store or of the future proves nothing: the answer tells why, and where to go on (C40)."""

    async def main() -> None:
        async with calling(log) as api:
            await api.settled("t", (await api.submit("t", "x"))["turn"])
            head = f"{log.epoch}.{log.thread('t').head}"
            for cursor, reason in ((f"{'0' * 16}.1", "epoch"), (f"{log.epoch}.9999", "future"), ("9999", "future")):
                problem = await api.get("/api/threads/t/events", 409, after=cursor)
                assert (problem["reason"], problem["head"]) == (reason, head)
            for cursor in ("x", "", ".", ".1", "-1", f"{log.epoch}.", "1e3", "٣"):
                assert (await api.get("/api/threads/t/events", 400, after=cursor))["field"] == "after"

    run(main())


# --- transcripts -----------------------------------------------------------------------------------------------


def test_a_transcript_shows_what_was_said_and_what_became_of_it(log: Log) -> None:
    """Messages of both sides, the notice of an interrupted turn, the rows of their turns, and where to go on."""

    async def main() -> None:
        async with calling(log, text("Half"), TurnlogError(), failing=plays(text("Half"), RuntimeError("no"))) as api:
            turn = await api.submit("t", "Why?", attachments=[{"name": "notes.md", "bytes": 3}], agent="failing")
            await api.settled("t", turn["turn"])
            page = await api.get("/api/threads/t/transcript")
            assert [(one["role"], one["text"], one["synthesized"]) for one in page["messages"]] == [
                ("user", "Why?", None),
                ("assistant", "Half", "interrupted"),
            ]
            file = {"name": "notes.md", "path": None, "type": None, "bytes": 3, "sha256": None}
            assert page["messages"][0]["attachments"] == [file]
            assert [(one["kind"], one["reason"], one["can_retry"]) for one in page["notices"]] == [
                ("interrupted", "failed", True)
            ]
            assert [row["turn"] for row in page["turns"]] == [turn["turn"]]

    run(main())
