"""Forks: the beginning of a thread copied into a new one, a page a commit, and shown when it is whole.

A fork ends at a settled point, where no turn was open: so no turn is copied in part. What it copies does not change any
more, so each page can be read when its turn comes, and after a crash the same fork goes on where the copy ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from turnlog.engines.protocol import Done, Engine, Phase, Record, TurnRow, Write
from turnlog.errors import Busy, StoreDamaged, ThreadExists, TurnHidden, UnknownTurn
from turnlog.events.kinds import Completed, Interrupted, Submitted
from turnlog.events.thread_kinds import ThreadForked, ThreadTruncated
from turnlog.folds.hidden import Hidden
from turnlog.folds.thread import Source
from turnlog.folds.turn import encode_view
from turnlog.journal.jobs import Job
from turnlog.journal.plan import Desk, Plan, record
from turnlog.journal.reading import ThreadView
from turnlog.journal.records import decode_record, read_events, stored_view
from turnlog.journal.state import ThreadState, catch_up, thread_row
from turnlog.journal.truncating import hidden_of, newest_first
from turnlog.limits import FORK_PAGE_BYTES, FORK_PAGE_EVENTS, READ_BYTES_MAX, READ_EVENTS_MAX


@dataclass(kw_only=True, eq=False, slots=True)
class ForkJob(Job):
    """Copy events 1 to `source.seq` of the thread `source.of` into the new thread, a page each time it is worked out.

    `finish` makes the receipt's value.
    """

    source: Source
    finish: Callable[[str], ThreadView]
    reached: int = 0

    def work_out(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`: this is what copies."""
        return self.seal(state, desk)

    def seal(self, state: ThreadState, desk: Desk) -> Plan:
        """See `Job`. Raises `ThreadExists` when the thread is there and is not this fork."""
        catch_up(desk.engine, state, desk.owner)
        plan = Plan(state, desk.clock.now_us())
        if state.fold is not None:
            begun = state.fold.source
            if begun is None or not is_same(begun, self.source):
                raise ThreadExists(thread=self.thread)
            if not state.fold.importing:
                return plan
            self.source = begun
        if state.head > self.reached:  # however often others came first: it went on
            self.reached, self.tries = state.head, 0
        if state.head < self.source.seq:
            self._copy_page(plan, desk)
        else:
            self._end(plan, desk)
        return plan

    def _copy_page(self, plan: Plan, desk: Desk) -> None:
        state, source = plan.state, self.source
        page = desk.engine.read(
            source.of,
            after=state.head,
            before=source.seq + 1,
            limit=FORK_PAGE_EVENTS,
            bytes_max=FORK_PAGE_BYTES,
        )
        if not page.rows:
            raise StoreDamaged(detail=f"events of the thread that is copied are missing behind {state.head}")
        plan.events = [decode_record(self.thread, row) for row in page.rows]
        plan.fold = replace(state.fold_after(plan.events), source=source, importing=True)
        plan.unfinished = True
        plan.writes.append(
            Write(
                thread=self.thread,
                base=state.head,
                events=page.rows,
                ingest=tuple(self._rows(page.rows, desk)),
                thread_row=thread_row(self.thread, plan.fold),
            )
        )

    def _rows(self, records: Sequence[Record], desk: Desk) -> Iterator[TurnRow]:
        """The rows of the turns in a page, as they will be in the end: nobody owns them."""
        for turn in dict.fromkeys(it.turn for it in records if it.turn is not None):
            row = desk.row(self.source.of, turn=turn)
            if row is None:
                raise StoreDamaged(detail=f"the row of the turn {turn!r} that is copied is missing")
            view = stored_view(desk.engine, row)
            late = [seq for seq in view.late if seq <= self.source.seq]
            fold = row.fold if late == view.late else encode_view(replace(view, late=late))
            yield replace(row, thread=self.thread, owner=None, fence=0, fold=fold)

    def _end(self, plan: Plan, desk: Desk) -> None:
        source = self.source
        plan.event(ThreadForked(of=source.of, epoch=source.epoch, seq=source.seq, turn=source.turn), None)
        truncated = self._beyond(plan.state, desk)
        if truncated is not None:
            plan.event(truncated, None)
        plan.writes.append(
            Write(
                thread=self.thread,
                base=plan.state.head,
                events=tuple(record(event) for event in plan.events),
                thread_row=plan.thread_row_after(),
            )
        )

    def _beyond(self, state: ThreadState, desk: Desk) -> ThreadTruncated | None:
        """What hides the turns that were begun after the last one that stays, and before that one had ended."""
        if self.source.turn is None:
            return None
        hidden, first = hidden_of(state, desk), None
        for row in newest_first(desk.engine, self.thread):
            if row.turn == self.source.turn:
                break
            if hidden.by(row.seq_first) is None:
                first = row
        if first is None:
            return None
        return ThreadTruncated(
            after=first.seq_first - 1,
            turn=first.turn,
            latest=self.source.turn,
            earlier=hidden.newest_up_to(first.seq_first - 1),
            why="undo",
        )

    def value(self, plan: Plan, dones: Sequence[Done]) -> ThreadView:
        """See `Job`."""
        return self.finish(self.thread)


