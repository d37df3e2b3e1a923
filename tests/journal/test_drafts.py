"""Drafts: what they are named, and which event closes which."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journal.stores import call, drafts, events, items, kinds, message, output, reasoning, texts
from turnlog.errors import AlreadySettled, IllegalTransition, InvalidInput, TooLarge
from turnlog.events.kinds import AttemptDropped, Closed, Completed, Interrupted, Item, Step
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import DETAIL_BYTES_MAX, DRAFT_BYTES_MAX


@pytest.fixture
def turn(log: Log) -> Turn:
    started = log.submit("t", "question").result()
    started.start().result()
    return started


def closes(log: Log) -> list[list[str]]:
    """The ids that each event of the turn closes, events that close nothing left out."""
    found = [[closed.draft for closed in getattr(event.body, "closes", ())] for event in events(log)]
    return [ids for ids in found if ids]


def steps(log: Log) -> list[Step]:
    return [event.body for event in events(log) if isinstance(event.body, Step)]


def test_the_first_draft_begins_the_answer(log: Log, turn: Turn) -> None:
    """C11: `assistant_started` is written with the first chunk, and the turn is in that state then."""
    turn.draft("He").result()
    assert kinds(log) == ["thread_created", "submitted", "worker_started", "assistant_started"]
    assert (turn.state, drafts(log)) == ("assistant_started", {"0/~0/text/0": "He"})
    turn.draft("llo").result()
    assert kinds(log).count("assistant_started") == 1
    assert drafts(log) == {"0/~0/text/0": "Hello"}


def test_the_first_answer_begins_the_answer(log: Log, turn: Turn) -> None:
    """`assistant_started` goes with the first assistant message if there was no draft; other items begin nothing."""
    turn.item(call("c1")).result()
    assert turn.state == "worker_started"
    turn.item(message("done")).result()
    turn.item(message("again")).result()
    assert kinds(log)[2:] == ["worker_started", "item", "assistant_started", "item", "item"]


@pytest.mark.parametrize("end", ["complete", "interrupt"])
def test_the_answer_begins_whatever_is_closed_before_it(log: Log, turn: Turn, end: str) -> None:
    """Unwritten thinking and text that go with the end begin the answer as well: there is no answer without it."""
    turn.draft("hmm", kind="reasoning")
    turn.draft("yes")
    (turn.complete() if end == "complete" else turn.interrupt("failed")).result()
    assert kinds(log)[3:] == ["step", "assistant_started", "item", "completed" if end == "complete" else "interrupted"]
    assert log.turn_view("t", turn.id).illegal == 0


def test_an_item_of_its_id_closes_a_named_draft(log: Log, turn: Turn) -> None:
    """DESIGN 3: a final item closes the drafts that its id names, all parts of its kind, and no others."""
    turn.draft("Hel", target="m1").result()
    turn.draft("lo", target="m1", part=1).result()
    turn.draft("why", target="r1", kind="reasoning").result()
    turn.draft("next", target="m2").result()
    turn.item(message("Hello", id="m1")).result()
    assert closes(log) == [["0/m1/text/0", "0/m1/text/1"]]
    assert set(drafts(log)) == {"0/r1/reasoning/0", "0/m2/text/0"}
    turn.item(reasoning("why", id="r1")).result()
    turn.item(message("next", id="m2")).result()
    assert drafts(log) == {}


def test_a_call_closes_its_arguments_by_call_id_or_item_id(log: Log, turn: Turn) -> None:
    """DESIGN 3: a call closes the arguments that target its call id or its item id, an output the call's output."""
    turn.draft('{"a"', target="c1", kind="args").result()
    turn.draft('{"b"', target="fc2", kind="args").result()
    turn.item(call("c1", '{"a":1}')).result()
    turn.item(call("c2", '{"b":1}', id="fc2")).result()
    turn.draft("line 1", target="c1", kind="output").result()
    turn.item(output("c2")).result()
    assert set(drafts(log)) == {"0/c1/output/0"}
    turn.item(output("c1")).result()
    assert closes(log) == [["0/c1/args/0"], ["0/fc2/args/0"], ["0/c1/output/0"]]


