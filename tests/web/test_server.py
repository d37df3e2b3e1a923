"""The server as a process: how it begins, whom it lets in, how it ends, and what it leaves."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnlog
from tests.cli.calling import Caller
from turnlog.web.work import STOPPED

from .scripted_server import HALF, PATIENCE_S, SCRIPTED
from .serving import ROOT, WAIT_S, Serving

EVENTS = {"accept": "text/event-stream"}


def scripted(folder: Path, **options: Any) -> Serving:
    return Serving(folder, script=SCRIPTED, **options)


def post(server: Serving, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, timeout=WAIT_S)


def submit(server: Serving, agent: str, thread: str = "t") -> str:
    answer = post(server, f"/api/threads/{thread}/turns", content="question", agent=agent)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["turn"])


class Stream:
    """The frames of a thread's stream, one by one."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self) -> tuple[str, dict[str, Any]] | None:
        """The next frame's event and data; None at a clean end."""
        event, data = "", ""
        for line in self._lines:
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data += line.removeprefix("data: ")
            elif not line and event:
                return event, json.loads(data)
        return None

    def until(self, wanted: str) -> dict[str, Any]:
        """The data of the next frame of this event."""
        while (frame := self.next()) is not None:
            if frame[0] == wanted:
                return frame[1]
        raise AssertionError(f"the stream ended without {wanted!r}")


@contextmanager
def streaming(server: Serving, thread: str = "t") -> Iterator[Stream]:
    with httpx.stream("GET", f"{server.url}/api/threads/{thread}/events", headers=EVENTS, timeout=WAIT_S) as answer:
        assert answer.status_code == 200
        yield Stream(answer.iter_lines())


def row(server: Serving, turn: str, thread: str = "t") -> dict[str, Any]:
    found = httpx.get(f"{server.url}/api/threads/{thread}/turns/{turn}", timeout=WAIT_S).json()["turn"]
    assert isinstance(found, dict)
    return found


# --- beginning -------------------------------------------------------------------------------------------------


