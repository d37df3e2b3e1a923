"""The transcript fold, case by case."""

from __future__ import annotations

import pytest

from tests.folds.simulate import Simulator
from turnlog.events.kinds import Damaged, Draft, Event, Interrupted, Item, Unknown
from turnlog.folds.notices import Notice
from turnlog.folds.transcript import Message, Transcript, TranscriptView


def view(simulator: Simulator) -> TranscriptView:
    fold = Transcript()
    for frame in simulator.frames:
        if isinstance(frame, Draft):
            fold.draft(frame)
        else:
            fold.event(frame)
    return fold.view()


def lines(simulator: Simulator) -> list[tuple[str, str | None, str]]:
    return [(message.role, message.turn, message.text) for message in view(simulator).messages]


def notice(simulator: Simulator, turn: str) -> Notice:
    (found,) = [notice for notice in view(simulator).notices if notice.turn == turn]
    return found


def test_answers_are_anchored_to_their_turn() -> None:
    """An answer stands under its own question, although the next question was submitted before it came."""
    simulator = Simulator()
    simulator.submit("first?")
    simulator.start()
    simulator.submit("second?")
    simulator.message("first!")
    simulator.complete()
    simulator.start()
    simulator.message("second!")
    simulator.complete()
    assert lines(simulator) == [
        ("user", "turn-1", "first?"),
        ("assistant", "turn-1", "first!"),
        ("user", "turn-2", "second?"),
        ("assistant", "turn-2", "second!"),
    ]
    assert view(simulator).notices == ()


def test_equal_texts_are_two_messages() -> None:
    """Two identical user texts both stay, and so do identical answers, of one turn too: identity is no text (C05)."""
    simulator = Simulator()
    for _ in range(2):
        simulator.submit("again")
        simulator.start()
        simulator.message("same", "msg_1")
        simulator.message("same", "msg_2")
        simulator.complete()
    assert [text for _, _, text in lines(simulator)] == ["again", "same", "same"] * 2
    assert len({message.seq for message in view(simulator).messages}) == 6


def test_messages_without_a_turn_stand_where_they_were_written() -> None:
    """A turn-less item is a message whose turn is none, between the turns it was written between."""
    simulator = Simulator()
    simulator.submit("one")
    simulator.loose("assistant", "aside")
    simulator.submit("two")
    assert lines(simulator) == [
        ("user", "turn-1", "one"),
        ("assistant", None, "aside"),
        ("user", "turn-2", "two"),
    ]


def test_a_partial_answer_shows_while_it_is_written() -> None:
    """The open text of a running turn is a message with its draft id, and the answer stays in its place (P2, P9)."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    draft = simulator.draft("so fa", "msg_1")
    simulator.draft("r", "msg_1")
    running = view(simulator).messages[-1]
    assert (running.text, running.draft, running.item, running.role) == ("so far", draft, "msg_1", "assistant")
    assert notice(simulator, "turn-1").kind == "running"


@pytest.mark.parametrize("target", ["A", "c1"])
def test_text_of_a_step_is_no_answer(target: str) -> None:
    """What a sub-agent or a tool says is in the trace, not among the answers: neither live nor settled (C23)."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    simulator.call("c1")
    simulator.step("A", step="subagent", status="running")
    simulator.draft("inner voice", target)
    assert lines(simulator) == [("user", "turn-1", "q")]
    simulator.step(target, status="succeeded")
    simulator.interrupt()
    assert lines(simulator) == [("user", "turn-1", "q")]


def test_reasoning_is_no_answer() -> None:
    """Thinking is never merged into the answer (C22)."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    simulator.draft("hm", kind="reasoning")
    simulator.draft("answer")
    simulator.reasoning("hm, hm")
    simulator.complete()
    assert [text for _, _, text in lines(simulator)] == ["q", "answer"]


def test_an_interrupted_turn_keeps_what_was_shown() -> None:
    """A crash in mid-text keeps the message and the partial answer, flagged, and a notice says so (C28, P3)."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    simulator.draft("half")
    simulator.interrupt()
    answer = view(simulator).messages[-1]
    assert (answer.text, answer.synthesized, answer.draft) == ("half", "interrupted", None)
    found = notice(simulator, "turn-1")
    assert (found.kind, found.reason, found.can_retry) == ("interrupted", "process_died", True)
    assert found.text.startswith("Your message is safe.")


