"""What cannot be read over the API is refused by name, or not found; nothing comes of asking."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import turnlog
from tests.runner.running import run
from tests.web.calling import calling
from turnlog.journal.log import Log


@pytest.fixture
def log() -> Iterator[Log]:
    with turnlog.open("memory://") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/threads?limit=0", "limit"),
        ("/api/threads?limit=1001", "limit"),
        ("/api/threads?limit=-1", "limit"),
        ("/api/threads?limit=1.0", "limit"),
        ("/api/threads?limit=", "limit"),
        (f"/api/threads?limit={'9' * 5_000}", "limit"),
        ("/api/threads?limit=1&limit=2", "limit"),
        ("/api/threads?Limit=1", "Limit"),
        ("/api/threads?before=%00", "before"),
        ("/api/threads?before=YQ", "before"),
        ("/api/threads/t?limit=1", "limit"),
        ("/api/threads/t/turns?before=~", "before"),
        ("/api/threads/t/turns/latest?after=YQ", "after"),
        ("/api/threads/t/turns/latest?after=MS4yLjM0LjU", "after"),
        ("/api/threads/t/transcript?before=YQ", "before"),
        ("/api/threads/t/items/1.0", "seq"),
        ("/api/threads/t/items/99999999999999999999", "seq"),
        ("/api/threads/a%20b", "thread"),
        ("/api/threads/t/turns/~!", "turn"),
        ("/api/turns?latest=0", "latest"),
        ("/openapi.json?pretty", "pretty"),
        ("/api/changes?after=0", "after"),
        ("/healthz?x=1", "x"),
        ("/metrics?x=1", "x"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(log: Log, path: str, field: str) -> None:
    """What a request says wrongly is a 400 that names it; an unknown parameter is never let pass."""

    async def main() -> None:
        async with calling(log) as api:
            await api.settled("t", (await api.submit("t", "x"))["turn"])
            assert (await api.call("GET", path, 400)).json()["field"] == field

    run(main())


def test_a_foreign_name_is_refused_as_the_document_says(log: Log) -> None:
    """A request that names another host is a 421, which the document names for every operation."""

    async def main() -> None:
        async with calling(log) as api:
            for path in ("/api/threads", "/api/changes", "/openapi.json", "/healthz", "/metrics"):
                await api.call("GET", path, 421, headers={"host": "elsewhere.test"})

    run(main())


@pytest.mark.parametrize(
    "path", ["", "/turns", "/turns/latest", "/turns/x", "/transcript", "/history", "/events", "/items/1"]
)
def test_what_is_not_there_is_not_found(log: Log, path: str) -> None:
    """A thread that nobody wrote to is a 404 everywhere, and reading it does not create it."""

    async def main() -> None:
        async with calling(log) as api:
            assert (await api.call("GET", f"/api/threads/nobody{path}", 404)).json()["thread"] == "nobody"
            assert (await api.get("/api/threads"))["threads"] == []

    run(main())


def test_a_thread_without_turns_has_no_latest_one(log: Log) -> None:
    """A thread that has only items of no turn is there, and its latest turn is not found."""

    async def main() -> None:
        async with calling(log) as api:
            log.append_message("t", {"role": "user", "content": "hello"}).result()
            assert (await api.get("/api/threads/t"))["latest"] is None
            await api.call("GET", "/api/threads/t/turns/latest", 404)
            await api.call("GET", "/api/threads/t/items/1", 404)

    run(main())
