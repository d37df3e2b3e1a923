"""Several processes on one store, random operations, deaths, stops and failures, beside a model too small to be wrong.

The model knows what was promised to whom: which submissions were accepted, what was acknowledged, what was shown. It
shares no code with the journal or the folds: it reads stored events and looks for what it was promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.journal.stores import Store, unavailable
from turnlog.errors import Refused, StoreClosed, StoreError
from turnlog.events.kinds import Requested
from turnlog.journal.jobs import WhenBusy
from turnlog.journal.log import Log
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn
from turnlog.limits import LEASE_S, QUEUE_TURNS_MAX

THREADS = ["a", "b"]
KEYS = ["k1", "k2", "k3"]
WHEN_BUSY: list[WhenBusy] = ["refuse", "queue", "replace"]
LEGAL: dict[str | None, dict[str, str]] = {
    None: {"submitted": "submitted"},
    "submitted": {"worker_started": "started", "interrupted": "settled", "requested": "submitted"},
    "started": {
        "assistant_started": "speaking",
        "item": "started",
        "step": "started",
        "attempt_dropped": "started",
        "requested": "started",
        "completed": "settled",
        "interrupted": "settled",
    },
    "speaking": {
        "item": "speaking",
        "step": "speaking",
        "attempt_dropped": "speaking",
        "requested": "speaking",
        "completed": "settled",
        "interrupted": "settled",
    },
    "settled": {},
}
"""The states of a turn, written down a second time."""


@dataclass
class Known:
    """One turn, as those outside know it."""

    thread: str
    id: str
    handle: Turn
    log: Log
    items: list[str] = field(default_factory=list)
    """Marks of items whose receipt said durable, in order."""
    shown: dict[str, str] = field(default_factory=dict)
    """The text with which each draft was last readable."""
    written: set[str] = field(default_factory=set)
    """All text that was ever given to the journal, acknowledged or not: nothing else may be in the log (P3)."""
    end: str | None = None
    """The terminal that was acknowledged."""


class Machine(RuleBasedStateMachine):
    """See the module."""

    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = self.stack.enter_context(TemporaryDirectory())
        self.store = self.stack.enter_context(Store(self.kind, Path(folder)))
        self.reader = self.store.engine()
        self.stack.callback(self.reader.close)
        self.logs: list[Log] = []
        self.turns: dict[tuple[str, str], Known] = {}
        self.accepted: dict[tuple[str, str], tuple[str, str]] = {}
        """(thread, key) -> (turn id, content) of submissions that were acknowledged."""
        self.waits: list[tuple[Known, Receipt[None]]] = []
        """Turns whose time somebody waits for."""
        self.replacing: set[str] = set()
        """Turns that were submitted, or tried, to replace others."""
        self.count = 0
        self.history: dict[str, list[tuple[int, str, bytes]]] = {}

    @initialize()
    def open_two(self) -> None:
        self.logs = [self.store.open(), self.store.open()]

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            self.stack.close()

    def mark(self) -> str:
        self.count += 1
        return f"<{self.count}>"

    def attempt(self, receipt: Receipt[Any]) -> Any:
        """The value; None when the store failed or the state did not allow it. Anything else is a defect."""
        try:
            return receipt.result(30)
        except (Refused, StoreError):
            return None

    # --- what processes do ---------------------------------------------------------------------------------------

    @rule(
        n=st.integers(0, 2),
        thread=st.sampled_from(THREADS),
        key=st.sampled_from([None, *KEYS]),
        start=st.booleans(),
        when_busy=st.sampled_from(WHEN_BUSY),
    )
    def submit(self, n: int, thread: str, key: str | None, start: bool, when_busy: WhenBusy) -> None:
        log = self.logs[n % len(self.logs)]
        content = key or self.mark()
        name = self.mark() if when_busy == "replace" else None
        if name is not None:
            self.replacing.add(name)
        turn = self.attempt(log.submit(thread, content, key=key, turn=name, when_busy=when_busy))
        if turn is None:
            return
        if turn.id == name and not turn.duplicate:
            self.check_replaced(thread, turn.id)
        if key is not None:
            before = self.accepted.setdefault((thread, key), (turn.id, content))
            assert before == (turn.id, content), "one key, two turns"
        if not turn.duplicate:
            assert (thread, turn.id) not in self.turns, "one turn was given to two"
            self.turns[thread, turn.id] = Known(thread, turn.id, turn, log)
            if start:
                self.attempt(turn.start())

    def some(self, pick: int) -> Known | None:
        """A turn that somebody has in hand, in a process that lives: an open one if there is one."""
        held = [known for known in self.turns.values() if known.log in self.logs]
        held = [known for known in held if known.end is None] or held
        return held[pick % len(held)] if held else None

    @rule(pick=st.integers(0, 9))
    def wait(self, pick: int) -> None:
        if (known := self.some(pick)) is not None:
            self.waits.append((known, known.handle.ready()))

    @rule(pick=st.integers(0, 9))
    def start(self, pick: int) -> None:
        if (known := self.some(pick)) is not None:
            self.attempt(known.handle.start())

    @rule(
        pick=st.integers(0, 9),
        aim=st.sampled_from([None, "m1", "m2", "c1", "s1"]),
        kind=st.sampled_from(["text", "text", "reasoning", "args", "output"]),
        wait=st.booleans(),
    )
    def draft(self, pick: int, aim: str | None, kind: Any, wait: bool) -> None:
        if (known := self.some(pick)) is not None:
            text = self.mark()
            known.written.add(text)
            receipt = known.handle.draft(text, target=aim, kind=kind)
            if wait:
                self.attempt(receipt)

    @rule(
        pick=st.integers(0, 9),
        what=st.sampled_from(["message", "reasoning", "function_call", "function_call_output"]),
        id_=st.sampled_from([None, "m1"]),
    )
    def item(self, pick: int, what: str, id_: str | None) -> None:
        if (known := self.some(pick)) is not None:
            mark = self.mark()
            raw: dict[str, Any] = {"mark": mark, "type": what}
            if what == "message":
                raw |= {"role": "assistant", "content": []}
            if what.startswith("function"):
                raw["call_id"] = "c1"
            elif id_ is not None:
                raw["id"] = id_
            if self.attempt(known.handle.item(raw)) is not None:
                known.items.append(mark)

    @rule(pick=st.integers(0, 9), status=st.sampled_from(["running", "succeeded", None]))
    def step(self, pick: int, status: Any) -> None:
        if (known := self.some(pick)) is not None:
            self.attempt(known.handle.step("s1", kind="tool", status=status))

    @rule(pick=st.integers(0, 9))
    def drop_attempt(self, pick: int) -> None:
        if (known := self.some(pick)) is not None:
            self.attempt(known.handle.drop_attempt("again"))

    @rule(pick=st.integers(0, 9), well=st.booleans())
    def end(self, pick: int, well: bool) -> None:
        if (known := self.some(pick)) is not None:
            receipt = known.handle.complete() if well else known.handle.interrupt("failed")
            if self.attempt(receipt) is not None:
                assert known.end is None, "two ends were acknowledged"
                known.end = "completed" if well else "interrupted"

    @rule(n=st.integers(0, 2), pick=st.integers(0, 9))
    def request(self, n: int, pick: int) -> None:
        if (known := self.some(pick)) is not None:
            self.attempt(self.logs[n % len(self.logs)].request(known.thread, known.id))

    @rule(n=st.integers(0, 2), pick=st.integers(0, 9), when_busy=st.sampled_from(["refuse", "queue"]))
    def retry(self, n: int, pick: int, when_busy: WhenBusy) -> None:
        log = self.logs[n % len(self.logs)]
        known = list(self.turns.values())[pick % len(self.turns)] if self.turns else None
        if known is None:
            return
        try:
            child = log.retry(known.thread, known.id, when_busy=when_busy).result(30)
        except (Refused, StoreError):
            return
        if not child.duplicate:
            self.turns[known.thread, child.id] = Known(known.thread, child.id, child, log)

    # --- what happens to them ------------------------------------------------------------------------------------

    @rule(n=st.integers(0, 2))
    def kill(self, n: int) -> None:
        log = self.logs.pop(n % len(self.logs))
        self.store.kill(log)
        if len(self.logs) < 2:
            self.logs.append(self.store.open())

    @rule(n=st.integers(0, 2))
    def close(self, n: int) -> None:
        log = self.logs.pop(n % len(self.logs))
        self.store.faults(log).heal()
        log.close()
        with pytest.raises(StoreClosed):
            log.threads()
        if len(self.logs) < 2:
            self.logs.append(self.store.open())

    @rule(n=st.integers(0, 2))
    def recover(self, n: int) -> None:
        try:
            self.logs[n % len(self.logs)].recover()
        except StoreError:
            return

    @rule(n=st.integers(0, 2))
    def stop_one_too_long(self, n: int) -> None:
        """One process stands still for longer than its lease, and another one recovers meanwhile."""
        log = self.logs[n % len(self.logs)]
        others = [other for other in self.logs if other is not log]
        self.store.faults(log).heal()
        with self.store.paused(log):
            self.store.clock.advance(LEASE_S + 1)
            try:
                others[0].recover()
            except StoreError:
                return

    @rule(n=st.integers(0, 2), verb=st.sampled_from(["commit.before", "commit.after"]), k=st.integers(1, 3))
    def fail(self, n: int, verb: str, k: int) -> None:
        self.store.faults(self.logs[n % len(self.logs)]).fail(verb, unavailable, k=k)

    @rule(n=st.integers(0, 2), verb=st.sampled_from(["tail.before", "read.before", "turns.before", "lease.before"]))
    def fail_in_the_writer(self, n: int, verb: str) -> None:
        """A verb fails once, for whoever calls it; what this test reads itself is tried again."""
        log = self.logs[n % len(self.logs)]
        self.store.faults(log).fail(verb, unavailable)
        self.attempt(log.append_message("beat", {}))

    @rule()
    def time_passes(self) -> None:
        self.store.clock.advance(2)

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def what_is_shown_stays(self) -> None:
        """What a reader could see of a draft is promised: it only grows, and all of it is in the log at the end."""
        for thread in THREADS:
            now: dict[tuple[str, str], str] = {}
            for chunk in self.reader.tail(thread, after=10**6, rev=0, limit=0).chunks:
                name = (chunk.turn, chunk.draft)
                assert chunk.offset == len(now.get(name, "")), "a chunk is missing, or there twice"
                now[name] = now.get(name, "") + chunk.text.decode()
            for (turn, draft), text in now.items():
                known = self.turns.get((thread, turn))
                if known is not None:
                    assert text.startswith(known.shown.get(draft, "")), "shown text has changed"
                    known.shown[draft] = text

    @invariant()
    def nothing_is_rewritten(self) -> None:
        """Stored events stay what they were, seqs have no gap, and turns go through legal states only."""
        for thread in THREADS:
            stored = self.reader.read(thread, limit=10**6, bytes_max=10**9).rows
            now, before = [(record.seq, record.kind, record.body) for record in stored], self.history.get(thread, [])
            assert now[: len(before)] == before, "history was rewritten"
            assert [seq for seq, _, _ in now] == list(range(1, len(now) + 1))
            self.history[thread] = now
            self.check_states(thread)

    def states(self, thread: str) -> Iterator[tuple[str, str, dict[str, str]]]:
        """(kind, turn, the states of all turns after it, in the order of submission) of each stored event of a turn."""
        states: dict[str, str] = {}
        for record in self.reader.read(thread, limit=10**6, bytes_max=10**9).rows:
            if record.turn is not None:
                state = LEGAL[states.get(record.turn)].get(record.kind)
                assert state is not None, f"{record.kind} in {states.get(record.turn)}"
                states[record.turn] = state
                yield record.kind, record.turn, states

    def check_states(self, thread: str) -> None:
        """Turns start in their order, one after the other, and whose time was told had nobody before it."""
        states: dict[str, str] = {}
        for kind, turn, states in self.states(thread):  # the last ones are looked at below
            if kind == "worker_started":
                assert not open_before(turn, states), "it started before its time"
        assert sum(state != "settled" for state in states.values()) <= QUEUE_TURNS_MAX + 1, (
            "one more replaces the others"
        )
        for known, ready in self.waits:
            if known.thread == thread and ready.done() and self.attempt_is_well(ready):
                assert not open_before(known.id, states), "it was told its time before it came"

    def attempt_is_well(self, receipt: Receipt[Any]) -> bool:
        """Whether a receipt that is done tells of no refusal or failure."""
        try:
            receipt.result()
        except (Refused, StoreError):
            return False
        return True

    def check_replaced(self, thread: str, new: str) -> None:
        """Every turn that was open before a replacing one was asked to end by the time that one was acknowledged."""
        asked = set()
        for kind, turn, states in self.states(thread):  # noqa: B007  # as above
            asked |= {turn} if kind == "requested" else set()
        assert set(open_before(new, states)) <= asked, "it replaced not all"

    def finish(self) -> None:
        """All processes die, one more opens the store: everything promised is there."""
        for log in self.logs:
            self.store.faults(log).heal()
            self.store.kill(log)
        last = self.store.open()
        stored = {row.thread: list(last.events(row.thread)) for row in last.threads().rows}
        assert last.recover() == []
        for (thread, key), (turn, content) in self.accepted.items():
            again = last.submit(thread, content, key=key).result(30)
            assert (again.id, again.duplicate) == (turn, True), "an accepted submission is gone"
        for known in self.turns.values():
            own = [event for event in stored[known.thread] if event.turn == known.id]
            self.check_turn(known, own, stored[known.thread])
            view = last.turn_view(known.thread, known.id)
            assert (view.state, view.illegal) == (own[-1].kind, 0)
            assert view.events == len(own)
            for event in own:
                if isinstance(event.body, Requested) and event.body.by is not None:
                    assert event.body.by.removeprefix("replaced by ") in self.replacing, "replaced unasked"
        assert all(last.drafts(thread) == [] for thread in stored)
        assert all(ready.done() for _, ready in self.waits), "somebody waits for ever"

    def check_turn(self, known: Known, own: list[Any], thread: list[Any]) -> None:
        ends = [event.kind for event in own if event.kind in ("completed", "interrupted")]
        assert len(ends) == 1, f"{len(ends)} ends"
        assert known.end in (None, ends[0]), "an acknowledged end is not the one stored"
        late = [event for event in thread if event.kind == "thread_late" and event.body.of == known.id]
        raws = [event.body.raw for event in own if event.kind == "item"]
        marks = [json.loads(raw)["mark"] for raw in raws if b'"mark"' in raw]
        everywhere = marks + [mark for event in late for mark in known.items if mark.encode() in event.body.raw]
        assert [mark for mark in everywhere if mark in known.items] == known.items, "acknowledged items"
        assert len(set(marks)) == len(marks), "an item is there twice"
        self.check_drafts(known, own)

    def check_drafts(self, known: Known, own: list[Any]) -> None:
        """Each shown draft was closed by one event, which carries its text or is the agent's own final item."""
        closing: dict[str, list[Any]] = {}
        for event in own:
            for closed in getattr(event.body, "closes", ()):
                closing.setdefault(closed.draft, []).append(event)
        for draft, text in known.shown.items():
            assert len(closing.get(draft, [])) == 1, f"{draft} was closed {len(closing.get(draft, []))} times"
            (event,) = closing[draft]
            final = event.kind == "item" and event.body.synthesized is None
            assert final or text.encode() in event.data, f"text of {draft} that was shown is gone"
        said = "".join(event.data.decode() for event in own if getattr(event.body, "synthesized", None))
        for mark in [f"<{part.partition('>')[0]}>" for part in said.split("<")[1:]]:
            assert mark in known.written, "invented text"


def open_before(turn: str, states: dict[str, str]) -> list[str]:
    """The open turns that were submitted before one."""
    return [it for it in list(states)[: list(states).index(turn)] if states[it] != "settled"]


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=30)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_promises_hold_whatever_happens(kind: str) -> None:
    """P1-P8: in every run of random work, deaths, stops and failures, all that was promised is kept, once."""
    machine = type("Machine", (Machine,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=60 if kind == "memory" else 15))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_promises_hold_for_long(kind: str) -> None:
    """P1-P8: the same over thousands of longer runs."""
    machine = type("Machine", (Machine,), {"kind": kind})
    longer = settings(SETTINGS, max_examples=3_000 if kind == "memory" else 500, stateful_step_count=60)
    run_state_machine_as_test(machine, settings=longer)
