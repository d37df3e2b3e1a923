"""The history fold: what an agent is given, valid and honest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.responses_rules import faults, portable_faults
from tests.folds.simulate import Simulator, events_of, threads
from turnlog.errors import InvalidInput
from turnlog.events.codec import encode_body, encode_json
from turnlog.events.kinds import Damaged, Event, Item, Step, ThreadItem, ThreadLate, Unknown
from turnlog.folds.history import History, history
from turnlog.folds.validity import mend_surrogates


def of(simulator: Simulator, profile: Any = "responses", until: str | None = None) -> History:
    return history(events_of(simulator.frames), profile, until)


def brief(items: Sequence[bytes]) -> list[str]:
    """Items as `type` or `type:call id`, messages as `role:text`."""
    found = []
    for raw in items:
        item = json.loads(raw)
        if item.get("type", "message") == "message":
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            found.append(f"{item['role']}:{text}")
        else:
            found.append(item["type"] + (f":{item['call_id']}" if item.get("call_id") else ""))
    return found


def fed_back(items: Sequence[bytes]) -> History:
    """The history of a thread that consists of `items`."""
    events = []
    for seq, raw in enumerate(items, 1):
        item = json.loads(raw)
        call_id, id_ = item.get("call_id"), item.get("id")
        body = ThreadItem(type=item.get("type", ""), id=id_, call_id=call_id, raw=raw)
        data = encode_body(body)
        events.append(Event(thread="t", seq=seq, turn=None, at=0, kind=body.kind, body=body, data=data))
    return history(events)


def asked(content: Any = "q") -> Simulator:
    simulator = Simulator()
    simulator.submit(content)
    simulator.start()
    return simulator


def echo(simulator: Simulator, text: str, raw: bytes | None = None) -> None:
    """The agent's own form of a submission."""
    content = [{"type": "input_text", "text": text}]
    whole = encode_json({"type": "message", "role": "user", "id": "msg_1", "content": content})
    simulator.event(Item(type="message", id="msg_1", purpose="submission", raw=raw or whole), "turn-1")


# --- the submission --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["raw", "responses"])
def test_the_agents_form_of_a_submission_takes_its_place(profile: str) -> None:
    """A submission that the agent gave back in its own form is in the history once, in that form, at its place."""
    simulator = asked()
    simulator.message("first")
    echo(simulator, "as the agent has it")
    simulator.message("second")
    simulator.complete()
    found = of(simulator, profile)
    assert brief(found.items) == ["user:as the agent has it", "assistant:first", "assistant:second"]
    assert json.loads(found.items[0])["id"] == "msg_1"


def test_a_submissions_other_form_is_no_answer() -> None:
    """An attempt that brought nothing but the submission itself is not asked twice after its retry."""
    simulator = asked()
    echo(simulator, "question")
    simulator.interrupt()
    simulator.retry()
    found = of(simulator)
    assert len(found.items) == 1
    assert len(found.omitted) == 1


def test_a_form_that_cannot_be_read_replaces_nothing() -> None:
    """When the agent's form is damaged, the submission itself is given, and the damage is told."""
    simulator = asked("mine")
    echo(simulator, "", raw=b"no json")
    found = of(simulator)
    assert brief(found.items) == ["user:mine"]
    assert [omitted.why for omitted in found.omitted] == ["damaged"]


@pytest.mark.parametrize("type_", ["message", "reasoning"])
def test_a_summary_made_for_itself_is_in_no_history(type_: str) -> None:
    """What an agent made for itself in a compaction is given to nobody, and reported."""
    simulator = asked()
    raw = encode_json({"type": type_, "role": "assistant", "content": [{"type": "output_text", "text": "all of it"}]})
    simulator.event(Item(type=type_, purpose="compaction", raw=raw), "turn-1")
    simulator.message("answer")
    simulator.complete()
    for profile in ("raw", "responses"):
        found = of(simulator, profile)
        assert brief(found.items) == ["user:q", "assistant:answer"]
        assert [omitted.why for omitted in found.omitted] == ["a summary the agent made for itself"]


# --- pairs -----------------------------------------------------------------------------------------------------------