def test_without_ids_the_oldest_of_its_kind_is_closed(log: Log, turn: Turn) -> None:
    """DESIGN 3: without ids a message closes the oldest open anonymous text, a reasoning item the oldest reasoning."""
    turn.draft("think", kind="reasoning").result()
    turn.draft("one").result()
    turn.draft("think again", kind="reasoning").result()
    turn.draft("two").result()
    assert list(drafts(log)) == ["0/~0/reasoning/0", "0/~1/text/0", "0/~2/reasoning/0", "0/~3/text/0"]
    for raw in (message("one"), reasoning("think"), message("two"), reasoning("think again")):
        turn.item(raw).result()
    assert closes(log) == [["0/~1/text/0"], ["0/~0/reasoning/0"], ["0/~3/text/0"], ["0/~2/reasoning/0"]]


def test_a_person_message_closes_nothing(log: Log, turn: Turn) -> None:
    """An item that is no word of the agent leaves its drafts open."""
    turn.draft("one").result()
    turn.item({"type": "message", "role": "user", "content": "x"}).result()
    turn.item({"type": "web_search_call", "id": "ws"}).result()
    assert drafts(log) == {"0/~0/text/0": "one"}


def test_a_summary_made_for_itself_closes_nothing(log: Log, turn: Turn) -> None:
    """An item that is no part of the conversation replaces no draft, begins no answer and is none; a wrong purpose is
    refused."""
    turn.item(message("summary"), purpose="compaction").result()
    assert turn.state == "worker_started"
    turn.draft("Hel").result()
    turn.item(message("summary"), purpose="compaction").result()
    assert drafts(log) == {"0/~0/text/0": "Hel"}
    turn.item(message("Hello")).result()
    answer = turn.complete().result() - 1
    assert log.turn_view("t", turn.id).answer == answer
    assert closes(log) == [["0/~0/text/0"]]
    with pytest.raises(InvalidInput, match="purpose"):
        turn.item(message("x"), purpose="other")  # type: ignore[arg-type]


def test_a_tool_item_seals_what_is_being_written(log: Log, turn: Turn) -> None:
    """C22: text after a tool item is another draft than text before it, so that it stays after it."""
    turn.draft("before ").result()
    turn.item(call("c1")).result()
    turn.draft("between").result()
    turn.item(output("c1")).result()
    turn.draft("after").result()
    assert drafts(log) == {"0/~0/text/0": "before ", "0/~1/text/0": "between", "0/~2/text/0": "after"}
    turn.complete().result()
    entries = [(entry.kind, entry.text) for entry in log.timeline("t", turn.id).entries]
    assert [text for kind, text in entries if kind == "message"] == ["before ", "between", "after"]
    assert [kind for kind, _ in entries] == ["message", "tool", "message", "message"]


def test_a_closed_draft_is_never_opened_again(log: Log, turn: Turn) -> None:
    """The id of a closed draft is not used again: late text for its target is the next part of it."""
    turn.draft("Hello", target="m1").result()
    turn.item(message("Hello", id="m1")).result()
    turn.draft(" again", target="m1").result()
    assert drafts(log) == {"0/m1/text/1": " again"}


def test_the_final_text_wins(log: Log, turn: Turn) -> None:
    """P2: where the agent's own final item differs from what was shown, the item's text is the answer."""
    turn.draft("Hullo").result()
    turn.item(message("Hello")).result()
    turn.complete().result()
    assert texts(log) == ["Hello"]
    assert [entry.text for entry in log.timeline("t", turn.id).entries] == ["Hello"]
    (entry,) = log.timeline("t", turn.id).entries
    assert entry.id == "0/~0/text/0"


