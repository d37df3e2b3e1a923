"""What is seen live, after a reload and after a restart is the same, whatever the clocks say."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random
from typing import Any

import pytest

from tests.journal.seen import Seen
from tests.journal.stores import Store, call, drafts, events, kinds, message, output, reasoning, run, until
from turnlog.folds.entries import TimelineView
from turnlog.folds.timeline import Timeline
from turnlog.folds.transcript import Transcript
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.testing.clock import START_US, ManualClock
from turnlog.testing.traps import Place


class Screen:
    """Folds fed by a follower alone."""

    def __init__(self, turn: str) -> None:
        self.seen = Seen()
        self._turn = turn

    async def watch(self, log: Log) -> None:
        async with aclosing(log.follow("t")) as frames:
            async for frame in frames:
                self.seen.take(frame)

    def views(self) -> tuple[TimelineView, Any]:
        timeline, transcript = Timeline(self._turn), Transcript()
        for frame in self.seen.frames:
            for fold in (timeline, transcript):
                fold.draft(frame) if hasattr(frame, "offset") else fold.event(frame)  # type: ignore[arg-type]
        view = transcript.view()
        return timeline.view(), (view.messages, view.notices)


def reloaded(log: Log, turn: str) -> tuple[TimelineView, Any]:
    page = log.transcript("t")
    return log.timeline("t", turn), (page.messages, page.notices)


class Speaker:
    """Writes something random, as an agent without ids, with ids, with steps and three levels of sub-agents would."""

    def __init__(self, turn: Turn, random: Random) -> None:
        self._turn = turn
        self._random = random
        self._calls: list[str] = []
        self._count = 0

    async def act(self) -> None:
        random = self._random
        await random.choice([self._draft, self._draft, self._draft, self._item, self._call, self._step, self._drop])()

    async def _draft(self) -> None:
        kind = self._random.choice(["text", "text", "reasoning", "args", "output"])
        target = self._random.choice([None, None, "m1", "m2", "s1", "s2", *self._calls[-2:]])
        text = self._random.choice(["word ", "😀", "\ud83d", "\ude00", "\x00", "line\n"])
        await self._turn.draft(text, target=target, kind=kind, part=self._random.randrange(2))  # type: ignore[arg-type]

    async def _item(self) -> None:
        id_ = self._random.choice([None, "m1", "m2"])
        await self._turn.item(self._random.choice([message, reasoning])("final words", id=id_))

    async def _call(self) -> None:
        if self._calls and self._random.random() < 0.5:
            await self._turn.item(output(self._calls.pop(0)))
            return
        self._count += 1
        self._calls.append(f"c{self._count}")
        await self._turn.item(call(self._calls[-1]))

    async def _step(self) -> None:
        id_ = self._random.choice(["s1", "s2", "s3"])
        await self._turn.step(
            id_,
            kind=self._random.choice(["tool", "subagent", "note", None]),
            parent={"s1": None, "s2": "s1", "s3": "s2"}[id_],
            status=self._random.choice(["running", "succeeded", "failed", None]),
            title=self._random.choice([None, "a title"]),
        )

    async def _drop(self) -> None:
        if self._random.random() < 0.2:
            await self._turn.drop_attempt("again")


@pytest.mark.parametrize("end", ["complete", "interrupt", "die"])
@pytest.mark.parametrize("seed", range(4))
def test_live_equals_reloaded_at_every_position(store: Store, log: Log, seed: int, end: str) -> None:
    """P9, C22, C23: after each of many random writes what a follower built equals what is reloaded, here and there."""
    other = store.open()

    async def main() -> None:
        turn = await log.submit("t", "question")
        await turn.start()
        screen = Screen(turn.id)
        task = asyncio.create_task(screen.watch(other if end == "die" else log))
        speaker = Speaker(turn, Random(seed))

        async def compare() -> None:
            head, open_ = events(log)[-1].seq, drafts(log)
            await until(lambda: screen.seen.seqs[-1:] == [head] and screen.seen.drafts == open_)
            assert screen.views() == reloaded(log, turn.id) == reloaded(other, turn.id)

        for _ in range(40):
            await speaker.act()
            await compare()
        if end == "die":
            await asyncio.to_thread(store.kill, log)
            await asyncio.to_thread(other.recover)
            head = events(other)[-1].seq
            await until(lambda: screen.seen.seqs[-1] == head)
            assert screen.views() == reloaded(other, turn.id)
        else:
            await (turn.complete() if end == "complete" else turn.interrupt("failed"))
            await compare()
        assert drafts(other) == {} == screen.seen.drafts
        assert other.turn_view("t", turn.id).illegal == 0
        assert not {"running", "waiting"} & {entry.status for entry in other.timeline("t", turn.id).entries}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await after_restart(turn.id)

    async def after_restart(turn: str) -> None:
        again = store.open()
        assert reloaded(again, turn) == reloaded(other, turn)
        assert other.turn_view("t", turn).view == again.timeline("t", turn).turn

    run(main())


def test_text_and_tools_keep_their_order(log: Log) -> None:
    """C22: text, thinking, tool, text, tool, text stay six entries in that order, live and after the end."""

    async def main() -> None:
        turn = await log.submit("t", "question")
        await turn.start()
        await turn.draft("one")
        await turn.draft("hm", kind="reasoning")
        await turn.item(call("c1"))
        await turn.item(output("c1"))
        await turn.draft("two")
        await turn.item(call("c2"))
        await turn.draft("three")
        live = [(entry.kind, entry.text) for entry in log.timeline("t", turn.id).entries]
        await turn.complete()
        settled = [(entry.kind, entry.text) for entry in log.timeline("t", turn.id).entries]
        assert live == settled
        assert [kind for kind, _ in settled] == ["message", "reasoning", "tool", "message", "tool", "message"]

    run(main())


def test_a_transcript_is_of_one_moment(store: Store, log: Log) -> None:
    """P2, P9: a transcript read while a draft becomes an item shows the text, as draft or as item, never neither."""
    turn = log.submit("t", "question").result()
    turn.start().result()
    turn.draft("shown text").result()
    other = store.open()

    # Between the reading of the events and that of the drafts, the owner writes the final item.
    def finish(_: Place) -> None:
        turn.item(message("shown text")).result()

    store.faults(other).traps.set("tail.before", finish)
    page = other.transcript("t")
    assert [found.text for found in page.messages] == ["question", "shown text"]
    assert page.at == f"{log.epoch}.{events(log)[-1].seq}"


def test_a_transcript_is_read_in_pages(log: Log) -> None:
    """P11: pages of a transcript, from the newest back, hold every message once."""
    for n in range(7):
        with log.turn("t", f"q{n}") as turn:
            turn.item(message(f"a{n}"))
        log.append_message("t", message(f"between {n}")).result()
    pages, before = [], None
    while True:
        page = log.transcript("t", limit=3, before=before)
        pages.append([found.text for found in page.messages])
        before = page.next
        if before is None:
            break
    whole = [text for page in reversed(pages) for text in page]
    assert whole == [text for n in range(7) for text in (f"q{n}", f"a{n}", f"between {n}")]
    assert len(pages) == 3


@pytest.mark.parametrize("jump_us", [0, -7_200_000_000, 31_536_000_000_000])
def test_the_clock_orders_nothing(store: Store, jump_us: int) -> None:
    """C09, C25: on a clock that stands still or jumps by hours, order is that of appending; what ended stays so."""
    clock = ManualClock()
    log = store.open(clock=clock)
    turn = log.submit("t", "question").result()
    turn.start().result()
    for n in range(300):
        turn.item({"n": n})
    clock.set(now_us=START_US + jump_us)
    for n in range(300, 600):
        turn.item({"n": n})
    turn.complete().result()
    clock.set(now_us=START_US - jump_us)
    other = store.open(clock=clock)
    assert other.recovered == []
    assert [event.seq for event in events(other)] == list(range(1, len(kinds(other)) + 1))
    assert [event.body.raw for event in events(other) if event.kind == "item"] == [  # type: ignore[union-attr]
        b'{"n":%d}' % n for n in range(600)
    ]
    assert other.turn_view("t", turn.id).state == "completed"
    assert not other.submit("t", "next").result().duplicate
