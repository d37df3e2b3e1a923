"""What the API does to a thread as a whole: title, pin, truncation, edit, fork and summary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.running import answer, open_log, run
from tests.web.calling import Api, calling
from turnlog.journal.log import Log

THREAD = "/api/threads/t"


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with open_log(request.param, tmp_path) as opened:
        yield opened


async def asked(api: Api, *questions: str) -> list[str]:
    """Turns that are asked one after the other and answered."""
    turns = []
    for question in questions:
        turns.append((await api.submit("t", question))["turn"])
        await api.settled("t", turns[-1])
    return turns


async def post(api: Api, what: str, status: int, **body: Any) -> Any:
    return (await api.call("POST", f"{THREAD}/{what}", status, json=body)).json()


async def shown(api: Api, thread: str = "t") -> list[str]:
    messages = (await api.get(f"/api/threads/{thread}/transcript"))["messages"]
    return [one["text"] for one in messages if one["role"] == "user" and not one["hidden"]]


def test_a_thread_is_renamed_and_pinned(log: Log) -> None:
    """A title and a pin are told by the row and by the list, and what is left out stays."""

    async def main() -> None:
        async with calling(log, answer("Yes.")) as api:
            await asked(api, "one")
            row = (await api.call("PATCH", THREAD, 200, json={"title": "Notes", "pinned": True})).json()
            assert (row["title"], row["pinned"]) == ("Notes", True)
            await api.submit("u", "later")
            assert (await api.get("/api/threads"))["threads"][0]["thread"] == "t"
            row = (await api.call("PATCH", THREAD, 200, json={"pinned": False})).json()
            assert (row["title"], row["pinned"]) == ("Notes", False)
            assert (await api.call("PATCH", THREAD, 200, json={"title": ""})).json()["title"] == "one"
            await api.call("PATCH", THREAD, 400, json={})
            await api.call("PATCH", THREAD, 400, json={"title": "two\nlines"})
            await api.call("PATCH", "/api/threads/none", 404, json={"pinned": True})

    run(main())


def test_turns_are_taken_back_and_can_be_read(log: Log) -> None:
    """A truncation names what it hides; that is listed as hidden and readable, and not hidden twice (C12)."""

    async def main() -> None:
        async with calling(log, answer("Yes.")) as api:
            turns = await asked(api, "one", "two", "three")
            done = await post(api, "truncate", 200, turn=turns[1])
            assert (done["hidden"], done["more"]) == (turns[1:], False)
            rows = {row["turn"]: row for row in (await api.get(f"{THREAD}/turns"))["turns"]}
            assert {turn: rows[turn]["hidden_by"] for turn in turns} == {
                turns[0]: None,
                turns[1]: done["seq"],
                turns[2]: done["seq"],
            }
            assert await shown(api) == ["one"]
            assert (await api.get(f"{THREAD}/turns/{turns[2]}"))["turn"]["preview"] == "three"
            assert (await post(api, "truncate", 409, turn=turns[1]))["hidden_by"] == done["seq"]
            await post(api, "truncate", 404, turn="none")

    run(main())


def test_a_message_is_edited_in_one_write(log: Log) -> None:
    """A message with `edit_of` takes the place of another; sent again it is the same turn (P6)."""

    async def main() -> None:
        async with calling(log, answer("Yes.")) as api:
            turns = await asked(api, "one", "two")
            edit = {"content": "better", "key": "k", "edit_of": turns[0]}
            first = await post(api, "turns", 202, **edit)
            await api.settled("t", first["turn"])
            again = await post(api, "turns", 202, **edit)
            assert (again["turn"], again["duplicate"]) == (first["turn"], True)
            assert await shown(api) == ["better"]
            assert log.turn_view("t", first["turn"]).edit_of == turns[0]
            kinds = [event.kind for event in log.events("t") if event.seq in (first["seq"] - 1, first["seq"])]
            assert kinds == ["thread_truncated", "submitted"]

    run(main())


def test_a_thread_is_forked_and_summed_up(log: Log) -> None:
    """A fork has what the thread had up to a turn, and asked for again is the same; a summary leads the history."""

    async def main() -> None:
        async with calling(log, answer("Yes.")) as api:
            turns = await asked(api, "one", "two")
            row = await post(api, "fork", 201, turn=turns[0], to="copy")
            assert row["thread"] == "copy"
            assert (await post(api, "fork", 201, turn=turns[0], to="copy"))["head"] == row["head"]
            assert (await shown(api, "copy"), await shown(api)) == (["one"], ["one", "two"])
            await post(api, "fork", 409, to="copy")
            done = await post(api, "compact", 200, summary="They agreed.", until=turns[0])
            assert done == {"thread": "t", "seq": log.thread("t").head}
            history = await api.get(f"{THREAD}/history")
            assert "They agreed." in history["items"][0]["content"][0]["text"]
            await post(api, "compact", 400, summary=" ")

    run(main())