def test_an_orphan_call_is_answered_right_after_its_group() -> None:
    """A call whose output is missing gets one neutral, tagged output directly after its call group (C26, C42)."""
    simulator = asked()
    for call in ("c1", "c2", "c3"):
        simulator.call(call)
    simulator.output("c1")
    simulator.output("c3")
    simulator.interrupt()
    simulator.submit("go on")
    found = of(simulator)
    assert brief(found.items) == [
        "user:q",
        "function_call:c1",
        "function_call:c2",
        "function_call:c3",
        "function_call_output:c2",
        "function_call_output:c1",
        "function_call_output:c3",
        "user:go on",
    ]
    assert "interrupted, outcome unknown" in json.loads(found.items[4])["output"]
    assert [(added.at, added.why) for added in found.added] == [(4, "interrupted, outcome unknown")]


def test_the_stored_history_is_unchanged() -> None:
    """The raw profile has the items alone, byte for byte as accepted, whatever the other one adds (C26, P10)."""
    simulator = asked()
    raw = (
        b'{ "type" : "function_call",\n"call_id":"c1","name":"n", "arguments":"{}", "x": 1e2, "x": 100000000000000001 }'
    )
    simulator.event(Item(type="function_call", call_id="c1", raw=raw), "turn-1")
    simulator.interrupt()
    assert of(simulator, "raw").items[1:] == (raw,)
    assert of(simulator).items[1] == raw


@pytest.mark.parametrize("type_", ["function_call", "custom_tool_call", "local_shell_call", "mcp_tool_call"])
def test_the_added_output_has_the_calls_type(type_: str) -> None:
    """A neutral output is of the type that answers its call (C26)."""
    simulator = asked()
    simulator.call("c1", type_=type_)
    simulator.interrupt()
    assert brief(of(simulator).items)[1:] == [f"{type_}:c1", f"{type_}_output:c1"]


@pytest.mark.parametrize("type_", ["function_call", "custom_tool_call", "local_shell_call", "mcp_tool_call"])
def test_an_answered_call_needs_nothing(type_: str) -> None:
    """A call of any type with the output of its type stands as it was stored."""
    simulator = asked()
    simulator.call("c1", type_=type_)
    simulator.output("c1", type_=f"{type_}_output")
    simulator.complete()
    assert of(simulator) == of(simulator, "raw")


def test_an_output_of_another_type_answers_nothing() -> None:
    """A function's output does not answer a custom tool's call of the same id (C26, C27)."""
    simulator = asked()
    simulator.call("c1", type_="custom_tool_call")
    simulator.output("c1")
    simulator.complete()
    assert brief(of(simulator).items)[1:] == ["custom_tool_call:c1", "custom_tool_call_output:c1"]


def test_a_shell_calls_output_may_be_a_functions() -> None:
    """A local shell call that was answered by a function output is answered."""
    simulator = asked()
    simulator.call("c1", type_="local_shell_call")
    simulator.output("c1")
    simulator.complete()
    assert of(simulator).added == ()


def test_an_output_is_of_the_call_of_its_own_type_first() -> None:
    """C26: where calls of two kinds have one id, what stands in for one's output is not taken for the other's."""
    simulator = asked()
    simulator.call("c1", type_="local_shell_call")
    simulator.call("c1")
    simulator.output("c1", type_="local_shell_call_output")
    simulator.complete()
    made = of(simulator)
    assert len(made.added) == 1
    assert fed_back(made.items) == History(items=made.items)


def test_an_orphan_output_is_left_out_and_reported() -> None:
    """An output whose call is missing is not given, and its place is named (C27, P4)."""
    simulator = asked()
    orphan = simulator.output("c9")
    simulator.call("c1")
    simulator.output("c1")
    second = simulator.output("c1", "again")
    simulator.complete()
    found = of(simulator)
    assert brief(found.items) == ["user:q", "function_call:c1", "function_call_output:c1"]
    assert [(it.seq, it.why) for it in found.omitted] == [
        (orphan, "output without its call"),
        (second, "output without its call"),
    ]


@pytest.mark.parametrize("content", [None, 7, ["text"], [{"text": "no type"}], [{"type": "output_text"}, None]])
def test_what_is_no_item_is_left_out_and_reported(content: Any) -> None:
    """C26, P4: one object that is no Responses item would make an endpoint refuse all of the history."""
    simulator = asked()
    kept = [{"role": "assistant", "content": "short"}, {"type": "of_next_year"}]
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    odd: list[dict[str, Any]] = [
        {**call, "name": None},
        {**call, "arguments": {}},
        {"type": "function_call_output", "call_id": "c1"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "look"},
        {},
        {"type": None, "text": "t"},
        {"type": "message", "content": "no role"},
        {"type": "message", "role": "assistant", "content": content},
    ]
    work = simulator.begun()
    for item in [*kept, *odd]:
        simulator.event(Item(type=str(item.get("type", "")), raw=encode_json(item)), work.turn)
    simulator.complete()
    found = of(simulator)
    assert [json.loads(item) for item in found.items[1:]] == kept
    assert [it.why for it in found.omitted] == ["no Responses item"] * len(odd)


