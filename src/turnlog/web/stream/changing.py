"""One reader of which threads change, whatever the number of its watchers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import anyio.to_thread

from turnlog.errors import UnknownThread
from turnlog.events.codec import json_line
from turnlog.journal.documents import thread_row
from turnlog.journal.log import Log
from turnlog.limits import CHANGES_KEPT_MAX, CHANGES_PAUSE_S, STREAM_PIECE_BYTES
from turnlog.web.stream.frames import frame
from turnlog.web.stream.sharing import Bell


class ChangeFeed:
    """Frames of the rows of threads that change. Made in an event loop, where it reads until `aclose`.

    Changes are numbered; a watcher is the number of the last one it was told. Drafts change no row, and are not told.
    """

    def __init__(self, log: Log, *, kept_max: int = CHANGES_KEPT_MAX, pause_s: float = CHANGES_PAUSE_S) -> None:
        self._log = log
        self._kept_max = kept_max
        self._pause_s = pause_s
        self._rows: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        """The number of each thread's last change, and its row then, in the order of the numbers."""
        self._last = 0
        self._floor = 0
        """The changes after this number are in the rows."""
        self._bell = Bell()
        self._error: Exception | None = None
        self._reader = asyncio.create_task(self._read(), name="turnlog-changes")

    async def aclose(self) -> None:
        """Stop reading."""
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def _read(self) -> None:
        try:
            async with aclosing(self._log.changes()) as changes:
                async for changed in changes:
                    if changed is None:
                        self._lose()
                    else:
                        self._take(await anyio.to_thread.run_sync(self._rows_of, changed))
                    self._bell.ring()
                    await asyncio.sleep(self._pause_s)
        except Exception as error:  # it is the answer of everyone who watches
            self._error = error
            self._bell.ring()

    def _lose(self) -> None:
        """Anything may have changed."""
        self._last += 1
        self._floor = self._last
        self._rows.clear()

    def _rows_of(self, threads: Iterable[str]) -> list[tuple[str, bytes]]:
        """The rows of threads as they are now. Runs in a thread."""
        rows = []
        for thread in threads:
            try:
                rows.append((thread, json_line(thread_row(self._log.thread(thread)))))
            except UnknownThread:  # it had drafts only, or is gone
                continue
        return rows

    def _take(self, rows: Iterable[tuple[str, bytes]]) -> None:
        for thread, row in rows:
            if self._rows.get(thread, (0, b""))[1] != row:
                self._last += 1
                self._rows[thread] = (self._last, row)
                self._rows.move_to_end(thread)
        while len(self._rows) > self._kept_max:
            self._floor = self._rows.popitem(last=False)[1][0]

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """A `reset`, upon which the list is to be read, then a `change` for what changes. Never ends by itself."""
        told, reason = -1, b"start"
        while True:
            if told < self._floor:
                told = self._last
                yield frame("reset", b'{"reason":"%s","head":null}' % reason)
                reason = b"behind"
            elif told < self._last:
                rows = [row for number, row in self._rows.values() if number > told]
                told = self._last
                for piece in _change_frames(rows):
                    yield piece
            elif self._error is not None:
                raise self._error
            else:
                await self._bell.wait()


def _change_frames(rows: Iterable[bytes]) -> list[bytes]:
    """Rows as frames that a connection takes without much memory."""
    frames: list[list[bytes]] = [[]]
    size = 0
    for row in rows:
        if frames[-1] and size + len(row) > STREAM_PIECE_BYTES:
            frames.append([])
            size = 0
        frames[-1].append(row)
        size += len(row)
    return [frame("change", b'{"threads":[%s]}' % b",".join(part)) for part in frames]