def test_text_without_a_final_item_is_the_answer(log: Log, turn: Turn) -> None:
    """DESIGN 3: on completion a text draft that no item closed becomes an item, marked beside its payload (P3)."""
    turn.draft("Hello").result()
    turn.complete().result()
    (item,) = items(log)
    assert item.synthesized == "no_final_item"
    assert item.raw == b'{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}'
    assert [closed.draft for closed in item.closes] == ["0/~0/text/0"]
    (completed,) = [event.body for event in events(log) if isinstance(event.body, Completed)]
    assert completed.answer == events(log)[-2].seq
    assert drafts(log) == {}


def test_what_else_is_open_at_completion_becomes_steps(log: Log, turn: Turn) -> None:
    """DESIGN 3: thinking left open succeeds as a step; arguments and output are of unknown outcome (P3)."""
    turn.step("s1", kind="tool", status="running", call_id="sc").result()
    for text, target, kind in (
        ("why", None, "reasoning"),
        ('{"p', "c1", "args"),
        ("out", "s1", "output"),
        ("note", "s1", "text"),
    ):
        turn.draft(text, target=target, kind=kind).result()  # type: ignore[arg-type]
    turn.complete().result()
    assert [(s.id, s.step, s.parent, s.call_id, s.status, s.text, s.args, s.output) for s in steps(log)[1:]] == [
        ("~0/~0/reasoning/0", "reasoning", None, None, "succeeded", "why", None, None),
        ("c1", "tool", None, "c1", "unknown", None, '{"p', None),
        ("s1", "tool", None, None, "unknown", None, None, "out"),
        ("~0/s1/text/0", "note", "s1", None, "succeeded", "note", None, None),
    ]
    assert items(log) == []
    assert drafts(log) == {}


def test_an_abnormal_end_keeps_all_that_was_shown(log: Log, turn: Turn) -> None:
    """P2, P3: interrupted, text becomes items and all else interrupted steps, in the order in which it was shown."""
    turn.draft("why", kind="reasoning").result()
    turn.draft("Hel").result()
    turn.draft('{"p', target="c1", kind="args").result()
    turn.draft("lo", target="m1").result()
    turn.interrupt("failed", "boom").result()
    bodies = [event.body for event in events(log)][4:]
    assert [type(body) for body in bodies] == [Step, Item, Step, Item, Interrupted]
    assert [item.synthesized for item in items(log)] == ["interrupted"] * 2
    assert [step.status for step in steps(log)] == ["interrupted"] * 2
    assert texts(log) == ["Hel", "lo"]
    assert drafts(log) == {}


def test_a_settling_step_takes_its_drafts(log: Log, turn: Turn) -> None:
    """DESIGN 3: a step that settles closes the drafts that target it and carries their text, if it has none itself."""
    turn.step("s1", kind="tool", status="running").result()
    turn.draft('{"q":1}', target="s1", kind="args").result()
    turn.draft("found", target="s1", kind="output").result()
    turn.step("s1", detail="half way").result()
    assert len(drafts(log)) == 2
    turn.step("s1", status="succeeded", output="found 2").result()
    assert closes(log) == [["0/s1/args/0", "0/s1/output/0"]]
    assert (steps(log)[-1].args, steps(log)[-1].output) == ('{"q":1}', "found 2")


def test_a_dropped_attempt_keeps_its_text_in_the_trace(log: Log, turn: Turn) -> None:
    """DESIGN 3: a given-up attempt's text is in its event and no transcript; the next attempt has its own ids."""
    turn.draft("wrong", target="m1").result()
    turn.draft("hm", kind="reasoning").result()
    turn.drop_attempt("rate limited").result()
    (dropped,) = [event.body for event in events(log) if isinstance(event.body, AttemptDropped)]
    assert (dropped.attempt, dropped.reason) == (0, "rate limited")
    assert {text.draft: text.text for text in dropped.dropped} == {"0/m1/text/0": "wrong", "0/~0/reasoning/0": "hm"}
    assert [closed.draft for closed in dropped.closes] == ["0/m1/text/0", "0/~0/reasoning/0"]
    turn.draft("right", target="m1").result()
    turn.draft("!").result()
    assert drafts(log) == {"1/m1/text/0": "right", "1/~0/text/0": "!"}
    turn.complete().result()
    assert texts(log) == ["right", "!"]
    assert "wrong" not in repr(log.transcript("t"))
    assert "wrong" in repr(log.timeline("t", turn.id))


