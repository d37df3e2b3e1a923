"""A real server as a process of its own: start, wait until it listens, stop, kill.

    with Serving(tmp_path) as server:
        httpx.get(server.url)

Another program than `turnlog serve` (a script that calls `serve_agents` with agents of a test) is given as `script`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from turnlog.journal.log import Log, open_log
from turnlog.runner.runner import AgentFactory
from turnlog.web.server import guard_of, leave_stuck_threads, listening, run_server, url_of

ROOT: Final = Path(__file__).parents[2]

WAIT_S: Final = 60.0
"""Seconds to wait for a server to begin or to end: a healthy one needs a second, also on a loaded machine ten."""


class ServerFailed(Exception):
    """A server did not begin or did not end."""


class Serving:
    """One server child. As a context manager it is killed and reaped at the end.

    `folder` takes the store (`store.db`) and what the child prints (`server.output`); several servers may share it.
    `workspace` is `folder` unless it is given. `arguments` are further ones of `turnlog serve`. A `script` is a Python
    file that ends in `serve_agents(...)`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workspace: Path | None = None,
        arguments: Sequence[str] = (),
        script: Path | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        self.store = folder / "store.db"
        self.store_url = f"sqlite:///{self.store}"
        program = ["-m", "turnlog", "serve"] if script is None else [str(script)]
        options = ["--json", "--store", self.store_url, "--port", str(port), "--workspace", str(workspace or folder)]
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._output = folder / "server.output"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *program, *options, *arguments],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self._told: dict[str, Any] = {}
        self._lines: list[bytes] = []
        self._begun = threading.Event()
        self._reader = threading.Thread(target=self._read, name="server reader")
        self._reader.start()
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                self.kill()
                raise

    def _read(self) -> None:
        """Take the line that it is ready by, and let it write whatever follows."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            if not self._told:
                self._told = json.loads(line)
                self._begun.set()
        self._begun.set()

    def wait_ready(self, timeout: float = WAIT_S) -> None:
        """Return once it answers requests. `ServerFailed` when it ends before."""
        if not self._begun.wait(timeout) or not self._told:
            raise ServerFailed(f"not ready (exit code {self._process.poll()}): {self.last_words()}")

    @property
    def told(self) -> dict[str, Any]:
        """What it said when it was ready: `url`, `store`, `agent`, `workspace`, `recovered`."""
        return self._told

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return str(self._told["url"]).rstrip("/")

    @property
    def port(self) -> int:
        """The port it listens at."""
        return int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it alone."""
        self._process.send_signal(number)

    def terminate(self, timeout: float = WAIT_S) -> int:
        """SIGTERM, and its exit code once it has ended in good order."""
        self.send(signal.SIGTERM)
        return self.reap(timeout)

    def kill(self) -> None:
        """SIGKILL it with all it started, and reap it. Nothing happens if it has ended by itself."""
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.reap()

    def reap(self, timeout: float = WAIT_S) -> int:
        """Wait until it has ended; its exit code, a signal's number negated."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"did not end within {timeout} s: {self.last_words()}") from None
        self._reader.join(timeout)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def last_words(self) -> str:
        """The end of what it wrote to standard error, of all servers of this folder."""
        return self._output.read_bytes()[-4_096:].decode("utf-8", "replace").strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def serve_agents(
    agents: Mapping[str, AgentFactory],
    *,
    opened: Callable[[str], AbstractContextManager[Log]] = open_log,
    arguments: Sequence[str] | None = None,
) -> None:
    """In a script: what `turnlog serve` does, with other agents (the first one is the default) and another way to open
    the store; it understands the options that `Serving` gives it, `--host` and `--token`, and nothing else."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given.remove("--json")
    options = dict(zip(given[::2], given[1::2], strict=True))
    host = options.get("--host", "127.0.0.1")
    agent = next(iter(agents))
    with listening(host, int(options["--port"])) as sock:
        guard = guard_of(sock, host, options.get("--token"))
        with opened(options["--store"]) as log:

            def ready() -> None:
                recovered = [turn._asdict() for turn in log.recovered]
                told = {"url": url_of(sock, host), "store": options["--store"], "agent": agent, "recovered": recovered}
                sys.stdout.write(json.dumps({**told, "workspace": options["--workspace"]}) + "\n")
                sys.stdout.flush()

            workspace = Path(options["--workspace"])
            run_server(log, agents, agent=agent, sock=sock, workspace=workspace, guard=guard, ready=ready)
    leave_stuck_threads()
