"""The real Codex from the command line: asked, served, decided on, and told about."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents.codex.homes import write_home
from tests.agents.codex.running import WAIT_S, processes_of
from tests.cli.calling import Caller
from tests.web.serving import Serving
from turnlog.agents.codex.binary import find_binary, installed_version
from turnlog.testing.responses_answers import shell, text
from turnlog.testing.responses_endpoint import ResponsesEndpoint


@pytest.fixture
def endpoint() -> Iterator[ResponsesEndpoint]:
    with ResponsesEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def environment(tmp_path: Path, endpoint: ResponsesEndpoint) -> dict[str, str]:
    """What a user sets: Codex's own folder."""
    return {"CODEX_HOME": str(write_home(tmp_path, endpoint, approval="on-request"))}


def ask(call: Caller, folder: Path, environment: dict[str, str], *more: str) -> Any:
    return call.process("ask", "t", *more, "--agent", "codex", "--workspace", str(folder), environment=environment)


def test_codex_is_asked_and_goes_on(
    call: Caller, folder: Path, environment: dict[str, str], endpoint: ResponsesEndpoint
) -> None:
    """Two questions by two processes: the second one's Codex is given what the first one's had said."""
    endpoint.script(shell("cat README.md"), text("It is a lighthouse."))
    asked = ask(call, folder, environment, "What is it?")
    assert asked.returncode == 0, asked.stderr
    assert b"It is a lighthouse." in asked.stdout and b"cat README.md" in asked.stdout
    assert ask(call, folder, environment, "Is it?").returncode == 0
    assert "It is a lighthouse." in json.dumps(endpoint.asked[-1].input)
    assert call.read("show", "t")["turns"][0]["agent"] == "codex"


def test_without_codex_nothing_is_submitted(call: Caller, folder: Path, environment: dict[str, str]) -> None:
    """A Codex that is not there, or too old, is told in one line before anything is stored."""
    old = folder / "codex"
    old.write_text("#!/bin/sh\necho codex-cli 0.9.0\n")
    for binary, problem in ((folder / "nowhere", b"names no program"), (old, b"0.9.0 is too old: 0.163.0 or newer")):
        asked = ask(call, folder, {**environment, "CODEX_BIN": str(binary)}, "hello")
        old.chmod(stat.S_IRWXU)
        assert asked.returncode == 1
        assert problem in asked.stderr and asked.stderr.count(b"\n") == 1
        served = call.process("serve", "--agent", "codex", environment={**environment, "CODEX_BIN": str(binary)})
        assert (served.returncode, served.stdout) == (1, b"")
        assert problem in served.stderr and served.stderr.count(b"\n") == 1
    assert not call.store.exists()


def test_doctor_says_which_codex(call: Caller, folder: Path) -> None:
    """doctor names the version and the program that would be run, or why there is none."""
    assert call("ask", "t", "hello", "--workspace", str(folder)).exit_code == 0
    binary = find_binary(os.environ)
    assert call.read("doctor")["codex"] == f"{installed_version(binary, os.environ)} ({binary})"
    report = call("doctor", "--json", environment={"CODEX_BIN": "/nowhere"})
    assert json.loads(report.stdout)["codex"] == "none: CODEX_BIN names no program: /nowhere"


def test_a_decision_from_another_terminal(
    call: Caller, folder: Path, environment: dict[str, str], endpoint: ResponsesEndpoint
) -> None:
    """What Codex asks is listed by another process and decided there, once; the turn goes on by it."""
    endpoint.script(
        shell("echo made > made.txt", sandbox_permissions="require_escalated", justification="I need it"), text("Done.")
    )
    options = ("--agent", "codex", "--workspace", str(folder))
    with call.on_terminal("ask", "t", "make it", *options, environment=environment) as terminal:
        terminal.wait_for("May this command run?")
        (approval,) = call.read("decide", "t")["approvals"]
        assert "echo made" in approval["title"] and "I need it" in approval["asks"]
        assert "decide t approval-1 accept" in call("decide", "t").stdout
        assert not (folder / "made.txt").exists()
        decided = call.read("decide", "t", "approval-1", "accept")
        assert (decided["approval"], decided["value"]) == ("approval-1", "accept")
        terminal.wait_for("Done.")
        assert terminal.wait() == 0
    assert (folder / "made.txt").read_text() == "made\n"
    assert call.read("decide", "t")["approvals"] == []
    again = call("decide", "t", "approval-1", "decline", "--turn", decided["turn"])
    assert again.exit_code == 1


