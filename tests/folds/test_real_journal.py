"""The folds over what the real journal writes: no simulator knows its own mistakes."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from turnlog.events.kinds import Draft
from turnlog.folds.history import history
from turnlog.folds.timeline import Timeline
from turnlog.folds.transcript import Transcript

NAMES = st.sampled_from(["c0", "c1", "A", "B", "m1", ""])
TARGETS = st.sampled_from([None, None, "m1", "A", "c0"])
KINDS = st.sampled_from(["text", "reasoning", "args", "output"])
ACTIONS = st.one_of(
    st.tuples(st.just("draft"), st.sampled_from(["x", "é", "\ud83d"]), TARGETS, KINDS),
    st.tuples(st.just("message"), NAMES),
    st.tuples(st.just("call"), NAMES),
    st.tuples(st.just("output"), NAMES),
    st.tuples(
        st.just("step"),
        NAMES.filter(bool),
        st.sampled_from([None, "c1", "A", "B"]),
        st.sampled_from(["running", "succeeded", "failed", None]),
    ),
    st.tuples(st.just("drop")),
)


async def act(turn: Any, action: tuple[Any, ...]) -> None:
    """Carry one action out. The table of states may refuse it: that is no matter of the folds."""
    match action:
        case ("draft", text, target, kind):
            turn.draft(text, target=target, kind=kind)
        case ("message", id_):
            content = [{"type": "output_text", "text": "final"}]
            await turn.item({"type": "message", "id": id_, "role": "assistant", "content": content})
        case ("call", call_id):
            await turn.item({"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"})
        case ("output", call_id):
            await turn.item({"type": "function_call_output", "call_id": call_id, "output": "o"})
        case ("step", id_, parent, status):
            await turn.step(id_, kind="subagent", parent=parent, status=status)
        case _:
            await turn.drop_attempt("retry")


async def write(log: turnlog.Log, actions: list[tuple[Any, ...]], *, well: bool) -> str:
    turn = await log.submit("t", "question")
    await turn.start(agent="a")
    for action in actions:
        await act(turn, action)
        reader = Timeline(turn.id)
        for event in log.events("t", turn=turn.id):
            reader.event(event)
        # Only what is awaited is settled: a draft that is flushed between two reads makes them two positions.
        if action[0] != "draft":
            for draft in log.drafts("t"):
                reader.draft(draft)
            assert reader.view() == log.timeline("t", turn.id)
    await (turn.complete() if well else turn.interrupt("failed"))
    for late in (("step", "late", None, "running"), ("message", "late")):
        await act(turn, late)
    return turn.id


async def followed(log: turnlog.Log, turn: str) -> tuple[Timeline, Transcript]:
    """A timeline and a transcript fed by following the thread from its beginning to its head."""
    timeline, transcript, head = Timeline(turn), Transcript(), log.thread("t").head
    async for frame in log.follow("t"):
        if isinstance(frame, Draft):
            timeline.draft(frame)
            transcript.draft(frame)
        else:
            timeline.event(frame)
            transcript.event(frame)
            if frame.seq >= head:
                break
    return timeline, transcript


async def compare(actions: list[tuple[Any, ...]], *, well: bool) -> None:
    async with turnlog.open("memory://") as log:
        turn = await write(log, actions, well=well)
        timeline, transcript = await followed(log, turn)
        assert timeline.view() == log.timeline("t", turn)
        assert timeline.view().turn == log.turn_view("t", turn).view
        assert transcript.view().messages == tuple(log.transcript("t").messages)
        assert history(log.events("t")) == log.history("t")


@settings(max_examples=40)
@given(st.lists(ACTIONS, max_size=15), st.booleans())
def test_followed_equals_read(actions: list[tuple[Any, ...]], well: bool) -> None:
    """What a follower has folded, what a reader is given and what the stored row says are equal (P9, C22, C23)."""
    asyncio.run(compare(actions, well=well))