def test_a_dropped_attempt_fits_whatever_its_size(log: Log, turn: Turn) -> None:
    """P4: three full drafts and the longest reason are dropped in as many events as they need, nothing cut."""
    whole = "x" * DRAFT_BYTES_MAX
    for target in ("a", "b", "c"):
        turn.draft(whole, target=target).result()
    turn.drop_attempt("r" * DETAIL_BYTES_MAX).result()
    dropped = [event.body for event in events(log) if isinstance(event.body, AttemptDropped)]
    assert [text.text for body in dropped for text in body.dropped] == [whole] * 3
    assert {body.attempt for body in dropped} == {0}
    assert drafts(log) == {}


def test_places_are_unique_and_tell_the_order(log: Log, turn: Turn) -> None:
    """P9: each draft has a place of its own, even when several open with one event, and it says where it was begun."""
    for target in "abc":
        turn.draft(target, target=target)
    turn.item(call("c1")).result()
    turn.draft("d", target="d").result()
    open_ = log.drafts("t")
    places = [(draft.after, draft.rev) for draft in open_]
    assert len(set(places)) == 4
    assert [draft.draft[2] for draft in sorted(open_, key=lambda d: (d.after, d.rev))] == ["a", "b", "c", "d"]
    seq = next(event.seq for event in events(log) if event.kind == "item")
    assert [after < seq for after, _ in sorted(places)] == [True, True, True, False]
    turn.complete().result()
    assert [item.closes for item in items(log)[1:]] == [
        [Closed(draft.draft, draft.after, draft.rev)] for draft in sorted(open_, key=lambda d: (d.after, d.rev))
    ]


def test_items_of_strange_shape_are_kept(log: Log, turn: Turn) -> None:
    """P10: an item whose type, id, call id or role is no text is kept byte for byte, and closes nothing."""
    turn.draft("a").result()
    raws = [
        b'{"type":"function_call","call_id":[1],"id":{}}',
        b'{"type":"function_call_output","call_id":{"a":1}}',
        b'{"type":["message"],"role":"assistant","id":7}',
        b'{ "role" : null }',
        b"{}",
    ]
    for raw in raws:
        turn.item(raw).result()
    assert [item.raw for item in items(log)] == raws


@pytest.mark.parametrize("given", [{"text": 1}, {"kind": "words"}, {"part": -1}, {"target": "~1"}, {"target": ""}])
def test_bad_drafts_are_refused_at_once(log: Log, turn: Turn, given: dict[str, Any]) -> None:
    """Bad input raises from the call itself, and opens no draft."""
    with pytest.raises(InvalidInput):
        turn.draft(**{"text": "x", **given})
    with pytest.raises(TooLarge):
        turn.draft("x", target="x" * 2_000)
    turn.draft("").result()
    assert drafts(log) == {}


def test_drafts_need_a_started_turn(log: Log) -> None:
    """Text before the start or after the end of a turn goes nowhere, and whoever awaits it is told which."""
    turn = log.submit("t", "question").result()
    with pytest.raises(IllegalTransition):
        turn.draft("early").result(30)
    turn.start().result()
    turn.complete().result()
    late = turn.draft("late")
    with pytest.raises(AlreadySettled):
        late.result(30)
    with_item = turn.draft("late")
    turn.item(call("c1")).result()
    with pytest.raises(AlreadySettled):
        with_item.result(30)
    assert drafts(log) == {}


def test_text_given_before_a_refused_write_is_kept(log: Log, turn: Turn) -> None:
    """P4: text that waited when another write of the turn was refused is durable all the same, and told so."""
    waiting = turn.draft("before")
    with pytest.raises(IllegalTransition):
        turn.start().result()
    waiting.result(30)
    assert drafts(log) == {"0/~0/text/0": "before"}