def test_server_begins_and_ends(tmp_path: Path) -> None:
    """A server at any free port tells its address once it answers there, and ends well when it is told to."""
    with Serving(tmp_path) as server:
        answer = httpx.get(f"{server.url}/healthz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        assert "server" not in answer.headers
        assert server.terminate() == 0, server.last_words()


def test_one_line_tells_where_it_is(tmp_path: Path) -> None:
    """A person is told in one line the address, the store, the agent and the folder."""
    url = f"sqlite:///{tmp_path}/chat.db"
    with subprocess.Popen(
        [sys.executable, "-m", "turnlog", "serve", "--port", "0", "--store", url, "--workspace", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        address = line.split()[1]
        assert httpx.get(f"{address}healthz").status_code == 200
        assert all(word in line for word in (url, "demo", str(tmp_path)))
        child.send_signal(signal.SIGINT)
        assert (child.stdout.read(), child.wait(WAIT_S)) == ("", 0)


def test_port_in_use_is_told(tmp_path: Path) -> None:
    """A port that another program listens at is a usage error in a sentence, and no store is made for it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        caller = Caller(tmp_path)
        result = caller("serve", "--port", str(port))
    assert result.exit_code == 2
    assert result.stderr == f"turnlog: port: {port} is in use already; name another one, or 0 for any.\n"
    assert not caller.store.exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_others_need_a_token(tmp_path: Path, host: str) -> None:
    """An address that others can reach is refused without a token, before anything is opened."""
    caller = Caller(tmp_path)
    result = caller("serve", "--port", "0", "--host", host)
    assert (result.exit_code, result.stderr) == (2, f"turnlog: token: is needed, as others can reach {host}.\n")
    assert not caller.store.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "no such host"), "host: is no address"),
        (("--host", "192.0.2.1"), "host: 192.0.2.1 is not to be listened at"),
        (("--token", "two words"), "token: must be visible ASCII"),
        (("--port", "65536"), "65536 is not in the range"),
    ],
)
def test_bad_options_are_told(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Options that cannot be used are usage errors in a sentence."""
    result = Caller(tmp_path)("serve", *(() if "--port" in arguments else ("--port", "0")), *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_foreign_store_is_told(tmp_path: Path) -> None:
    """A file that is no store is told in a sentence, with the exit code of stores, and left as it is."""
    caller = Caller(tmp_path)
    caller.store.parent.mkdir()
    caller.store.write_bytes(b"something of somebody else's" * 100)
    result = caller("serve", "--port", "0")
    assert result.exit_code == 3
    assert result.stderr.startswith("turnlog: This file is not a turnlog store")
    assert caller.store.read_bytes() == b"something of somebody else's" * 100


def test_token_lets_in_from_everywhere(tmp_path: Path) -> None:
    """With a token a server at all addresses is open to who shows it, and to nobody else."""
    with Serving(tmp_path, arguments=("--host", "0.0.0.0"), environment={"TURNLOG_TOKEN": "sesame"}) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        answers = [httpx.get(url), httpx.get(url, headers={"authorization": "Bearer sesame"})]
        assert [answer.status_code for answer in answers] == [401, 200]


def test_ipv6(tmp_path: Path) -> None:
    """The loopback address of IPv6 is served like that of IPv4."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("only on machines with IPv6")
    with Serving(tmp_path, arguments=("--host", "::1")) as server:
        assert server.url.startswith("http://[::1]:")
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_interrupted_turns_are_told_at_the_next_start(tmp_path: Path) -> None:
    """A server that is killed in mid-answer names the turn at its next start, where it is interrupted and keeps what
    was shown (P8, C06)."""
    with scripted(tmp_path) as server:
        turn = submit(server, "told")
        with streaming(server) as stream:
            assert stream.until("draft")["text"] == HALF
        server.kill()
    with scripted(tmp_path) as server:
        assert [(found["turn"], found["reason"]) for found in server.told["recovered"]] == [(turn, "process_died")]
        assert row(server, turn)["state"] == "interrupted"
        assert HALF in httpx.get(f"{server.url}/api/threads/t/transcript").text


# --- ending ----------------------------------------------------------------------------------------------------


def test_stop_says_bye_and_settles(tmp_path: Path, record_property: Any) -> None:
    """SIGTERM in mid-answer ends an open stream with `bye` and a clean end, then the server; the turn is settled by the
    server itself, with what was shown (P2)."""
    with scripted(tmp_path) as server:
        turn = submit(server, "told")
        with streaming(server) as stream:
            stream.until("draft")
            began = time.monotonic()
            server.send(signal.SIGTERM)
            assert stream.until("bye") == {"reason": "shutdown"}
            assert stream.next() is None
            record_property("seconds_to_bye", time.monotonic() - began)
        assert server.reap() == 0, server.last_words()
        assert server.last_words() == ""
    with turnlog.open(server.store_url) as log:
        assert log.recovered == []
        view = log.turn_view("t", turn)
        assert (view.state, view.reason) == ("interrupted", "cancelled")
        assert getattr(list(log.events("t", turn=turn))[-1].body, "detail", None) == STOPPED
        assert [message.text for message in log.transcript("t").messages] == ["question", HALF]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_it(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, a supervisor's SIGTERM and a closed terminal each end the server well, and settle its turns."""
    with scripted(tmp_path) as server:
        turn = submit(server, "told")
        server.send(number)
        assert server.reap() == 0, server.last_words()
    with turnlog.open(server.store_url) as log:
        assert (log.recovered, log.turn_view("t", turn).reason) == ([], "cancelled")


def test_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """A server started to outlive its terminal does."""
    script = tmp_path / "nohup.py"
    script.write_text(
        "import signal, runpy, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        f"runpy.run_path({str(SCRIPTED)!r}, run_name='__main__')\n"
    )
    with Serving(tmp_path, script=script) as server:
        server.send(signal.SIGHUP)
        for _ in range(100):  # a server that stops takes no connection after a tenth of a second
            assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert server.terminate() == 0


@pytest.mark.parametrize("settled", [False, True])
def test_second_signal_waits_for_nobody(tmp_path: Path, settled: bool) -> None:
    """When an agent does not end, a second signal ends the server all the same, whether it comes before the turn is
    settled or after; settled it is in both cases."""
    with scripted(tmp_path, environment={PATIENCE_S: str(3 * WAIT_S)}) as server:
        turn = submit(server, "stubborn")
        with streaming(server) as stream:
            stream.until("draft")
            server.send(signal.SIGTERM)
            stream.until("bye")
        with turnlog.open(server.store_url) as log:
            while settled and log.turn_view("t", turn).state != "interrupted":
                continue
        server.send(signal.SIGTERM)
        assert server.reap() == 0, server.last_words()
    with turnlog.open(server.store_url) as log:
        assert (log.recovered, log.turn_view("t", turn).reason) == ([], "cancelled")


@pytest.mark.parametrize("agent", ["stubborn", "stuck"])
def test_no_agent_keeps_it_from_ending(tmp_path: Path, agent: str) -> None:
    """An agent that ignores its end, or whose thread never ends, does not keep the server from ending well."""
    with scripted(tmp_path) as server:
        turn = submit(server, agent)
        with streaming(server) as stream:
            stream.until("draft")
        assert server.terminate() == 0, server.last_words()
    with turnlog.open(server.store_url) as log:
        assert (log.recovered, log.turn_view("t", turn).reason) == ([], "cancelled")


@pytest.mark.parametrize(
    ("agent", "end"), [("exiting", "failed"), ("exiting_aside", None), ("unmakeable", "start_failed")]
)
def test_an_agent_ends_no_server(tmp_path: Path, agent: str, end: str | None) -> None:
    """P5: an agent, a task of its own or a factory that raises SystemExit ends at most its turn: the server answers on,
    other turns go on, and it stops when it is told to."""
    with scripted(tmp_path) as server:
        other = submit(server, "told", "other")
        with streaming(server, "other") as stream:
            stream.until("draft")
        turn = submit(server, agent)
        while row(server, turn)["state"] not in ("completed", "interrupted"):
            continue
        assert row(server, turn)["reason"] == end
        assert row(server, other, "other")["state"] == "assistant_started"
        assert post(server, f"/api/threads/other/turns/{other}/decisions/go", value=True).status_code < 300
        with streaming(server, "other") as stream:
            while stream.until("event")["kind"] != "completed":
                continue
        assert server.terminate() == 0, server.last_words()


def test_turns_that_a_server_leaves_say_so(tmp_path: Path) -> None:
    """A turn that ends because its server was stopped says so, also when nobody was waited for any more."""
    with scripted(tmp_path, environment={PATIENCE_S: str(3 * WAIT_S)}) as server:
        turn = submit(server, "told")
        with streaming(server) as stream:
            stream.until("draft")
            server.send(signal.SIGTERM)
            server.send(signal.SIGINT)  # of two of one kind the system may make one
        assert server.reap() == 0, server.last_words()
    with turnlog.open(server.store_url) as log:
        end = list(log.events("t", turn=turn))[-1].body
        assert (end.kind, getattr(end, "detail", None)) == ("interrupted", STOPPED)


def test_a_server_that_fails_ends_too(tmp_path: Path) -> None:
    """P5: a server that ends by an error ends although an agent's thread does not, and tells the error."""
    script = tmp_path / "failing.py"
    script.write_text(
        "import sys, threading\n"
        "from turnlog.cli.main import main\n"
        "from turnlog.web import server\n"
        "def fail(*_given, **_more):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    raise OSError('no more files')\n"
        "server.run_server = fail\n"
        f"sys.argv = ['turnlog', '--store', 'sqlite:///{tmp_path}/chat.db', 'serve', '--port', '0']\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=WAIT_S, check=False)
    assert ran.returncode == 1
    assert b"no more files" in ran.stderr


# --- in between ------------------------------------------------------------------------------------------------


def test_disconnect_does_not_cancel(tmp_path: Path) -> None:
    """C39: a turn goes on when everybody who watches it goes away, and is complete for who comes later."""
    with scripted(tmp_path) as server:
        turn = submit(server, "told")
        with streaming(server) as stream:
            stream.until("draft")
        assert post(server, f"/api/threads/t/turns/{turn}/decisions/go", value=True).status_code < 300
        with streaming(server) as stream:
            while stream.until("event")["kind"] != "completed":
                continue
        assert row(server, turn)["state"] == "completed"


def test_store_that_fails_and_works_again(tmp_path: Path) -> None:
    """P1: while the store refuses to write, a message is a 503 that names its turn and key and not the machine's files;
    when it works again the same key is accepted once."""
    with scripted(tmp_path) as server:
        server.send(signal.SIGUSR1)
        while httpx.get(f"{server.url}/healthz").status_code == 200:
            post(server, "/api/threads/other/turns", content="question", when_busy="queue")
        refused = post(server, "/api/threads/t/turns", content="question", key="k", agent="quick")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["key"] == "k"
        assert "secret" not in refused.text
        server.send(signal.SIGUSR2)
        while httpx.get(f"{server.url}/healthz").status_code != 200:
            continue
        accepted = [post(server, "/api/threads/t/turns", content="question", key="k") for _ in range(2)]
        assert {answer.status_code for answer in accepted} == {202}
        assert len({answer.json()["turn"] for answer in accepted}) == 1
        assert "turnlog_store_errors_total{" in httpx.get(f"{server.url}/metrics").text


def test_second_server_on_the_same_store(tmp_path: Path) -> None:
    """C07: another server on the same store leaves a running turn alone, shows it live, and can interrupt it."""
    with scripted(tmp_path) as first:
        turn = submit(first, "told")
        with streaming(first) as stream:
            stream.until("draft")
        with scripted(tmp_path) as second:
            assert second.told["recovered"] == []
            with streaming(second) as stream:
                assert stream.until("draft")["text"] == HALF
                assert post(second, f"/api/threads/t/turns/{turn}/interrupt").status_code < 300
                while (event := stream.until("event"))["kind"] != "interrupted":
                    continue
            assert event["body"]["reason"] == "cancelled"
            assert row(first, turn)["state"] == row(second, turn)["state"] == "interrupted"
            assert [second.terminate(), first.terminate()] == [0, 0]