def test_hosted_calls_need_no_output() -> None:
    """A call without a call id was carried out by the model's own side: nothing is added for it."""
    simulator = asked()
    simulator.event(Item(type="web_search_call", id="ws", raw=b'{"type":"web_search_call","id":"ws"}'), "turn-1")
    simulator.complete()
    assert brief(of(simulator).items) == ["user:q", "web_search_call"]


def test_a_call_nobody_can_name_is_left_out() -> None:
    """A function call without a call id can have no output, so it is left out and reported (C26, P4)."""
    simulator = asked()
    seq = simulator.call("")
    simulator.complete()
    found = of(simulator)
    assert (brief(found.items), [it.seq for it in found.omitted]) == (["user:q"], [seq])


def test_a_call_whose_output_would_claim_something_is_left_out() -> None:
    """Where any valid output would say how the call ended, none is invented: the call goes, with its reasoning (P3)."""
    simulator = asked()
    gone = [simulator.reasoning("why"), simulator.call("c1", type_="computer_call")]
    simulator.interrupt()
    found = of(simulator)
    assert (brief(found.items), [it.seq for it in found.omitted]) == (["user:q"], gone)


# --- reasoning, partial text -----------------------------------------------------------------------------------------


def test_reasoning_stays_with_what_follows() -> None:
    """A run of reasoning stays whole before the item it led to."""
    simulator = asked()
    simulator.reasoning("one")
    simulator.reasoning("two")
    simulator.call("c1")
    simulator.output("c1")
    simulator.complete()
    assert brief(of(simulator).items)[1:] == ["reasoning", "reasoning", "function_call:c1", "function_call_output:c1"]


def test_trailing_reasoning_goes() -> None:
    """Reasoning that nothing follows in its turn is left out, whole, and reported."""
    simulator = asked()
    gone = [simulator.reasoning("one"), simulator.reasoning("two")]
    simulator.interrupt()
    simulator.submit("next")
    simulator.start()
    simulator.message("answer")
    simulator.complete()
    found = of(simulator)
    assert brief(found.items) == ["user:q", "user:next", "assistant:answer"]
    assert [it.seq for it in found.omitted] == gone


def test_reasoning_goes_with_the_call_it_led_to() -> None:
    """Reasoning whose call is left out goes with it, and does not stand before what came later (P4)."""
    simulator = asked()
    gone = [simulator.reasoning("one"), simulator.reasoning("two"), simulator.call("c1", type_="computer_call")]
    simulator.message("later")
    simulator.complete()
    found = of(simulator)
    assert (brief(found.items), [it.seq for it in found.omitted]) == (["user:q", "assistant:later"], gone)


def test_reasoning_before_text_that_no_item_ended_goes() -> None:
    """C28: text that was cut stands for an item that never came: it is given, and the reasoning before it is not."""
    simulator = asked()
    gone = simulator.reasoning("one")
    simulator.draft("half")
    simulator.interrupt()
    found = of(simulator)
    assert (brief(found.items), [it.seq for it in found.omitted]) == (["user:q", "assistant:half"], [gone])


def test_reasoning_across_a_dropped_attempt_goes() -> None:
    """Reasoning of an attempt that was given up does not stand before what the next attempt brought."""
    simulator = asked()
    gone = simulator.reasoning("one")
    simulator.drop_attempt()
    simulator.reasoning("two")
    simulator.call("c1")
    simulator.output("c1")
    simulator.complete()
    found = of(simulator)
    assert brief(found.items)[1:] == ["reasoning", "function_call:c1", "function_call_output:c1"]
    assert [it.seq for it in found.omitted] == [gone]


def test_a_call_id_that_is_used_again_is_of_its_own_turn() -> None:
    """C26: an output answers the call of its own turn, also when an earlier turn left a call of that id open."""
    simulator = asked()
    simulator.call("call_0")
    simulator.interrupt()
    simulator.submit("again")
    simulator.start()
    simulator.call("call_0")
    simulator.output("call_0", "real")
    simulator.complete()
    found = of(simulator)
    outputs = [json.loads(raw)["output"] for raw in found.items if b"_output" in raw]
    assert ("outcome unknown" in outputs[0], outputs[1], len(found.added)) == (True, "real", 1)


