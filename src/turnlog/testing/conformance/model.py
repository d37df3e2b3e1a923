"""Promise 2 on whatever sequence of writes: the engine answers and reads like the reference."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from turnlog.engines.protocol import Engine, Phase, TurnRow, Write
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.harness import EngineHarness, MemoryHarness

THREADS = ("A", "B")
IMPORTED = ("C", "D")
TURNS = ("t1", "t2", "t3")
KINDS = ("append", "start", "settle", "draft", "claim", "new", "note", "snapshot", "snapshot", "rebuild")


class ModelConformance(Conformance):
    """See the module."""

    def test_it_answers_and_reads_like_the_reference(self) -> None:
        """Promises 2, 4 and 8: outcomes, tails, pages and lists equal those of the memory engine, for random batches
        of submissions, appends, claims, drafts, endings, snapshots, imports and rebuilt rows, valid and stale, from two
        engines, with deaths between."""

        # A function of its own: every subclass runs the test, and hypothesis wants one object a property.
        @settings(max_examples=50)
        @given(data=st.data())
        def check(data: st.DataObject) -> None:
            reference = MemoryHarness()
            with tempfile.TemporaryDirectory() as folder:
                subject = self.make_harness(Path(folder))
                try:
                    _Run(data, reference, subject).go(data.draw(st.integers(1, 12), label="batches"))
                finally:
                    subject.close()
                    reference.close()

        check()


@dataclass
class _Run:
    """Two stores that are given the same writes."""

    data: st.DataObject
    reference: EngineHarness
    subject: EngineHarness
    pairs: list[tuple[Engine, Engine]] = field(default_factory=list)
    count: int = 0

    def go(self, batches: int) -> None:
        self.pairs = [(self.reference.open(), self.subject.open()) for _ in range(2)]
        for _ in range(batches):
            self._step()
            _same_reads(*self.pairs[0])
        assert [list(engine.check()) for engine in self.pairs[0]] == [[], []]

    def _step(self) -> None:
        number = self.data.draw(st.integers(0, 1), label="engine")
        one, two = self.pairs[number]
        happening = self.data.draw(
            st.sampled_from(["commit"] * 8 + ["import"] * 2 + ["lease", "end", "time", "death"]), label="step"
        )
        if happening in ("commit", "import"):
            batch = self._batch(one, f"owner{number}") if happening == "commit" else self._pages(one)
            assert two.commit(batch) == one.commit(batch)
        elif happening == "time":
            seconds = self.data.draw(st.sampled_from([1.0, 20.0]), label="seconds")
            self.reference.clock.advance(seconds)
            self.subject.clock.advance(seconds)
        elif happening == "death":
            self.reference.kill(one)
            self.subject.kill(two)
            self.pairs[number] = (self.reference.open(), self.subject.open())
        else:
            for engine in (one, two):
                engine.lease(f"owner{number}", 30.0 if happening == "lease" else 0.0)

    def _batch(self, engine: Engine, owner: str) -> list[Write]:
        heads = {thread: engine.tail(thread, after=0, rev=0, limit=1).head for thread in THREADS}
        started = {row.thread for row in engine.turns(open_only=True, limit=99).rows if row.phase is Phase.STARTED}
        batch = []
        for _ in range(self.data.draw(st.integers(1, 5), label="writes")):
            thread = self.data.draw(st.sampled_from(THREADS), label="thread")
            base = heads[thread] + self.data.draw(st.sampled_from([0, 0, 0, 0, 1]), label="stale")
            write = self._write(engine, owner, thread, base, started)
            # As the writer does: each write goes on from where the one before it is expected to end.
            heads[thread] += len(write.events)
            batch.append(write)
        return batch

    def _pages(self, engine: Engine) -> list[Write]:
        """Pages of one thread that is brought in, perhaps of one that is there already."""
        thread = self.data.draw(st.sampled_from([*IMPORTED, *IMPORTED, *THREADS]), label="into")
        base = engine.tail(thread, after=0, rev=0, limit=1).head + self.data.draw(st.sampled_from([0, 0, 0, 1]))
        rows = [writes.imported_turn(thread, turn, key=f"k{turn}") for turn in TURNS]
        batch = []
        for _ in range(self.data.draw(st.integers(1, 2), label="pages")):
            turns = self.data.draw(st.lists(st.sampled_from([None, *TURNS]), min_size=1, max_size=4), label="turns")
            events = [
                writes.record(seq, turn, kind="item" if turn else "thread_item")
                for seq, turn in enumerate(turns, start=base + 1)
            ]
            importing = self.data.draw(st.sampled_from([True, True, False]), label="importing")
            at = self.data.draw(st.integers(-3, 3), label="at")
            # Without turns of its own it would be an ordinary append, which a thread that is whole takes.
            if any(turns):
                write = writes.ingest(thread, *events, base=base, turns=rows, importing=importing, updated_at=at)
                batch.append(write)
                base += len(events)
        return batch

    def _write(self, engine: Engine, owner: str, thread: str, base: int, started: set[str]) -> Write:
        self.count += 1
        turn = self.data.draw(st.sampled_from(TURNS), label="turn")
        found = engine.turns(thread=thread, turn=turn, limit=1).rows
        if not found:
            return self._new(owner, thread, turn, base)
        row = found[0]
        row = replace(row, fence=row.fence + self.data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]), label="fence"))
        kind = self.data.draw(st.sampled_from(KINDS), label="kind")
        if kind == "start" and row.phase is Phase.SUBMITTED and thread not in started:
            started.add(thread)
            return writes.start(row, base=base)
        if kind == "settle":
            return writes.settle(row, base=base, drop=tuple(_drafts(engine, row)))
        if kind == "draft":
            return self._draft(engine, row, base)
        if kind == "claim":
            expected = self.data.draw(st.sampled_from(["owner0", "owner1"]), label="expected")
            return writes.claim(row, owner, expected=expected)
        if kind == "new":
            return self._new(owner, thread, turn, base)
        if kind == "note":
            note = writes.note(thread, base=base, updated_at=self.data.draw(st.integers(-3, 3), label="at"))
            pinned = self.data.draw(st.booleans(), label="pinned")
            return replace(note, thread_row=replace(note.thread_row or writes.thread_row(thread), pinned=pinned))
        if kind == "snapshot":
            return self._snapshot(row)
        if kind == "rebuild":
            return writes.rebuild(thread, base=base, turn_row=replace(row, fold=b"rebuilt %d" % self.count))
        return writes.append(row, base=base, kinds=["item"] * self.data.draw(st.integers(1, 3), label="events"))

    def _new(self, owner: str, thread: str, turn: str, base: int) -> Write:
        return writes.submission(
            thread,
            turn,
            base=base,
            owner=owner,
            key=self.data.draw(st.sampled_from([None, "k1", "k2"]), label="key"),
            digest=self.data.draw(st.sampled_from(["d1", "d1", "d2"]), label="digest"),
            retry_of=self.data.draw(st.sampled_from([None, None, "t0"]), label="retry"),
            updated_at=self.data.draw(st.integers(-3, 3), label="at"),
        )

    def _snapshot(self, row: TurnRow) -> Write:
        first = self.data.draw(st.sampled_from([0, 0, 1, 2]), label="first")
        pages = [b"%d" % self.count] * self.data.draw(st.integers(1, 2), label="pages")
        last = self.data.draw(st.booleans(), label="last")
        return writes.snapshot(row.thread, row.turn, *pages, seq=1, first=first, last=last, keep=2)

    def _draft(self, engine: Engine, row: TurnRow, base: int) -> Write:
        drafts = _drafts(engine, row)
        if len(drafts) > 0 and self.data.draw(st.booleans(), label="go on"):
            name, rev = sorted(drafts.items())[0]
            return writes.draft(row, name, b"more", after=base, offset=1, rev=rev)
        if len(drafts) > 0 and self.data.draw(st.booleans(), label="drop"):
            return writes.append(row, base=base, drop=tuple(drafts))
        return writes.draft(row, f"d{self.count}", b"text", after=base)


def _drafts(engine: Engine, row: TurnRow) -> dict[str, int]:
    chunks = engine.tail(row.thread, after=10**6, rev=0, limit=1).chunks
    return {chunk.draft: chunk.rev for chunk in chunks if chunk.turn == row.turn}


def _same_reads(one: Engine, two: Engine) -> None:
    for thread in (*THREADS, *IMPORTED):
        assert one.threads(thread=thread, limit=1).rows == two.threads(thread=thread, limit=1).rows
        for named, page in ((named, page) for named in TURNS for page in range(3)):
            assert one.snapshot(thread, named, page=page) == two.snapshot(thread, named, page=page)
        for after, rev, limit in ((0, 0, 99), (1, 1, 2), (3, 0, 99)):
            tails = [engine.tail(thread, after=after, rev=rev, limit=limit) for engine in (one, two)]
            assert replace(tails[0], epoch="") == replace(tails[1], epoch="")
        for turn in (None, *TURNS):
            pages = [
                engine.read(thread, after=1, turn=turn, kinds=kinds, reverse=reverse, limit=3, bytes_max=5)
                for kinds in (None, ("item", "completed"))
                for reverse in (False, True)
                for engine in (one, two)
            ]
            assert [page.rows for page in pages[::2]] == [page.rows for page in pages[1::2]]
            assert [page.next is None for page in pages[::2]] == [page.next is None for page in pages[1::2]]
        for open_only, latest_each in ((False, False), (True, False), (False, True), (True, True)):
            for where in {thread, None} if open_only or latest_each else {thread}:
                pages_of_turns = [
                    engine.turns(thread=where, open_only=open_only, latest_each=latest_each, limit=2)
                    for engine in (one, two)
                ]
                assert pages_of_turns[0].rows == pages_of_turns[1].rows
    assert one.threads(limit=1).rows == two.threads(limit=1).rows
    assert one.threads(limit=9).rows == two.threads(limit=9).rows
    assert sorted(one.dead_owners(limit=9)) == sorted(two.dead_owners(limit=9))
    assert one.lease_end() == two.lease_end()
