"""Two servers, the command line and a library user on one store: each shows and steers what the others run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnlog
from turnlog.errors import AlreadyDecided
from turnlog.journal.log import Log

from .asking_server import ASKING, HALF
from .serving import WAIT_S, Serving
from .test_server import Stream, post, row, streaming

T = "/api/threads/t/turns"


@dataclass
class Together:
    """All who use the store."""

    one: Serving
    two: Serving
    log: Log

    def command(self, *arguments: str) -> Any:
        """Run a command with --json as a process of its own, and read what it printed."""
        command = [sys.executable, "-m", "turnlog", "--store", self.one.store_url, *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]

    def state(self, turn: str) -> list[tuple[Any, Any]]:
        """State and reason of a turn, as everybody sees it."""
        rows = [row(server, turn) for server in (self.one, self.two)]
        rows += [found for found in self.command("show", "t")[0]["turns"] if found["turn"] == turn]
        view = self.log.turn_view("t", turn)
        return [*((found["state"], found["reason"]) for found in rows), (view.state, view.reason)]


@pytest.fixture
def together(tmp_path: Path) -> Iterator[Together]:
    with (
        Serving(tmp_path, script=ASKING) as one,
        Serving(tmp_path, script=ASKING) as two,
        turnlog.open(one.store_url) as log,
    ):
        log.append_message("t", {"type": "message", "role": "user", "content": "first"}).result()
        yield Together(one, two, log)


def ask(server: Serving) -> str:
    answer = post(server, T, content="question", when_busy="queue")
    assert answer.status_code == 202, answer.text
    return str(answer.json()["turn"])


def until_kind(stream: Stream, kind: str, turn: str) -> dict[str, Any]:
    """The next event of this kind of a turn."""
    while (event := stream.until("event"))["kind"] != kind or event["turn"] != turn:
        continue
    return event


def until_asked(stream: Stream, turn: str) -> None:
    """Half the answer was shown, and a person is asked; which of both comes first is open."""
    seen: set[str] = set()
    while seen != {"draft", "step"}:
        frame = stream.next()
        assert frame is not None
        name, data = frame
        if data["turn"] == turn and name == "draft":
            assert data["text"] == HALF
            seen.add(name)
        elif data["turn"] == turn and data["kind"] == "step":
            seen.add("step")


def test_a_turn_of_one_server_is_shown_and_decided_by_others(together: Together) -> None:
    """P2, P8, C39: what one server runs is streamed and shown on the page by the other as it is written, a command
    decides what its agent asks, and the decision reaches the agent; all see the same end."""
    with streaming(together.two) as stream:
        turn = ask(together.one)
        until_asked(stream, turn)
        page = httpx.get(f"{together.two.url}/t/t", timeout=WAIT_S).text
        assert HALF in page
        (listed,) = together.command("decide", "t")
        assert [found["approval"] for found in listed["approvals"]] == ["approval-1"]
        together.command("decide", "t", "approval-1", "accept")
        said = until_kind(stream, "item", turn)["body"]["raw"]["content"][0]["text"]
        assert said == f"{HALF}, accept by turnlog decide"
        until_kind(stream, "completed", turn)
    assert together.state(turn) == [("completed", None)] * 4


@pytest.mark.parametrize("by", ["server", "library"])
def test_a_turn_of_one_server_is_stopped_by_others(together: Together, by: str) -> None:
    """P8: an interrupt that another server or a library user writes reaches the owner, and the turn ends as cancelled
    with what was shown of it."""
    with streaming(together.one) as stream:
        turn = ask(together.two)
        until_asked(stream, turn)
        if by == "server":
            assert post(together.one, f"{T}/{turn}/interrupt").status_code == 202
        else:
            together.log.request("t", turn, "interrupt", by="library").result()
        until_kind(stream, "interrupted", turn)
    assert together.state(turn) == [("interrupted", "cancelled")] * 4
    assert HALF in httpx.get(f"{together.one.url}/t/t", timeout=WAIT_S).text


def test_a_library_users_turn_is_shown_and_steered_by_servers(together: Together) -> None:
    """P2, P8: text that a library user writes is streamed by both servers, and what a page sends reaches that user."""

    turn = together.log.submit("t", "question").result()
    turn.start().result()
    with streaming(together.one) as first, streaming(together.two) as second:
        turn.draft("written here").result()
        assert [stream.until("draft")["text"] for stream in (first, second)] == ["written here"] * 2
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_first_request, turn)
            assert post(together.two, f"{T}/{turn.id}/interrupt", by="page").status_code == 202
            assert waiting.result(WAIT_S) == ("interrupt", "page")
        turn.interrupt("cancelled").result()
        for stream in (first, second):
            until_kind(stream, "interrupted", turn.id)
    assert together.state(turn.id) == [("interrupted", "cancelled")] * 4


def _first_request(turn: turnlog.Turn) -> tuple[str, str | None]:
    async def first() -> tuple[str, str | None]:
        async for request in turn.requests():
            return request.what, request.by
        raise AssertionError("the turn ended")

    return asyncio.run(first())


@contextmanager
def tailing(together: Together) -> Iterator[subprocess.Popen[bytes]]:
    """`tail --follow`, as a process; killed at the end."""
    command = [sys.executable, "-m", "turnlog", "--store", together.one.store_url, "tail", "t", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_commands_beside_the_servers(together: Together) -> None:
    """P2, P8: `ask` runs a turn of its own while both servers stream it, and `tail --follow` shows the turns of all."""
    with streaming(together.one) as first, streaming(together.two) as second, tailing(together) as tail:
        asked = together.command("ask", "t", "What is here?", "--agent", "demo")[-1]["data"]
        assert asked["state"] == "completed"
        for stream in (first, second):
            until_kind(stream, "completed", asked["turn"])
        turn = ask(together.one)
        until_asked(second, turn)
        assert post(together.two, f"{T}/{turn}/decisions/approval-1", value="decline", by="page").status_code == 202
        assert tail.stdout is not None
        told: list[Any] = []
        while not told or (told[-1]["data"].get("kind"), told[-1]["data"]["turn"]) != ("completed", turn):
            told.append(json.loads(tail.stdout.readline()))
        seqs = [line["data"]["seq"] for line in told if line["event"] == "event"]
        assert seqs == list(range(1, len(seqs) + 1))
        assert "decline by page" in json.dumps(told)


def _at_once(gate: threading.Barrier, act: Callable[[str, str], bool], turn: str, name: str) -> bool:
    gate.wait(WAIT_S)
    return act(turn, name)


def test_one_decision_of_three_stands(together: Together) -> None:
    """P5, P8: of three decisions that two servers and a library user write at one instant, one stands, the others are
    told so, and the agent acts by that one."""

    def by_server(server: Serving, turn: str, name: str) -> bool:
        answer = post(server, f"{T}/{turn}/decisions/approval-1", value=name, by=name)
        assert answer.status_code in (202, 409), answer.text
        return answer.status_code == 202

    def by_library(turn: str, name: str) -> bool:
        try:
            together.log.request("t", turn, "decide", approval="approval-1", value=name, by=name).result()
        except AlreadyDecided:
            return False
        return True

    for n in range(5):
        with streaming(together.one) as stream, ThreadPoolExecutor(3) as pool:
            turn = ask(together.one if n % 2 else together.two)
            until_asked(stream, turn)
            gate = threading.Barrier(3)
            deciders: dict[str, Callable[[str, str], bool]] = {
                "one": lambda turn, name: by_server(together.one, turn, name),
                "two": lambda turn, name: by_server(together.two, turn, name),
                "three": by_library,
            }

            answers = [pool.submit(_at_once, gate, act, turn, name) for name, act in deciders.items()]
            stood = dict(zip(deciders, [answer.result(WAIT_S) for answer in answers], strict=True))
            assert sum(stood.values()) == 1, stood
            (winner,) = [name for name, won in stood.items() if won]
            said = until_kind(stream, "item", turn)["body"]["raw"]["content"][0]["text"]
            assert said == f"{HALF}, {winner} by {winner}"
            until_kind(stream, "completed", turn)


def test_the_turns_of_a_killed_server_are_settled_by_the_other(together: Together) -> None:
    """P8, C06: when a server is killed, the one that is still there ends its turn the next time anybody asks in that
    thread, its text is kept, and its page goes on."""
    with streaming(together.two) as stream:
        turn = ask(together.one)
        until_asked(stream, turn)
        together.one.kill()
        following = post(together.two, T, content="next", when_busy="queue")
        assert following.status_code == 202
        until_kind(stream, "interrupted", turn)
        until_asked(stream, following.json()["turn"])
    assert row(together.two, turn)["reason"] == "process_died"