def test_a_call_may_be_carried_out_in_the_next_turn() -> None:
    """C27: a call that waited for a person is answered where another turn goes on with it, and nothing is added."""
    simulator = asked()
    simulator.call("c1")
    simulator.complete()
    simulator.submit("yes")
    simulator.start()
    simulator.output("c1", "done")
    simulator.complete()
    found = of(simulator)
    assert brief(found.items)[1:] == ["function_call:c1", "user:yes", "function_call_output:c1"]
    assert (found.added, found.omitted) == ((), ())


def test_partial_text_is_an_ordinary_answer() -> None:
    """Text that a crash cut is given as an assistant item, without any mark inside it (C28, P3)."""
    simulator = asked()
    simulator.draft("half")
    simulator.interrupt()
    (_, answer) = of(simulator).items
    assert json.loads(answer) == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "half"}],
    }


def test_partial_arguments_are_no_call() -> None:
    """A crash in mid arguments leaves no call in the history (C28)."""
    simulator = asked()
    simulator.draft('{"path":"/tm', "c1", "args")
    simulator.interrupt()
    assert brief(of(simulator).items) == ["user:q"]


def test_a_dropped_attempt_is_nowhere() -> None:
    """Text of an attempt that was given up is in no profile."""
    simulator = asked()
    simulator.draft("first try")
    simulator.drop_attempt()
    simulator.message("second try")
    simulator.complete()
    for profile in ("raw", "responses"):
        assert brief(of(simulator, profile).items) == ["user:q", "assistant:second try"]


def test_the_interleaving_stays() -> None:
    """C22: text, reasoning, calls and outputs stand in the order in which they came, whatever the profile."""
    simulator = asked()
    simulator.message("one")
    simulator.reasoning("think")
    simulator.call("c1")
    simulator.output("c1")
    simulator.message("two")
    simulator.call("c2")
    simulator.output("c2")
    simulator.message("three")
    simulator.complete()
    step = ["function_call:c1", "function_call_output:c1", "assistant:two"]
    whole = ["assistant:one", "reasoning", *step, "function_call:c2", "function_call_output:c2", "assistant:three"]
    assert brief(of(simulator).items)[1:] == brief(of(simulator, "raw").items)[1:] == whole
    assert brief(of(simulator, "portable").items)[1:] == [it for it in whole if it != "reasoning"]


# --- order, place ----------------------------------------------------------------------------------------------------


def queue() -> Simulator:
    """Turn 2 is submitted while turn 1 runs; an aside follows before turn 1 answers."""
    simulator = asked("one")
    simulator.submit("two")
    simulator.loose("assistant", "aside")
    simulator.message("one!")
    simulator.complete()
    simulator.start()
    simulator.message("two!")
    simulator.complete()
    return simulator


def test_turns_stand_whole() -> None:
    """A turn's answer comes before the message that was already waiting."""
    assert brief(of(queue()).items) == ["user:one", "assistant:one!", "user:two", "assistant:two!", "assistant:aside"]


def test_until_ends_before_a_turn() -> None:
    """The history until a turn holds the turns submitted before it, whole, and nothing of it or after it."""
    assert brief(of(queue(), until="turn-2").items) == ["user:one", "assistant:one!"]
    assert of(queue(), until="turn-1").items == ()


def test_a_retried_turn_that_brought_nothing_is_not_asked_twice() -> None:
    """A question whose attempt brought nothing is given once, by its retry; one that brought something stays."""
    simulator = asked()
    simulator.interrupt()
    simulator.retry()
    simulator.start()
    simulator.draft("half")
    simulator.interrupt()
    simulator.retry()
    found = of(simulator)
    assert brief(found.items) == ["user:question", "assistant:half", "user:question"]
    assert [it.seq for it in found.omitted] == [2]
    assert len(of(simulator, "raw").items) == 4


