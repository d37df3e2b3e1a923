"""Auditing a store: reads it thread by thread, and tells only what stands still.

Events never change, so what is wrong in them is told as they pass by. Rows, drafts and owners move with their writers:
they are looked at where the thread's head is the same before and after, and again where it was not.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.engines.protocol import Damage, Engine, Phase, ThreadRow, TurnRow
from turnlog.errors import RecordDamaged, StoreDamaged, UnknownThread
from turnlog.events.ids import check_thread_id
from turnlog.events.kinds import Damaged, Event, ThreadCreated, ThreadLate, Unknown
from turnlog.events.thread_kinds import ThreadRepaired, ThreadRepairUndone
from turnlog.folds.audit import THREAD_KINDS, ThreadAudit, ThreadFacts, set_aside
from turnlog.folds.audit_turn import ROW, TurnFacts
from turnlog.folds.findings import Finding, FindingKind, finding
from turnlog.folds.states import TERMINAL
from turnlog.folds.thread import ThreadFold, decode_thread_fold, fold_thread
from turnlog.folds.turn import TurnView, decode_view
from turnlog.journal.comparing import snapshot_findings, whole_view
from turnlog.journal.records import read_events
from turnlog.journal.state import thread_row
from turnlog.limits import DEAD_OWNERS_MAX, PAGE_ROWS, STILL_TRIES_MAX

REPAIRS = frozenset({ThreadRepaired.kind, ThreadRepairUndone.kind})
THREAD_ROW = "thread row"
PLACES = f"{ROW}: places"
"""The place of a finding about what the engine keeps beside a turn's row."""


def audit_store(engine: Engine) -> Iterator[Finding]:
    """Findings of everything: of the store, then thread by thread as the list has them.

    Where rows are not found by what they are found by, nothing can be said of threads.
    """
    lost = False
    for found in store_findings(engine):
        lost = lost or found.kind == "index_differs"
        yield found
    for name in () if lost else thread_names(engine):
        if isinstance(name, Finding):
            yield name
        else:
            yield from ThreadAuditing(engine, name).findings()


def audit_thread(engine: Engine, thread: str) -> Iterator[Finding]:
    """Findings of one thread. Raises `UnknownThread` at once."""
    if not engine.threads(thread=check_thread_id(thread), limit=1).rows:
        raise UnknownThread(thread=thread)
    return findings_of(engine, thread)


def findings_of(engine: Engine, thread: str) -> Iterator[Finding]:
    """What is found in one thread, by the engine and in its events."""
    for damage in engine.check(thread):
        yield from damage_findings(damage)
    yield from ThreadAuditing(engine, thread).findings()


def thread_names(engine: Engine) -> Iterator[str | Finding]:
    """All threads, as they are listed, then those that are being copied; and what keeps others from being told."""
    yield from _listed(engine, importing=False)
    yield from _listed(engine, importing=True)


def _listed(engine: Engine, *, importing: bool) -> Iterator[str | Finding]:
    before: bytes | None = None
    while True:
        try:
            page = engine.threads(importing=importing, before=before, limit=PAGE_ROWS)
        except StoreDamaged as damage:
            yield finding("unreadable", "thread rows", f"threads from here on cannot be listed: {damage.detail}")
            return
        yield from (row.thread for row in page.rows)
        if page.next is None:
            return
        before = page.next


def dead_leases(engine: Engine) -> Iterator[Finding]:
    """Leases of dead owners that have nothing left to settle."""
    try:
        owners = engine.dead_owners(limit=DEAD_OWNERS_MAX)
    except StoreDamaged as damage:
        yield finding("unreadable", "owners", f"it cannot be told who is dead: {damage.detail}")
        return
    for owner in owners:
        try:
            rows = engine.turns(owner=owner, open_only=True, limit=1).rows
        except StoreDamaged:
            continue
        if not rows:
            yield finding("dead_lease", f"owner {owner}", "its owner is dead and owns no open turn", repairable=True)


def store_findings(engine: Engine) -> Iterator[Finding]:
    """What can be told of the store as a whole, and what the engine itself tells."""
    yield from dead_leases(engine)
    for damage in engine.check():
        yield from damage_findings(damage)