def test_a_crash_before_the_first_text_invents_none() -> None:
    """A turn cut before its first text has no assistant message (C28, P3)."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    simulator.interrupt()
    assert lines(simulator) == [("user", "turn-1", "q")]


def test_unknown_calls_are_named() -> None:
    """The notice names the calls whose outcome nobody knows (P3, C42)."""
    simulator = Simulator()
    turn = simulator.submit("q")
    simulator.start()
    simulator.call("c1")
    simulator.event(Interrupted(reason="process_died", unknown_calls=["c1"]), turn)
    found = notice(simulator, turn)
    assert found.unknown_calls == ("c1",)
    assert "The outcome of 1 call is unknown" in found.text


def test_a_waiting_turn_says_so() -> None:
    """A turn that nobody has begun has a notice that it waits."""
    simulator = Simulator()
    turn = simulator.submit("q")
    assert notice(simulator, turn).kind == "queued"


def test_a_retried_attempt_is_folded_away_and_reachable() -> None:
    """The messages and notices of a retried attempt stay in the document, hidden; only the newest can be retried."""
    simulator = Simulator()
    simulator.submit("q")
    for _ in range(2):
        simulator.start()
        simulator.draft("half")
        simulator.interrupt()
        simulator.retry()
    simulator.start()
    simulator.message("whole")
    simulator.complete()
    assert [(m.turn, m.text, m.hidden) for m in view(simulator).messages] == [
        ("turn-1", "q", True),
        ("turn-1", "half", True),
        ("turn-2", "question", True),
        ("turn-2", "half", True),
        ("turn-3", "question", False),
        ("turn-3", "whole", False),
    ]
    found = [(n.turn, n.hidden, n.can_retry, n.retried_by) for n in view(simulator).notices]
    assert found == [("turn-1", True, False, "turn-2"), ("turn-2", True, False, "turn-3")]


def test_a_dropped_attempts_text_is_not_read() -> None:
    """Text of an attempt that the agent gave up is in the trace only."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    simulator.draft("first try")
    simulator.drop_attempt()
    simulator.draft("second try")
    simulator.complete()
    assert [text for _, _, text in lines(simulator)] == ["q", "second try"]


def test_late_text_is_a_notice() -> None:
    """What comes after the end is no answer, and a notice tells of it (P4, P5)."""
    simulator = Simulator()
    turn = simulator.submit("q")
    simulator.start()
    simulator.complete()
    simulator.late("too late")
    simulator.event(Item(type="message", raw=b'{"role":"assistant","content":"later"}'), turn)
    assert lines(simulator) == [("user", turn, "q")]
    assert [(found.kind, found.turn) for found in view(simulator).notices] == [("late", turn), ("late", turn)]


def test_damaged_and_unknown_records_are_noticed() -> None:
    """A record that cannot be read is reported with its place; what is around it is read (P4)."""
    simulator = Simulator()
    turn = simulator.submit("q")
    simulator.start()
    for kind, body in (("item", Damaged(problem="torn")), ("from_the_future", Unknown())):
        simulator.head += 1
        simulator.frames.append(Event(thread="t", seq=simulator.head, turn=turn, at=0, kind=kind, body=body, data=b""))
    simulator.event(Item(type="message", raw=b"{torn"), turn)
    simulator.message("answer")
    simulator.complete()
    assert [(found.seq, found.kind) for found in view(simulator).notices] == [
        (4, "damaged"),
        (5, "unknown"),
        (6, "damaged"),
    ]
    assert lines(simulator)[-1] == ("assistant", turn, "answer")


def test_a_damaged_end_is_an_end() -> None:
    """A turn whose terminal event cannot be read is not shown as running for ever (P4)."""
    simulator = Simulator()
    turn = simulator.submit("q")
    simulator.start()
    event = Event(thread="t", seq=4, turn=turn, at=0, kind="completed", body=Damaged(problem="torn"), data=b"")
    simulator.frames.append(event)
    assert [found.kind for found in view(simulator).notices] == ["damaged"]


def test_parts_and_attachments() -> None:
    """A submission of several parts reads as their texts; parts without text are named in brackets."""
    simulator = Simulator()
    simulator.submit([{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "x"}])
    assert lines(simulator) == [("user", "turn-1", "look\n[input_image]")]


def test_a_message_knows_its_item() -> None:
    """A message carries its event's seq and the model's own item id."""
    simulator = Simulator()
    simulator.submit("q")
    simulator.start()
    seq = simulator.message("a", "msg_7")
    message = view(simulator).messages[-1]
    assert message == Message(role="assistant", turn="turn-1", seq=seq, text="a", item="msg_7", at=message.at)