def is_same(begun: Source, asked: Source) -> bool:
    """Whether a fork that is there is the one that is asked for."""
    return (begun.of, begun.turn) == (asked.of, asked.turn)


def settled_point(engine: Engine, thread: str, turn: str | None) -> int:
    """The seq up to which a fork copies: where no turn is open, behind the end of `turn`; without one, the last such.

    Raises `UnknownTurn`, `Busy` when there is none yet, or `TurnHidden` when the turn was hidden before that point.
    """
    if turn is None:
        return _last_point(engine, thread)
    rows = engine.turns(thread=thread, turn=turn, limit=1).rows
    if not rows:
        raise UnknownTurn(thread=thread, turn=turn)
    row = rows[0]
    if row.phase is not Phase.SETTLED:
        raise Busy(thread=thread, turn=turn, running=turn)
    points = _Points(thread)
    for bound in _bounds(engine, thread, None):
        points.take(bound)
        if bound.turn is not None and not points.open and bound.seq >= row.seq_last:
            _refuse_hidden(engine, row, bound.seq)
            return bound.seq
    raise Busy(thread=thread, turn=turn, running=next(iter(points.open), turn))


def _refuse_hidden(engine: Engine, row: TurnRow, point: int) -> None:
    """A turn that only a later truncation hides is shown in the fork again: that one is not copied."""
    hidden = Hidden()
    kinds = {ThreadTruncated.kind}
    for event in read_events(engine, row.thread, row.seq_first, before=point + 1, kinds=kinds):
        if isinstance(event.body, ThreadTruncated):
            hidden.add(event.body.after, event.seq)
    by = hidden.by(row.seq_first)
    if by is not None:
        raise TurnHidden(thread=row.thread, turn=row.turn, hidden_by=by)


def _last_point(engine: Engine, thread: str) -> int:
    head = engine.tail(thread, after=0, rev=0, limit=0).head
    running = engine.turns(thread=thread, open_only=True, limit=1).rows
    if not running and engine.tail(thread, after=0, rev=0, limit=0).head == head:
        return head
    points = _Points(thread)
    for bound in _bounds(engine, thread, head + 1):
        points.take(bound)
    if not points.open:
        return head
    if not points.settled:
        raise Busy(thread=thread, running=next(iter(points.open)))
    return points.last


class _Points:
    """Which turns are open as a thread goes on. `last` is the seq before the first one since all were settled."""

    def __init__(self, thread: str) -> None:
        self._thread = thread
        self.open: dict[str, None] = {}
        self.last = 0
        self.settled = 0
        self._edit = 0

    def take(self, bound: Record) -> None:
        """Take the begin or the end of a turn, or a truncation."""
        if bound.turn is None:
            body = decode_record(self._thread, bound).body
            self._edit = bound.seq if isinstance(body, ThreadTruncated) and body.why == "edit" else 0
            return
        if bound.kind != Submitted.kind:
            self.open.pop(bound.turn, None)
        else:
            if not self.open:
                # What an edit takes back belongs to the message in its place.
                begun = self._edit if self._edit == bound.seq - 1 else bound.seq
                self.last, self.settled = begun - 1, self.settled + bool(self.last)
            self.open[bound.turn] = None


_BOUNDS: Final = frozenset({Submitted.kind, Completed.kind, Interrupted.kind, ThreadTruncated.kind})


def _bounds(engine: Engine, thread: str, before: int | None) -> Iterator[Record]:
    """Where turns begin and end, and what truncates the thread, in order."""
    after = 0
    while True:
        page = engine.read(
            thread, after=after, before=before, kinds=_BOUNDS, limit=READ_EVENTS_MAX, bytes_max=READ_BYTES_MAX
        )
        yield from page.rows
        if page.next is None:
            return
        after = page.rows[-1].seq