def test_a_decision_without_a_word_is_a_usage_error(call: Caller) -> None:
    """An approval is not answered by naming it."""
    assert call("decide", "t", "approval-1").exit_code == 2


def test_a_stopped_question_leaves_no_codex(
    call: Caller, folder: Path, environment: dict[str, str], endpoint: ResponsesEndpoint
) -> None:
    """Ctrl-C ends the turn honestly, and Codex with it."""
    endpoint.script(text("never ends", chunks=2, gate=threading.Event()))
    options = ("--agent", "codex", "--workspace", str(folder))
    with call.on_terminal("ask", "t", "hello", *options, environment=environment) as terminal:
        terminal.wait_for("never")
        terminal.press(b"\x03")
        assert terminal.wait() == 130
    (turn,) = call.read("show", "t")["turns"]
    assert (turn["state"], turn["reason"]) == ("interrupted", "cancelled")
    assert not processes_of(environment["CODEX_HOME"])


def test_codex_is_served(
    tmp_path: Path, folder: Path, environment: dict[str, str], endpoint: ResponsesEndpoint
) -> None:
    """A server runs Codex for its clients, takes their decisions, and leaves no process when it is stopped."""
    endpoint.script(
        shell("echo made > made.txt", sandbox_permissions="require_escalated", justification="need it"), text("Done.")
    )
    store = tmp_path / "served"
    store.mkdir()
    with Serving(store, workspace=folder, arguments=["--agent", "codex"], environment=environment) as server:
        posted = httpx.post(f"{server.url}/api/threads/t/turns", json={"content": "make it"})
        turn = posted.json()["turn"]
        place = f"{server.url}/api/threads/t/turns/{turn}"
        wait_for(place, lambda event: event["kind"] == "step" and event["body"].get("status") == "waiting")
        assert ("approval", "waiting", None) in entries_of(place)
        decided = httpx.post(f"{place}/decisions/approval-1", json={"value": "accept"})
        assert decided.status_code in (200, 202), decided.text
        wait_for(place, lambda event: event["kind"] == "completed")
        assert {("approval", "succeeded", None), ("message", "succeeded", "Done.")} <= entries_of(place)
        assert (folder / "made.txt").exists()
        assert any("app-server" in line for line in processes_of(environment["CODEX_HOME"]).values())
        server.terminate()
    assert not processes_of(environment["CODEX_HOME"])


def wait_for(place: str, wanted: Callable[[Any], bool]) -> None:
    """Follow the events of a turn's thread until one is wanted."""
    events = place.partition("/turns/")[0] + "/events"
    with httpx.stream("GET", events, headers={"Accept": "text/event-stream"}, timeout=WAIT_S) as told:
        assert told.status_code == 200, told.read()
        name = ""
        for line in told.iter_lines():
            field, _, data = line.partition(": ")
            name = data if field == "event" else name
            if field == "data" and name == "event" and wanted(json.loads(data)):
                return
    raise AssertionError("the stream ended before")


def entries_of(place: str) -> set[tuple[str, str, str | None]]:
    """The kinds, states and texts that a turn's trace shows now; a store that is busy is asked again."""
    while (answer := httpx.get(place, timeout=WAIT_S)).status_code == 503:
        assert "retry-after" in answer.headers, answer.text
    return {(entry["kind"], entry["status"], entry["text"]) for entry in answer.raise_for_status().json()["entries"]}
