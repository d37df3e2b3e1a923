"""Real processes as the conductor has them: what they report comes line by line, and they may die at any instant."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from turnlog.testing.killing import REPORT_FD

ROOT: Final = Path(__file__).parents[2]

END_WAIT_S: Final = 60.0
"""Seconds for a process to end once it was told to: a healthy one needs a second, on a busy machine ten."""

_LINE_BYTES: Final = 2**26
_LAST_BYTES: Final = 2**14

Take = Callable[[Any], None]


class Process:
    """A Python program as a process of its own. `reported` gets each value it reports, `printed` each line of its
    standard output; `errors` is the file that its standard error goes to. `ended` is set when all of it was read,
    `told_to_end` when it was sent a signal for that."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, errors: Path) -> None:
        self.name = name
        self.errors = errors
        self.ended = asyncio.Event()
        self.told_to_end = False
        self._child = child
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        script: Path,
        arguments: Sequence[str],
        folder: Path,
        *,
        reported: Take,
        printed: Callable[[bytes], None],
    ) -> Process:
        """Start a program on the store in `folder`."""
        reading, writing = os.pipe()
        errors = folder / f"{name.replace(' ', '-')}.errors"
        try:
            with errors.open("ab") as output:
                child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    str(script),
                    *arguments,
                    env={**os.environ, **_environment(folder), REPORT_FD: str(writing)},
                    pass_fds=(writing,),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=output,
                    start_new_session=True,
                    limit=_LINE_BYTES,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        process = cls(name, child, errors)
        process._reading = asyncio.create_task(process._read(reading, reported, printed))
        return process

    async def _read(self, pipe: int, reported: Take, printed: Callable[[bytes], None]) -> None:
        lines = asyncio.StreamReader(limit=_LINE_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(pipe, "rb"))
        assert self._child.stdout is not None

        async def each(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
            while line := await stream.readline():
                if line.endswith(b"\n"):  # else it died in the middle of it
                    take(line)

        try:
            await asyncio.gather(
                each(lines, lambda line: reported(json.loads(line))), each(self._child.stdout, printed)
            )
            await self._child.wait()
        finally:
            transport.close()
            self.ended.set()

    @property
    def code(self) -> int | None:
        """Its exit code once it has ended, a signal's number negated."""
        return self._child.returncode

    def send(self, value: Any) -> None:
        """Give it a line on its standard input. One that has died does not get it."""
        assert self._child.stdin is not None
        if self._child.returncode is None and not self._child.stdin.is_closing():
            self._child.stdin.write(json.dumps(value).encode() + b"\n")

    def close_input(self) -> None:
        """Tell it that nothing more comes."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it has ended."""
        if self._child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            self.told_to_end |= number in (signal.SIGINT, signal.SIGTERM, signal.SIGABRT, signal.SIGKILL)

    async def kill(self) -> None:
        """SIGKILL it, and read what it had said."""
        self.signal(signal.SIGKILL)
        await self.end()

    async def end(self) -> None:
        """Wait until it has ended."""
        async with asyncio.timeout(END_WAIT_S):
            await self.ended.wait()
        assert self._reading is not None
        await self._reading

    def check(self) -> None:
        """Raise what went wrong with reading it."""
        if self._reading is not None and self._reading.done():
            self._reading.result()

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self.errors.read_bytes()[-_LAST_BYTES:].decode("utf-8", "replace").strip()


def _environment(folder: Path) -> Mapping[str, str]:
    paths = f"{ROOT / 'src'}:{ROOT}"
    store = f"sqlite:///{folder / 'store.db'}"
    return {"PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1", "FOLDER": str(folder), "TURNLOG_STORE": store}