def damage_findings(damage: Damage) -> Iterator[Finding]:
    """What an engine tells, but for what the audit of the events itself tells better: each with its event."""
    if damage.what == "head" or damage.seq is not None:
        return
    if damage.what == "index":
        detail = f"{damage.detail}; threads are looked at once it was made again"
        yield finding("index_differs", damage.detail.partition(":")[0], detail, repairable=True)
        return
    if damage.what == "places":
        yield finding(
            "turn_row_differs", PLACES, damage.detail, thread=damage.thread, turn=damage.turn, repairable=True
        )
        return
    place = "store" if damage.thread is None else "thread" if damage.turn is None else "turn"
    yield finding(
        damage.what, place, damage.detail, thread=damage.thread, turn=damage.turn, seq=damage.seq, repairable=False
    )


def is_of_row(event: Event) -> bool:
    """Whether a thread's row is made of this event too: not of one that has no place where it stands."""
    if event.kind == Damaged.kind or (event.turn is not None and event.kind in THREAD_KINDS):
        return False
    return event.kind != ThreadCreated.kind or event.seq == 1


def _unreadable(turn: str) -> TurnFacts:
    return TurnFacts(
        turn=turn,
        key=None,
        digest="",
        retry_of=None,
        phase=0,
        alive=True,
        seq_first=0,
        seq_last=0,
        view=None,
        readable=False,
    )


