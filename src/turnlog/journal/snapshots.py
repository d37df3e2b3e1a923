"""Snapshots of settled turns: their timelines, folded once more beside the writer and kept in pages.

A thread of its own folds, a piece at a time, and hands the pages to the writer, which stores them when it rests: no
other write waits for more than one such write. What is not made, because too much waits, the store fails or the log is
closed, is folded when somebody opens the turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from turnlog.engines.protocol import Engine, Phase, SnapshotPart, TurnRow, Write
from turnlog.errors import StoreClosed, TurnlogError
from turnlog.events.clock import Clock
from turnlog.folds.pages import stored_pages
from turnlog.folds.timeline import Timeline
from turnlog.folds.turn import TurnView
from turnlog.journal.plan import Plan
from turnlog.journal.records import turn_view
from turnlog.journal.traces import SnapshotGone, StoredTrace, covered, trace_events
from turnlog.limits import (
    CLOSE_WAIT_S,
    QUEUE_TURNS_MAX,
    SNAPSHOT_EVENTS_MIN,
    SNAPSHOT_PAUSE_BUSY_S,
    SNAPSHOT_PAUSE_S,
    SNAPSHOT_PIECE_S,
    SNAPSHOT_WRITE_BYTES,
    SNAPSHOTS_KEPT,
    SNAPSHOTS_WAITING_MAX,
)

T = TypeVar("T")
Pair: TypeAlias = tuple[str, str]

_logger = logging.getLogger("turnlog")


class Snapshots:
    """Makes the snapshots of one log. `saw` and `rest` are for the writer's thread, `ask` for any."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.come_by: Callable[[], None] = _nobody
        """Asks the writer to call `rest` once it has nothing else to write."""
        # A bare lock is entered in one step, as in the writer.
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._waiting: dict[Pair, None] = {}
        self._may_begin = self._busy = False
        self._ready: list[Write] = []
        self._held: list[Write] = []
        self._held_bytes = 0
        self._piece_from = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    # --- from other threads ------------------------------------------------------------------------------------

    def saw(self, plan: Plan) -> None:
        """Note which turns a durable plan has settled, or added to after their end, and that the writer is at work."""
        self._busy = True
        if plan.view is not None and plan.view.events < SNAPSHOT_EVENTS_MIN:
            return
        for write in plan.writes:
            if write.turn_row is not None and write.turn_row.phase is Phase.SETTLED:
                self._note([(write.thread, write.turn_row.turn)])

    def ask(self, turns: Iterable[Pair]) -> None:
        """Make the snapshots of settled turns that lack theirs, as far as they are among those that are kept."""
        if self._note(turns):
            self.come_by()

    def _note(self, turns: Iterable[Pair]) -> bool:
        with self._mutex:
            for pair in turns:
                if not self._closed and len(self._waiting) < SNAPSHOTS_WAITING_MAX:
                    self._waiting[pair] = None
            return bool(self._waiting)

    def rest(self) -> None:
        """Nothing else is to be written: store what is ready, and let what waits begin."""
        self._busy = False
        with self._mutex:
            ready = self._ready
        if ready:
            try:
                self._engine.commit(ready)
            except TurnlogError as error:
                _logger.info("snapshots were not stored: %s", error)
        with self._mutex:
            if ready:
                self._ready = []
            self._may_begin = bool(self._waiting)
            if self._may_begin and self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="turnlog-snapshots", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Stop, in the middle of a turn if need be. Idempotent."""
        with self._mutex:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_WAIT_S)

    # --- in its own thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                self._make(*self._next())
            except StoreClosed:
                return
            except TurnlogError as error:
                _logger.info("a snapshot was not made: %s", error)
            except Exception:
                _logger.exception("making a snapshot failed")

    def _next(self) -> Pair:
        """The next turn. When none waits, what is ready is handed over first; after that the writer must rest again."""
        with self._mutex:
            waits = bool(self._waiting)
        if not waits:
            self._hand_over()
        with self._mutex:
            self._wait_for(lambda: self._may_begin and bool(self._waiting))
            pair = next(iter(self._waiting))
            del self._waiting[pair]
            self._may_begin = bool(self._waiting)
            return pair

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        """The caller holds the condition. Raises `StoreClosed`."""
        while not self._closed and not condition():
            self._wake.wait()
        if self._closed:
            raise StoreClosed

    def _make(self, thread: str, turn: str) -> None:
        row = next((row for row in self._newest_settled(thread) if row.turn == turn), None)
        if row is None:
            return
        view = turn_view(self._engine, row)
        if view.events < SNAPSHOT_EVENTS_MIN or self._stored(row, view):
            return
        self._piece_from = self._clock.boot_s()
        fold = Timeline(turn)
        for event in self._in_pieces(trace_events(self._engine, row, view)):
            fold.event(event)
        shown, entries = fold.trace()
        self._keep(row, covered(row, view), stored_pages(shown, self._in_pieces(entries)))

    def _newest_settled(self, thread: str) -> list[TurnRow]:
        """The turns whose snapshots are kept. As many open ones as may be stand between them."""
        newest = self._engine.turns(thread=thread, limit=SNAPSHOTS_KEPT + QUEUE_TURNS_MAX + 1).rows
        return [row for row in newest if row.phase is Phase.SETTLED][:SNAPSHOTS_KEPT]

    def _stored(self, row: TurnRow, view: TurnView) -> bool:
        try:
            StoredTrace(self._engine, row, covered(row, view))
        except SnapshotGone:
            return False
        return True

    def _in_pieces(self, things: Iterable[T]) -> Iterator[T]:
        """The same, with rests in between that leave the interpreter to others. Raises `StoreClosed`."""
        for thing in things:
            yield thing
            if self._clock.boot_s() - self._piece_from >= SNAPSHOT_PIECE_S:
                with self._mutex:
                    self._wake.wait(SNAPSHOT_PAUSE_BUSY_S if self._busy else SNAPSHOT_PAUSE_S)
                    if self._closed:
                        raise StoreClosed
                self._piece_from = self._clock.boot_s()

    def _keep(self, row: TurnRow, seq: int, bodies: Iterable[bytes]) -> None:
        first, pages, size = 0, list[bytes](), 0
        for body in bodies:
            if pages and size + len(body) > SNAPSHOT_WRITE_BYTES:
                self._hold(row, SnapshotPart(seq=seq, first=first, pages=tuple(pages), last=False, keep=SNAPSHOTS_KEPT))
                first, pages, size = first + len(pages), [], 0
            pages.append(body)
            size += len(body)
        self._hold(row, SnapshotPart(seq=seq, first=first, pages=tuple(pages), last=True, keep=SNAPSHOTS_KEPT))

    def _hold(self, row: TurnRow, part: SnapshotPart) -> None:
        """Small parts of several turns are stored together."""
        self._held.append(Write(thread=row.thread, turn=row.turn, snapshot=part))
        self._held_bytes += sum(map(len, part.pages))
        if self._held_bytes >= SNAPSHOT_WRITE_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the writer what is held, and wait until it has stored it: no more than that is ever in memory."""
        if not self._held:
            return
        with self._mutex:
            self._ready, self._held, self._held_bytes = self._held, [], 0
        self.come_by()
        with self._mutex:
            self._wait_for(lambda: not self._ready)


def _nobody() -> None:
    """Who is asked to come by before there is a writer."""
