"""One reader a watched thread, whatever the number of its watchers: what it reads is encoded once, for all of them.

A watcher is a position, not a queue: who is slower than the short memory of the feed is caught up from the log, with
each event it missed and then each open draft whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import NamedTuple

import anyio.to_thread
from msgspec.structs import replace

from turnlog.events.codec import event_json
from turnlog.events.kinds import Draft, Event
from turnlog.folds.states import TERMINAL
from turnlog.journal.documents import draft_json
from turnlog.journal.follow import Batch
from turnlog.journal.log import Log
from turnlog.limits import FEED_BYTES_MAX, FEED_PIECES_MAX, STREAM_PIECE_BYTES
from turnlog.web.stream.frames import frame
from turnlog.web.stream.sharing import Bell


class Piece(NamedTuple):
    """The frames of what became durable together. After it a watcher is at `head`."""

    events: list[tuple[int, bytes]]
    frames: bytes
    head: int


class ThreadFeed:
    """The frames of one thread. Made in an event loop, where it reads until `aclose`."""

    def __init__(
        self, log: Log, thread: str, *, pieces_max: int = FEED_PIECES_MAX, bytes_max: int = FEED_BYTES_MAX
    ) -> None:
        self._log = log
        self._thread = thread
        self._pieces_max = pieces_max
        self._bytes_max = bytes_max
        self._pieces: deque[Piece] = deque()
        self._bytes = 0
        self._base = 0
        """The number of the oldest piece that is kept."""
        self._floor = 0
        """The events after this seq are in the pieces that are kept."""
        self._head = -1
        """The seq up to which was read, -1 before the first reading."""
        self._drafts: dict[tuple[str, str], Draft] = {}
        """The open drafts, each whole."""
        self._bell = Bell()
        self._error: Exception | None = None
        self._reader = asyncio.create_task(self._read(), name=f"turnlog-feed {thread}")

    async def aclose(self) -> None:
        """Stop reading."""
        self._reader.cancel()
        await asyncio.wait([self._reader])

    # --- the reader --------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            self._floor = (await anyio.to_thread.run_sync(self._log.thread, self._thread)).head
            news = await anyio.to_thread.run_sync(self._log.watch, self._thread, self._floor)
            async with aclosing(news) as batches:
                async for batch in batches:
                    self._take(batch)
                    self._bell.ring()
        except Exception as error:  # it is the answer of everyone who watches
            self._error = error
            self._bell.ring()

    def _take(self, batch: Batch) -> None:
        self._head = batch.head
        for event in batch.events:
            self._close_drafts(event)
        for draft in batch.drafts:
            self._join(draft)
        if sum(len(event.data) for event in batch.events) > self._bytes_max:
            self._forget(len(self._pieces) + 1, batch.head)  # more than is kept: everyone takes it from the log
            return
        events = [(event.seq, event_frame(event, self._log.epoch)) for event in batch.events]
        frames = b"".join((*(data for _, data in events), *map(draft_frame, batch.drafts)))
        if not frames:
            return
        self._pieces.append(Piece(events, frames, batch.head))
        self._bytes += len(frames)
        while len(self._pieces) > self._pieces_max or self._bytes > self._bytes_max:
            self._forget(1, self._pieces[0].head)

    def _forget(self, count: int, floor: int) -> None:
        for piece in list(islice(self._pieces, count)):
            self._pieces.popleft()
            self._bytes -= len(piece.frames)
        self._base += count
        self._floor = floor

    def _join(self, chunk: Draft) -> None:
        whole = self._drafts.get((chunk.turn, chunk.draft))
        if whole is not None:
            chunk = replace(whole, text=whole.text[: chunk.offset - whole.offset] + chunk.text)
        self._drafts[chunk.turn, chunk.draft] = chunk

    def _close_drafts(self, event: Event) -> None:
        for closed in getattr(event.body, "closes", ()):
            self._drafts.pop((event.turn or "", closed.draft), None)
        if event.kind in TERMINAL:
            for turn, draft in [key for key in self._drafts if key[0] == event.turn]:
                del self._drafts[turn, draft]

    # --- a watcher ---------------------------------------------------------------------------------------------

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """Frames of the events after a seq, then of each open draft whole, then of what comes. Never ends by itself.

        Raises what reading the log raises, `StoreClosed` when it is closed.
        """
        seq, place = after, -1
        while True:
            if place < self._base and self._head >= 0 and seq < self._floor:
                missed = await anyio.to_thread.run_sync(self._missed, seq)
                while seq < self._floor and (page := await anyio.to_thread.run_sync(self._page, missed)):
                    seq = page[-1][0]
                    yield b"".join(data for _, data in page)
            elif place < self._base and seq <= self._head:
                pieces = self._joining(seq)
                seq, place = self._head, self._base + len(self._pieces)
                for piece in pieces:
                    yield piece
            elif self._base <= place < self._base + len(self._pieces):
                piece, seq, place = self._next(place)
                yield piece
            elif self._error is not None:
                raise self._error
            else:
                await self._bell.wait()

    def _missed(self, seq: int) -> Iterator[Event]:
        """The events after a seq, from the log. Runs in a thread."""
        return self._log.events(self._thread, after=seq, bytes_max=STREAM_PIECE_BYTES)

    def _page(self, missed: Iterator[Event]) -> list[tuple[int, bytes]]:
        """The next frames of events read from the log, about as many as are sent at once. Runs in a thread."""
        page: list[tuple[int, bytes]] = []
        size = 0
        for event in missed:
            page.append((event.seq, event_frame(event, self._log.epoch)))
            size += len(page[-1][1])
            if size >= STREAM_PIECE_BYTES:
                break
        return page

    def _joining(self, seq: int) -> list[bytes]:
        """What brings a watcher who knows the events up to `seq` to where the feed is."""
        events = [data for piece in self._pieces for number, data in piece.events if number > seq]
        return pieces_of([*events, *map(draft_frame, self._drafts.values())])

    def _next(self, place: int) -> tuple[bytes, int, int]:
        """What a watcher at `place` is sent next, and the seq and place it is at then."""
        taken: list[bytes] = []
        size, seq = 0, self._head
        for piece in islice(self._pieces, place - self._base, None):
            if taken and size + len(piece.frames) > STREAM_PIECE_BYTES:
                break
            taken.append(piece.frames)
            size, seq = size + len(piece.frames), piece.head
        return b"".join(taken), seq, place + len(taken)


def pieces_of(frames: Iterable[bytes]) -> list[bytes]:
    """Frames put together to pieces that a connection takes without much memory."""
    pieces: list[bytes] = []
    for data in frames:
        if pieces and len(pieces[-1]) + len(data) <= STREAM_PIECE_BYTES:
            pieces[-1] += data
        else:
            pieces.append(data)
    return pieces


def event_frame(event: Event, epoch: str) -> bytes:
    """The frame of one event; its id is the cursor behind it."""
    return frame("event", event_json(event), id=f"{epoch}.{event.seq}")


def draft_frame(draft: Draft) -> bytes:
    """The frame of one chunk of a draft. It has no id: drafts move no cursor."""
    return frame("draft", draft_json(draft))
