"""What the writer remembers of a thread: its head, and its open turns. The store stays the truth; this is its copy.

Nothing here changes before the write that changes it is durable. When another process appended first, `catch_up` reads
what it wrote; when a write's outcome is unknown, it finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turnlog.engines.protocol import Engine, OwnerId, Phase, ThreadRow, TurnRow
from turnlog.errors import RecordDamaged, TurnlogError
from turnlog.events.codec import RawHead, decode_json
from turnlog.events.kinds import AttemptDropped, Event, Item, Requested, Step
from turnlog.folds.states import STARTED, TERMINAL, State
from turnlog.folds.thread import ThreadFold, encode_thread_fold, fold_thread
from turnlog.folds.turn import TurnView, encode_view, is_call, is_call_output, next_view
from turnlog.journal.drafts import DraftBook
from turnlog.journal.records import decode_chunk, decode_record, stored_view, thread_fold
from turnlog.limits import PAGE_ROWS_MAX, READ_BYTES_MAX, READ_EVENTS_MAX

UNSETTLED = (None, "running", "waiting")
"""Step statuses of something whose outcome is still to come."""


def phase_of(state: State) -> Phase:
    """What an engine sees of a turn's state."""
    if state in TERMINAL:
        return Phase.SETTLED
    return Phase.STARTED if state in STARTED else Phase.SUBMITTED


@dataclass(slots=True, eq=False)
class OpenTurn:
    """A turn that has not settled. The parts beside the row's are followed for own turns only."""

    row: TurnRow
    view: TurnView
    counted: set[str] = field(default_factory=set)
    calls: dict[str, None] = field(default_factory=dict)
    """Calls begun whose outcome has not come, in order."""
    steps: set[str] = field(default_factory=set)
    book: DraftBook = field(default_factory=DraftBook)
    requested: list[Requested] = field(default_factory=list)
    ours: bool = False
    """This log accepted it and gave it to somebody to work on; without that, an own turn is one to recover."""
    lost: bool = False
    """Another process took it over or settled it."""
    failed: TurnlogError | None = None
    """What made a draft impossible to keep: everything but an interrupt is refused with it."""

    def apply(self, event: Event) -> None:
        """Take in one stored event of this turn."""
        view, names = next_view(self.view, event, self.counted)
        assert view is not None
        self.view = view
        self.counted.update(names)
        self.follow(event)

    def follow(self, event: Event) -> None:
        """Take in what the view does not tell: drafts that were replaced, calls begun and ended, steps, requests."""
        match event.body:
            case Item() as item:
                self._follow_item(item)
            case Step() as step:
                self._follow_step(step)
            case AttemptDropped() as dropped if dropped.attempt == self.book.attempt:
                self.book.next_attempt()
            case Requested() as request:
                self.requested.append(request)
            case _:
                pass

    def _follow_item(self, item: Item) -> None:
        if item.purpose is not None:
            return
        self.book.close(self.book.closed_by_item(item_head(item)))
        call = item.call_id or item.id
        if is_call_output(item.type):
            self.book.seal()
            self.calls.pop(call or "", None)
        elif is_call(item.type):
            self.book.seal()
            if call:
                self.calls[call] = None

    def _follow_step(self, step: Step) -> None:
        self.book.close(self.book.closed_by_step(step))
        known = step.id in self.steps
        self.steps.add(step.id)
        call = step.call_id or step.id
        if step.status not in UNSETTLED:
            self.calls.pop(call, None)
        elif step.step == "tool" and (step.status is not None or not known):
            self.calls.setdefault(call, None)

    def view_after(self, events: Iterable[Event]) -> tuple[TurnView, set[str]]:
        """The view as it will be after `events`, and what they newly count; nothing is changed yet."""
        view, counted = self.view, set[str]()
        for event in events:
            later, names = next_view(view, event, _Either(self.counted, counted))
            assert later is not None
            view = later
            counted.update(names)
        return view, counted


def item_head(item: Item) -> RawHead:
    """What is read from an item that was accepted."""
    try:
        return decode_json(item.raw, RawHead)
    except RecordDamaged:
        return RawHead()


class _Either:
    """Membership in one of two sets, without copying either."""

    def __init__(self, first: set[str], second: set[str]) -> None:
        self._sets = (first, second)

    def __contains__(self, name: object) -> bool:
        return name in self._sets[0] or name in self._sets[1]


def turn_row(row: TurnRow, view: TurnView) -> TurnRow:
    """`row` with what `view` says."""
    return TurnRow(
        thread=row.thread,
        turn=row.turn,
        key=row.key,
        digest=row.digest,
        retry_of=row.retry_of,
        phase=phase_of(view.state),
        owner=row.owner,
        fence=row.fence,
        seq_first=view.seq_first,
        seq_last=view.seq_last,
        fold=encode_view(view),
    )


def thread_row(thread: str, fold: ThreadFold) -> ThreadRow:
    """The row that `fold` makes."""
    return ThreadRow(
        thread=thread,
        updated_at=fold.updated_at,
        pinned=fold.pinned,
        importing=fold.importing,
        fold=encode_thread_fold(fold),
    )