def test_damaged_unknown_and_foreign_records_are_reported() -> None:
    """What cannot be given is named with its place: damage, newer kinds, items of another format (P4)."""
    simulator = asked()
    for kind, body in (("item", Damaged(problem="torn")), ("from_the_future", Unknown())):
        simulator.head += 1
        simulator.frames.append(
            Event(thread="t", seq=simulator.head, turn="turn-1", at=0, kind=kind, body=body, data=b"")
        )
    simulator.event(Item(type="message", raw=b"{torn"), "turn-1")
    simulator.event(Item(type="x", format="chat", raw=b'{"role":"assistant"}'), "turn-1")
    assert [(it.seq, it.why) for it in of(simulator).omitted] == [
        (4, "damaged"),
        (5, "unknown kind from_the_future"),
        (6, "damaged"),
        (7, "format chat"),
    ]


# --- text ------------------------------------------------------------------------------------------------------------


def test_lone_surrogates_are_replaced_and_named() -> None:
    """A lone surrogate becomes U+FFFD for providers and its item is named; pairs and escapes stay (C19, C18)."""
    simulator = asked("lone \ud83d end")
    raw = rb'{"type":"message","role":"assistant","content":"\ud83d\ude00 \ud83d \\ud83d \ude00\ude00 \u0000 \\\ud83d"}'
    simulator.event(Item(type="message", raw=raw), "turn-1")
    kept = b'{"type":"message","role":"assistant","content":"\\ud83d\\ude00 plain"}'
    simulator.event(Item(type="message", raw=kept), "turn-1")
    found = of(simulator)
    assert json.loads(found.items[0])["content"][0]["text"] == "lone \ufffd end"
    assert found.items[1] == (
        rb'{"type":"message","role":"assistant","content":"\ud83d\ude00 \ufffd \\ud83d \ufffd\ufffd \u0000 \\\ufffd"}'
    )
    assert found.items[2] == kept
    assert found.changed == (0, 1)
    assert of(simulator, "raw").items[1] == raw


@given(st.lists(st.text(st.characters(codec=None))), st.booleans())
def test_mending_leaves_no_lone_surrogate(texts: list[str], ascii_only: bool) -> None:
    """Mended JSON has no lone surrogate, and is untouched where there was none (C19)."""
    raw = json.dumps(texts).encode() if ascii_only else encode_json(texts)
    mended = mend_surrogates(raw)
    "".join(json.loads(mended)).encode("utf-8")
    try:
        "".join(json.loads(raw)).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert mended == raw


# --- properties ------------------------------------------------------------------------------------------------------


@given(threads())
def test_doing_it_again_changes_nothing(simulator: Simulator) -> None:
    """Fed its own output, the history adds, omits and changes nothing: it is idempotent, and deterministic (C26)."""
    found = of(simulator)
    assert of(simulator) == found
    assert fed_back(found.items) == History(items=found.items)


@given(threads())
def test_every_call_has_its_output_and_every_output_its_call(simulator: Simulator) -> None:
    """As many outputs as calls for each id, and none before its call, at any interruption (C26, C27)."""
    waiting: dict[str, int] = {}
    for item in brief(of(simulator).items):
        kind, _, call = item.partition(":")
        if kind == "function_call":
            waiting[call] = waiting.get(call, 0) + 1
        elif kind == "function_call_output":
            waiting[call] = waiting.get(call, 0) - 1
            assert waiting[call] >= 0
    assert set(waiting.values()) <= {0}


@given(threads())
def test_an_endpoint_takes_what_the_journal_writes(simulator: Simulator) -> None:
    """C26, C27, C28: whatever was interrupted, dropped or hidden, an endpoint's rules have no fault with it."""
    assert faults(of(simulator).items) == []
    assert portable_faults(of(simulator, "portable").items) == []


@pytest.mark.parametrize("profile", ["raw", "responses"])
def test_a_late_item_is_named(profile: str) -> None:
    """P4: an item that came after its turn had ended is given to nobody and named with its place, also with `until`."""
    simulator = asked()
    simulator.complete()
    simulator.submit("next")
    simulator.late("too late")
    simulator.event(ThreadLate(of="turn-1", late="step", raw=encode_body(Step(id="s"))), None)
    for until in (None, "turn-2"):
        found = of(simulator, profile, until)
        assert [(it.seq, it.why) for it in found.omitted] == [(simulator.head - 1, "late")]
        assert not [raw for raw in found.items if b"too late" in raw]
    assert of(simulator, profile, "turn-1").omitted == ()


def test_an_unknown_profile_is_refused() -> None:
    """A profile that there is not is refused by name instead of being taken for another one."""
    with pytest.raises(InvalidInput, match="must be one of raw, responses, portable"):
        of(asked(), "best")
