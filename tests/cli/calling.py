"""Calling the command line, in this process or as a real one on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from click.testing import CliRunner, Result

from turnlog.cli.main import main

WAIT_S = 60.0
"""Seconds to wait for output: a healthy process needs a second or two, also on a loaded machine."""

COMMAND = (sys.executable, "-m", "turnlog")


class Caller:
    """Calls commands with one store of its own."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "kept" / "log.db"
        self.url = f"sqlite:///{self.store}"
        self.environment = {"TURNLOG_STORE": self.url, "TERM": "xterm"}

    def __call__(
        self, *arguments: str, given: str | bytes = "", environment: Mapping[str, str] | None = None
    ) -> Result:
        """Call in this process. The exit code is the result's to tell; anything unexpected raises."""
        runner = CliRunner(env={**self.environment, **(environment or {})})
        return runner.invoke(main, list(arguments), input=given, catch_exceptions=False)

    def read(self, *arguments: str) -> Any:
        """Call with --json and give the document."""
        result = self(*arguments[:1], "--json", *arguments[1:])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def process(
        self, *arguments: str | bytes, environment: Mapping[str, str] | None = None, given: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Call as a real process, without a terminal."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=given,
            env={**os.environ, **self.environment, **(environment or {})},
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )

    def on_terminal(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Terminal:
        """Call as a real process on a terminal of its own."""
        return Terminal([*COMMAND, *arguments], {**os.environ, **self.environment, **(environment or {})})


class Terminal:
    """A process on a terminal, with all that it has printed. As a context manager it is killed and reaped."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._seen = b""
        self._file: int | None
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), dict(environment))
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._code is None:
            self.send(signal.SIGKILL)
            self.wait()
        if self._file is not None:
            os.close(self._file)

    @property
    def seen(self) -> str:
        """Everything printed so far."""
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        """Wait until the terminal has shown `text`."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert self._read(deadline), f"{text!r} was never shown:\n{self.seen}"

    def _read(self, deadline: float) -> bool:
        """Take some output; False at its end."""
        assert self._file is not None
        left = max(0.0, deadline - time.monotonic())
        assert select.select([self._file], [], [], left)[0], f"nothing more is shown:\n{self.seen}"
        try:
            data = os.read(self._file, 65_536)
        except OSError:  # what a terminal reads once nobody has it open any more
            return False
        self._seen += data
        return bool(data)

    def press(self, keys: bytes) -> None:
        """Type something; ^C is `\\x03`."""
        assert self._file is not None
        os.write(self._file, keys)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def hang_up(self) -> int:
        """Take the terminal away, and give the exit code."""
        assert self._file is not None
        os.close(self._file)
        self._file = None
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self) -> int:
        """Wait for the end of the process, and give its exit code (of one that was killed: minus the signal)."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            continue
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code