@dataclass(slots=True, eq=False)
class ThreadState:
    """A thread as the writer knows it. `fold` is None while the thread does not exist."""

    thread: str
    head: int = 0
    rev: int = 0
    fold: ThreadFold | None = None
    open: dict[str, OpenTurn] = field(default_factory=dict)
    stale: bool = False
    """Somebody else may have written: read before the next use."""

    def open_before(self, seq: int) -> list[OpenTurn]:
        """The open turns that were submitted before `seq`, the first one first."""
        earlier = [turn for turn in self.open.values() if turn.row.seq_first < seq]
        return sorted(earlier, key=lambda turn: turn.row.seq_first)

    @property
    def first_open(self) -> OpenTurn:
        """The open turn that was submitted first, which may be later than `head`. There must be one."""
        return min(self.open.values(), key=lambda turn: turn.row.seq_first)

    def fold_after(self, events: Iterable[Event]) -> ThreadFold:
        """The thread's fold as it will be after `events`; nothing is changed yet."""
        fold = self.fold or ThreadFold()
        for event in events:
            fold = fold_thread(fold, event)
        return fold

    def apply(self, event: Event) -> None:
        """Take in one stored event."""
        self.fold = fold_thread(self.fold or ThreadFold(), event)
        self.head = event.seq
        if event.turn is not None and (turn := self.open.get(event.turn)) is not None:
            turn.apply(event)
            if turn.view.state in TERMINAL:
                del self.open[event.turn]

    def take(self, events: Sequence[Event], fold: ThreadFold, turn: OpenTurn | None) -> None:
        """Take in own events, whose folds are known: the turn's view has been set."""
        self.fold = fold
        self.head = events[-1].seq
        if turn is not None:
            for event in events:
                turn.follow(event)
            if turn.view.state in TERMINAL:
                self.open.pop(turn.row.turn, None)


def load(engine: Engine, thread: str, owner: OwnerId) -> ThreadState:
    """A thread's state as the store has it now."""
    state = ThreadState(thread)
    catch_up(engine, state, owner)
    return state


def catch_up(engine: Engine, state: ThreadState, owner: OwnerId) -> None:
    """Take in what was written since `state`, by whomever. Own turns are followed event by event, others by their row.

    What is read in several steps may belong to several moments; the base of the next write tells, and it is read again.
    """
    state.stale = True  # until all of it has been read
    if state.head:
        _follow_events(engine, state)
    elif rows := engine.threads(thread=state.thread, limit=1).rows:
        state.head, state.rev = rows[0].head, rows[0].rev
        state.fold = thread_fold(engine, rows[0])
    if state.head:
        _follow_open(engine, state, owner)
    state.stale = False


def _follow_open(engine: Engine, state: ThreadState, owner: OwnerId) -> None:
    open_rows = engine.turns(thread=state.thread, open_only=True, limit=PAGE_ROWS_MAX).rows
    for row in open_rows:
        mine = row.owner == owner and row.turn in state.open and state.open[row.turn].row.fence == row.fence
        if not mine:
            lose(state.open.get(row.turn))
            state.open[row.turn] = (
                follow_turn(engine, row) if row.owner == owner else OpenTurn(row, stored_view(engine, row))
            )
    still_open = {row.turn for row in open_rows}
    for turn in [turn for turn in state.open if turn not in still_open]:
        lose(state.open.pop(turn))


def lose(turn: OpenTurn | None) -> None:
    """Note that another writer has taken a turn over, if there is one."""
    if turn is not None:
        turn.lost = True


def _follow_events(engine: Engine, state: ThreadState) -> None:
    while True:
        tail = engine.tail(state.thread, after=state.head, rev=state.rev, limit=READ_EVENTS_MAX)
        for record in tail.events:
            state.apply(decode_record(state.thread, record))
        if state.head < tail.head and tail.events:
            continue
        state.head = max(state.head, tail.head)  # where the last events are lost, their places stay taken
        for chunk in tail.chunks:
            if (turn := state.open.get(chunk.turn)) is not None:
                turn.book.restore(decode_chunk(chunk))
        state.rev = tail.rev
        return


def follow_turn(engine: Engine, row: TurnRow) -> OpenTurn:
    """An open turn with all that its events and drafts tell: what a writer that goes on with it must know."""
    after, turn = row.seq_first - 1, None
    while True:
        page = engine.read(row.thread, after=after, turn=row.turn, limit=READ_EVENTS_MAX, bytes_max=READ_BYTES_MAX)
        for record in page.rows:
            event = decode_record(row.thread, record)
            after = event.seq
            if turn is not None:
                turn.apply(event)
            elif (view := next_view(None, event, ())[0]) is not None:
                turn = OpenTurn(row, view)
        if page.next is None:
            break
    turn = turn or OpenTurn(row, stored_view(engine, row))
    tail = engine.tail(row.thread, after=after, rev=0, limit=READ_EVENTS_MAX)
    while tail.events and tail.events[-1].seq < tail.head:  # drafts come with the last page of what others appended
        tail = engine.tail(row.thread, after=tail.events[-1].seq, rev=0, limit=READ_EVENTS_MAX)
    for chunk in tail.chunks:
        if chunk.turn == row.turn:
            turn.book.restore(decode_chunk(chunk))
    return turn
