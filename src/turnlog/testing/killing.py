"""Real processes that are killed: a child reports what it saw as JSON lines, the parent kills it and keeps the lines.

The child's script calls `report(value)`, which returns when the line is in the pipe: what was reported survives the
child. To die at a named place, the child sets `kill_self` as the action of a trap; to die at a random instant, the
parent calls `kill_within`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import IO, Any, Final

import msgspec

REPORT_FD: Final = "TURNLOG_REPORT_FD"
"""Environment variable that tells a child the number of its pipe."""

_WAIT_S: Final = 30.0
"""Seconds to wait for a child: a healthy one needs a second or two, also on a loaded machine."""

_ERRORS_BYTES: Final = 4_096
"""Bytes of what a child wrote to stderr that an error shows."""


def report(value: object) -> None:
    """In a child: send one JSON line to the parent, whole in the pipe when this returns. Outside of one: `KeyError`."""
    line = msgspec.json.encode(value) + b"\n"
    pipe = int(os.environ[REPORT_FD])
    while line:
        line = line[os.write(pipe, line) :]


class ChildFailed(Exception):
    """A child did not do what was waited for."""


class Child:
    """A Python script running as a process of its own. As a context manager it is killed and reaped at the end.

    `script` is a file; `folder` takes what the child prints. `environment` is added to the present one.
    """

    def __init__(
        self, script: Path, arguments: Sequence[str] = (), *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._changed = threading.Condition()
        self._lines: list[Any] = []
        self._rest = b""
        self._ended = False
        self._output = folder / f"{script.stem}.output"
        reading, writing = os.pipe()
        try:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603
                    [sys.executable, str(script), *arguments],
                    env={**os.environ, **(environment or {}), REPORT_FD: str(writing)},
                    pass_fds=(writing,),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(reading, "rb"),), name="child reader")
        self._reader.start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def lines(self) -> list[Any]:
        """The values reported so far; all there will ever be once the child was reaped."""
        with self._changed:
            return list(self._lines)

    @property
    def rest(self) -> bytes:
        """The beginning of a last line that the child did not finish, known once it was reaped."""
        with self._changed:
            return self._rest

    def wait_for(self, wanted: Callable[[list[Any]], bool], timeout: float = _WAIT_S) -> list[Any]:
        """Return the lines once `wanted` is true of them; `ChildFailed` when the child ends or time is over before."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or wanted(self._lines), timeout)
            if wanted(self._lines):
                return list(self._lines)
        raise ChildFailed(f"not reported within {timeout} s or before its end; {self._last_words()}")

    def kill(self) -> None:
        """SIGKILL the child's whole session and reap it. Nothing happens if it has ended by itself."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):  # it ended meanwhile, and another thread was told
                os.killpg(self._process.pid, signal.SIGKILL)
        self.reap()

    def kill_within(self, random: Random, seconds: float) -> bool:
        """Kill at a random instant of the next `seconds`; whether the child was still running then."""
        try:
            self._process.wait(random.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
        return self.reap() == -signal.SIGKILL

    def reap(self, timeout: float = _WAIT_S) -> int:
        """Wait until the child has ended and all its lines are read; its exit code, a signal's number negated."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"did not end within {timeout} s; {self._last_words()}") from None
        self._reader.join(timeout)
        if self._reader.is_alive():
            raise ChildFailed("a process it started still holds its pipe")
        return code

    def killed(self, timeout: float = _WAIT_S) -> bool:
        """Reap a child that should die at a trap: True if it did, False if it ended well, `ChildFailed` otherwise."""
        code = self.reap(timeout)
        if code not in (0, -signal.SIGKILL):
            raise ChildFailed(f"ended with {code}; {self._last_words()}")
        return code != 0

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    if line.endswith(b"\n"):
                        self._lines.append(msgspec.json.decode(line))
                    else:
                        self._rest = line
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _last_words(self) -> str:
        return self._output.read_bytes()[-_ERRORS_BYTES:].decode("utf-8", "replace").strip() or "it printed nothing"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