class ThreadAuditing:
    """One audit of one thread."""

    def __init__(self, engine: Engine, thread: str) -> None:
        self._engine = engine
        self._thread = thread
        self._dead: set[str] | None = None
        self._unread: dict[str, str] = {}
        """Turns whose rows cannot be read, and why: bounded by the findings."""
        self.fold = ThreadFold()
        self.events = 0

    def findings(self) -> Iterator[Finding]:
        """All of them, in order of seq, then what can be told at the head. Where the thread itself cannot be found any
        more, the last one says so."""
        try:
            yield from self._findings()
        except StoreDamaged as damage:
            detail = f"the rest of the thread cannot be looked at: {damage.detail}"
            yield self._own("unreadable", "rest of the thread", detail)

    def _findings(self) -> Iterator[Finding]:
        repairs = read_events(self._engine, self._thread, 0, kinds=REPAIRS)
        audit = ThreadAudit(
            ThreadFacts(
                thread=self._thread,
                aside=set_aside(repairs),
                turn=self._turn,
                ended=self._ended,
                refold=self._refold,
                late=self._is_late,
                floor=self._floor(),
            )
        )
        yield from self._read(audit)
        yield from self._at_head(audit)
        yield from self._rows(audit)

    def _read(self, audit: ThreadAudit) -> Iterator[Finding]:
        for event in read_events(self._engine, self._thread, audit.last):
            if event.seq > audit.last and is_of_row(event):
                self.fold = fold_thread(self.fold, event)
            self.events += 1
            yield from audit.event(event)

    def _at_head(self, audit: ThreadAudit) -> Iterator[Finding]:
        """What can be told where nothing moves; of a thread that never stands still, nothing."""
        for _ in range(STILL_TRIES_MAX):
            row = self._thread_row()
            if row is None:
                return
            self._dead = None
            # Of half a copy, turns have rows that are ahead of their events.
            ends = () if row.importing else audit.end(row.head, self._drafts(row))
            found = [*ends, *self._thread_findings(audit, row)]
            if self._thread_row() == row and not self._more(audit):
                yield from found
                return
            yield from self._read(audit)

    def _more(self, audit: ThreadAudit) -> bool:
        """Whether there are events behind the last one that was read."""
        return next(read_events(self._engine, self._thread, audit.last), None) is not None

    def _thread_row(self) -> ThreadRow | None:
        return next(iter(self._engine.threads(thread=self._thread, limit=1).rows), None)

    def _floor(self) -> int:
        try:
            return self._engine.tail(self._thread, after=0, rev=0, limit=0).floor
        except StoreDamaged:  # its events are told one by one
            return 0

    def _drafts(self, row: ThreadRow) -> list[tuple[str, str]]:
        try:
            tail = self._engine.tail(self._thread, after=row.head, rev=0, limit=1)
        except StoreDamaged:
            return []
        return list(dict.fromkeys((chunk.turn, chunk.draft) for chunk in tail.chunks))

    def _thread_findings(self, audit: ThreadAudit, row: ThreadRow) -> Iterator[Finding]:
        if row.head < audit.last:
            detail = f"the row says that the head is {row.head}, and events go on to {audit.last}"
            yield self._own("head", THREAD_ROW, detail, repairable=True)
        if row.importing:
            detail = "the copy of this thread has not come to its end; whoever makes it may be at work"
            yield self._own("unfinished_fork", THREAD_ROW, detail, repairable=True)
            return
        fields = sorted(self._differing(audit, row))
        if fields:
            detail = f"the row differs from the events in {', '.join(fields)}"
            yield self._own("thread_row_differs", THREAD_ROW, detail, repairable=True)

    def _differing(self, audit: ThreadAudit, row: ThreadRow) -> Iterator[str]:
        """Fields of the row that are not what the events make of them; where events are lost, the row knows better."""
        try:
            stored = decode_thread_fold(row.fold)
        except RecordDamaged:
            yield "fold"
            return
        if not audit.sure:
            return
        expected = thread_row(row.thread, self.fold)
        for name in ("updated_at", "pinned"):
            if getattr(row, name) != getattr(expected, name) and getattr(stored, name) == getattr(self.fold, name):
                yield name
        for name in ThreadFold.__struct_fields__:
            if getattr(stored, name) != getattr(self.fold, name):
                yield name

    # --- rows --------------------------------------------------------------------------------------------------

    def _rows(self, audit: ThreadAudit) -> Iterator[Finding]:
        """What rows tell that no event does: rows without events, and rows that cannot be read."""
        for turn, why in self._unread.items():
            yield self._own("unreadable", ROW, why, turn=turn)
        before: bytes | None = None
        while True:
            try:
                page = self._engine.turns(thread=self._thread, before=before, limit=PAGE_ROWS)
            except StoreDamaged as damage:
                yield self._own("unreadable", "turn rows", f"rows from here on cannot be listed: {damage.detail}")
                return
            for row in page.rows:
                if row.turn not in self._unread:
                    yield from self._row(audit, row)
            if page.next is None:
                return
            before = page.next

    def _row(self, audit: ThreadAudit, row: TurnRow) -> Iterator[Finding]:
        if row.seq_first <= audit.last and self._is_empty(row):
            yield self._own("orphan", ROW, "none of its events is in the store", turn=row.turn)
        elif row.phase is Phase.SETTLED:
            yield from snapshot_findings(self._engine, row)

    def _is_empty(self, row: TurnRow) -> bool:
        try:
            return next(read_events(self._engine, self._thread, 0, turn=row.turn), None) is None
        except StoreDamaged:
            return False

    # --- facts -------------------------------------------------------------------------------------------------

    def _turn(self, turn: str) -> TurnFacts | None:
        try:
            row = next(iter(self._engine.turns(thread=self._thread, turn=turn, limit=1).rows), None)
        except StoreDamaged as damage:
            self._unread[turn] = f"the store cannot read its row: {damage.detail}"
            return _unreadable(turn)
        if row is None:
            return None
        try:
            view: TurnView | None = decode_view(row.fold)
        except RecordDamaged:
            view = None
        return TurnFacts(
            turn=row.turn,
            key=row.key,
            digest=row.digest,
            retry_of=row.retry_of,
            phase=int(row.phase),
            alive=row.phase is Phase.SETTLED or self._alive(row.owner),
            seq_first=row.seq_first,
            seq_last=row.seq_last,
            view=view,
        )

    def _alive(self, owner: str | None) -> bool:
        if self._dead is None:
            self._dead = set(self._engine.dead_owners(limit=DEAD_OWNERS_MAX))
        return owner is not None and owner not in self._dead

    def _ended(self, turn: str, before: int) -> int | None:
        try:
            ends = read_events(self._engine, self._thread, 0, before=before, turn=turn, kinds=TERMINAL)
            return next((event.seq for event in ends if not isinstance(event.body, Unknown)), None)
        except StoreDamaged:
            return None

    def _refold(self, turn: str) -> TurnView | None:
        try:
            return whole_view(self._engine, self._thread, turn)
        except StoreDamaged:
            return None

    def _is_late(self, turn: str, seq: int) -> bool:
        if seq < 1:
            return False
        event = next(read_events(self._engine, self._thread, seq - 1, before=seq + 1), None)
        return event is not None and isinstance(event.body, ThreadLate) and event.body.of == turn

    def _own(
        self, kind: FindingKind, place: str, detail: str, *, turn: str | None = None, repairable: bool = False
    ) -> Finding:
        return finding(kind, place, detail, thread=self._thread, turn=turn, repairable=repairable)
