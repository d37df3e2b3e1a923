"""Ids in the paths of the API: any text there is reaches its own thread, and no other (C33)."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import turnlog
from tests.runner.running import run
from tests.web.calling import calling
from tests.web.serving import Serving
from tests.web.test_paths import ODD_IDS
from turnlog.web.paths import path_id

SHORT_IDS = [name for name in ODD_IDS if len(name.encode("utf-8", "surrogatepass")) <= 256]

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
ANY_TEXT = st.text(st.characters(), min_size=1, max_size=12).filter(lambda text: not PAIR.search(text))
TEXT = st.one_of(ANY_TEXT, st.text("./%~\\ \n-aA", min_size=1, max_size=6))


@given(thread=st.one_of(st.sampled_from(ODD_IDS), TEXT), turn=st.one_of(st.sampled_from(SHORT_IDS), TEXT))
@settings(max_examples=60)
def test_any_id_reaches_its_thread_and_turn(thread: str, turn: str) -> None:
    """Whatever a thread and a turn are called, every route finds exactly them and names them as they are (C33)."""

    async def main() -> None:
        with turnlog.open("memory://") as log:
            async with calling(log) as api:
                log.submit("another", "not this one").result()
                accepted = await api.submit(thread, "x", turn=turn)
                assert (accepted["thread"], accepted["turn"]) == (thread, turn)
                assert (await api.settled(thread, turn))["turn"] == turn
                path = f"/api/threads/{path_id(thread)}"
                assert (await api.get(path))["thread"] == thread
                assert (await api.get(f"{path}/turns/latest"))["turn"]["turn"] == turn
                for rest in ("/turns", "/transcript", "/history", "/events"):
                    await api.get(path + rest)

    run(main())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("ids")) as serving:
        yield serving


def ask(server: Serving, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """One request over a socket, its path as it is: no client library tidies it up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@given(thread=st.one_of(st.sampled_from(ODD_IDS), TEXT))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_id_survives_the_way_through_a_real_server(server: Serving, thread: str) -> None:
    """An id in a path arrives over a real connection as it was meant (C33)."""
    path = f"/api/threads/{path_id(thread)}"
    status, accepted = ask(server, "POST", f"{path}/turns", {"content": "x", "key": "k", "when_busy": "queue"})
    assert (status, accepted["thread"]) == (202, thread)
    status, row = ask(server, "GET", path)
    assert (status, row["thread"]) == (200, thread)


TRICKS = ["..", ".", "%2e%2e", "..%2f..%2fetc", "%2Fetc%2Fpasswd", "a%5Cb", "a%0Ab", "%00", "a%20b", "%ff", "%E2%80"]


@pytest.mark.parametrize("segment", TRICKS)
def test_a_path_that_plays_tricks_reaches_nothing(server: Serving, segment: str) -> None:
    """Percent-encoded slashes, dots and control characters name no thread: they are refused or lead nowhere (C33)."""
    status, problem = ask(server, "GET", f"/api/threads/{segment}")
    assert status in (400, 404)
    assert problem["status"] == status
    status, _ = ask(server, "POST", f"/api/threads/{segment}/turns", {"content": "x"})
    assert status in (400, 404, 405)


def test_no_id_makes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that would be paths, of threads, turns, keys and approvals, make nothing anywhere: neither outside the
    store's folder nor in it (C33)."""
    store, here = tmp_path / "a" / "b", tmp_path / "c" / "d"
    store.mkdir(parents=True)
    here.mkdir(parents=True)
    monkeypatch.chdir(here)  # and so the server's
    names = [
        "../x",
        "../../x",
        "../../../x",
        "../x/y",
        "x/y",
        "x",
        "..",
        f"{tmp_path}/x",
        f"{tmp_path}/e/x",
        "~/x",
        "C:\\x",
    ]

    def files() -> set[str]:
        return {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}

    with Serving(store) as server:
        asked = ask(server, "POST", "/api/threads/plain/turns", {"content": "x"})
        assert asked[0] == 202
        before = files()
        for number, name in enumerate(names):
            path = f"/api/threads/{path_id(name)}"
            body = {"content": "x", "turn": f"{name}/{number}", "key": name, "when_busy": "queue"}
            assert ask(server, "POST", f"{path}/turns", body)[0] == 202
            ask(server, "POST", f"{path}/turns/{path_id(body['turn'])}/decisions/{path_id(name)}", {"value": 1})
            for rest in ("", "/turns/latest", "/transcript", "/history", "/events"):
                assert ask(server, "GET", path + rest)[0] == 200
        assert files() == before
        assert {name for name in before if not name.startswith("a/b/")} == {"a", "a/b", "c", "c/d"}


def test_an_id_that_json_cannot_name_is_refused(server: Serving) -> None:
    """Two surrogates that JSON would read as one character are no id, so that no two ids look the same (C34)."""
    status, problem = ask(server, "POST", f"/api/threads/{path_id(chr(0xD83D) + chr(0xDE00))}/turns", {"content": "x"})
    assert (status, problem["field"]) == (400, "thread")
