"""The event loop of a server never waits for the store: a disk that hangs, or a long read, holds up nobody else."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Iterator
from typing import Any, Final

import anyio.to_thread
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tests.runner.running import WAIT_S, hang, run, text, until
from tests.web.calling import plays
from tests.web.listening import Stream
from turnlog.engines.open import open_engine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.limits import FOLDS_AT_ONCE_MAX
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Place
from turnlog.web.app import create_app
from turnlog.web.guard import Guard
from turnlog.web.site import Site
from turnlog.web.work import Work

VERBS: Final = (
    *(
        "commit",
        "lease",
        "lease_end",
        "dead_owners",
        "tail",
        "read",
        "turns",
        "threads",
        "snapshot",
        "check",
        "changes",
    ),
    "rest",
)
"""Every verb of an engine but `close`: all of them may wait for a disk."""

NEWS: Final = "something new"

STREAMS: Final = {
    "/api/threads/{thread}/events": NEWS,
    "/t/{thread}/stream": NEWS,
    "/api/changes": '"threads":',
}
"""The routes that stream, and what each shows once it has read what came after it began."""

ONLY_STREAMS: Final = STREAMS.keys() - {"/api/threads/{thread}/events"}

EXPECTED: Final = (200, 201, 202, 303, 409)
"""Statuses of what was read, written, or refused because it was done before."""

CALLS: Final[dict[str, dict[str, Any]]] = {
    "GET /api/turns": {"params": {"latest": "1"}},
    "POST /api/threads/{thread}/turns": {"json": {"content": "again", "key": "m", "when_busy": "queue"}},
    "POST /api/threads/{thread}/turns/{turn}/decisions/{approval}": {"json": {"value": True}},
    "POST /api/threads/{thread}/turns/{turn}/interrupt": {"json": {}},
    "POST /api/threads/{thread}/turns/{turn}/retry": {"json": {"when_busy": "queue"}},
    "PATCH /api/threads/{thread}": {"json": {"title": "Notes", "pinned": True}},
    "POST /api/threads/{thread}/truncate": {"json": {"turn": "of another thread"}},
    "POST /api/threads/{thread}/fork": {"json": {"to": "copy"}},
    "POST /api/threads/{thread}/compact": {"json": {"summary": "All was well."}},
    "POST /api/repair/undo": {"json": {"thread": "t", "seq": 1}},
    "POST /t": {"data": {"content": "begin", "key": "k"}},
    "POST /t/{thread}/turns": {"data": {"content": "more", "key": "l"}},
    "POST /t/{thread}/title": {"data": {"title": "More notes", "shown": "question"}},
    "POST /t/{thread}/pin": {"data": {"pinned": "0"}},
    "POST /t/{thread}/turns/{turn}/undo": {"data": {}},
    "POST /t/{thread}/turns/{turn}/fork": {"data": {"key": "copied"}},
    "POST /t/{thread}/turns/{turn}/interrupt": {"data": {}},
    "POST /t/{thread}/turns/{turn}/decisions/{approval}": {"data": {"value": "accept"}},
    "POST /t/{thread}/turns/{turn}/retry": {"data": {}},
}
"""What the requests have that need more than a path."""

REFUSED: Final = {"POST /api/repair/undo": 400, "POST /api/threads/{thread}/truncate": 404}
"""Requests that the store is read for, and that are refused: there is no such repair, and no such turn."""


class Watched:
    """A store that notes which of its verbs are called in an event loop."""

    def __init__(self) -> None:
        clock = SystemClock()
        engine = FaultEngine(open_engine("memory://", clock))
        self.log = Log(engine, clock=clock)
        self.calls: list[str] = []
        self.engine = engine
        engine.traps.set([f"{verb}.before" for verb in VERBS], self._note, forever=True)

    def _note(self, place: Place) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.calls.append(f"{place.name}\n{''.join(traceback.format_stack(limit=12))}")


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched()
    with found.log:
        yield found


async def stream(log: Log, app: Starlette, path: str, shows: str) -> None:
    """Read a stream until it has shown what came after it began."""
    client = Stream(app, path)
    async with client.opened():
        seen = (await client.frame()).data
        await log.append_message("t", {"type": "message", "role": "user", "content": NEWS})
        while shows not in seen:
            seen = (await client.frame()).data


def routes(app: Starlette) -> list[tuple[str, str]]:
    """Methods and paths; those that end a turn go last, and after them those that ask it again."""
    found = [
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    ]
    return sorted(found, key=lambda it: (it[1].endswith("retry"), it[1].endswith("interrupt"), it[0] == "POST", it))


def test_no_route_waits_for_the_store_in_the_event_loop(watched: Watched) -> None:
    """Whatever is asked of a server while a turn runs, no verb of the engine is called in its event loop (P11)."""
    log = watched.log

    async def main() -> None:
        work = Work(log, {"half": plays(text("half an answer"), hang())}, agent="half")
        app = create_app(Site(log=log, work=work, clock=SystemClock()), guard=Guard(hosts=None))
        turn = await work.submit("t", "question")
        item = await log.append_message("t", {})
        words = {"thread": "t", "turn": turn.id, "seq": item, "approval": "a", "name": "icon.svg"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://turnlog.test") as client:
            for method, path in routes(app):
                if path in STREAMS:
                    await stream(log, app, path.format(**words), STREAMS[path])
                for _ in range(0 if path in ONLY_STREAMS else 2):  # the second time it is often a duplicate
                    given = CALLS.get(f"{method} {path}", {})
                    answer = await client.request(method, path.format(**words), **given)
                    statuses = (*EXPECTED, REFUSED.get(f"{method} {path}"))
                    assert answer.status_code in statuses, f"{method} {path}: {answer.status_code} {answer.text}"
                    if path.endswith("interrupt"):
                        await until(lambda: turn.settled)
        await work.close()

    run(main())
    assert not watched.calls, f"{len(watched.calls)} calls, such as {watched.calls[0]}"


@pytest.mark.parametrize(
    "path", ["/api/threads/t/turns/latest", "/api/threads/t/transcript", "/api/threads/t/history", "/t/t"]
)
def test_long_turns_are_folded_by_few_at_once(watched: Watched, path: str) -> None:
    """Who asks for a long turn many times at once has two of them folded at a time; what is short is answered meanwhile
    (P11)."""
    log, reading, go_on = watched.log, set[int](), threading.Event()

    def read(_place: Place) -> None:
        reading.add(threading.get_ident())
        go_on.wait(10)

    async def main() -> None:
        work = Work(log, {"quick": plays()}, agent="quick")
        app = create_app(Site(log=log, work=work, clock=SystemClock()), guard=Guard(hosts=None))
        turn = await work.submit("t", "question")
        await until(lambda: turn.settled)
        watched.engine.traps.set({"read.before", "turns.before"}, read, forever=True)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://turnlog.test") as client:
            asked = [asyncio.create_task(client.get(path)) for _ in range(2 * FOLDS_AT_ONCE_MAX)]
            await until(lambda: len(reading) >= FOLDS_AT_ONCE_MAX)
            for _ in range(5):
                assert (await client.get("/api/threads/t")).status_code == 200
            assert len(reading) == FOLDS_AT_ONCE_MAX
            go_on.set()
            assert [(await each).status_code for each in asked] == [200] * len(asked)
        await work.close()

    run(main())


def test_slow_reads_do_not_keep_senders_waiting(watched: Watched) -> None:
    """However many slow reads hold the threads of a server, it tells how it is, and senders are answered: a message,
    an interrupt, a message asked again (P11)."""
    log, reading, go_on = watched.log, set[int](), threading.Event()
    threads = 40  # of the pool that all reads share but those

    def read(_place: Place) -> None:
        if len(reading) < threads:
            reading.add(threading.get_ident())
            go_on.wait(WAIT_S)

    async def main() -> None:
        work = Work(log, {"stuck": plays(hang())}, agent="stuck")
        app = create_app(Site(log=log, work=work, clock=SystemClock()), guard=Guard(hosts=None))
        assert anyio.to_thread.current_default_thread_limiter().total_tokens == threads
        watched.engine.traps.set({"threads.before"}, read, forever=True)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://turnlog.test") as client:
            asked = [asyncio.create_task(client.get("/api/threads")) for _ in range(threads + 5)]
            try:
                await until(lambda: len(reading) == threads)
                async with asyncio.timeout(WAIT_S / 3):
                    assert (await client.get("/healthz")).status_code == 200
                    sent = await client.post("/api/threads/t/turns", json={"content": "question"})
                    turn = f"/api/threads/t/turns/{sent.json()['turn']}"
                    assert (await client.post(f"{turn}/interrupt", json={})).status_code == 202
                    while (again := await client.post(f"{turn}/retry", json={})).status_code == 409:
                        await asyncio.sleep(0)  # it is still being ended
                    assert again.status_code == 202
            finally:
                go_on.set()
            assert [(await each).status_code for each in asked] == [200] * len(asked)
        await work.close()

    run(main())
