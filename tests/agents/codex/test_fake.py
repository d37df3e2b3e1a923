"""What the real Codex cannot be made to say, by a scripted stand-in: no surprise of its loses or invents anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnlog.agents.codex import Program
from turnlog.agents.codex import link as link_module
from turnlog.agents.codex import turn as turn_module
from turnlog.testing.fake_app_server import CLIENT_ID, Exit, Fake, Raw, Refuse, Reply, Send, received

from .running import fake_program, run
from .stage import THREAD, Stage, staged

T = {"threadId": "T", "turnId": "U"}
STARTED = Reply({"turn": {"id": "U", "status": "inProgress"}})
BEGAN = Send("turn/started", {"threadId": "T", "turn": {"id": "U"}})
HALF = Send("item/agentMessage/delta", {**T, "itemId": "m1", "delta": "half"})


def raw(item: Any) -> Send:
    return Send("rawResponseItem/completed", {**T, "item": item})


def answer(text: str, id_: str = "m1") -> Send:
    content = [{"type": "output_text", "text": text}]
    return raw({"type": "message", "id": id_, "role": "assistant", "content": content})


def ended(status: str = "completed", **more: Any) -> Send:
    return Send("turn/completed", {"threadId": "T", "turn": {"id": "U", "status": status, **more}})


def faked(**on: Any) -> Any:
    """A stage whose Codex plays this script; `turn_start` stands for `turn/start`."""
    script = Fake(on={name.replace("_", "/", 1): acts for name, acts in on.items()})

    def make(folder: Path) -> Program:
        return fake_program(folder, script)

    return staged(make)


def texts(stage: Stage) -> list[str]:
    return [message.text for message in stage.log.transcript(THREAD).messages]


@pytest.mark.parametrize("before", [True, False])
def test_the_turn_may_begin_before_or_after_the_reply(before: bool) -> None:
    """What comes before the reply that names the turn waits for it, and is then taken in order (trap 1)."""
    foreign = Send("rawResponseItem/completed", {**T, "turnId": "auto-compact-3", "item": {"type": "message"}})
    first = [BEGAN, foreign, HALF, answer("half of it")]
    acts = [*first, STARTED, ended()] if before else [STARTED, *first, ended()]

    async def main(stage: Stage) -> None:
        ran, _ = await stage.ask("hello")
        assert ran.state == "completed"
        assert texts(stage) == ["hello", "half of it"]

    with faked(turn_start=acts) as stage:
        run(main(stage))


@pytest.mark.parametrize(
    ("acts", "reason", "problem"),
    [
        ([HALF, Raw(b'{"method":"item/ag'), Exit(0)], "transport_closed", "ended with code 0"),
        ([HALF, Exit(101)], "transport_closed", "ended with code 101"),
        ([HALF, raw(None)], "failed", "raw item that cannot be read"),
        ([HALF, Send("rawResponseItem/completed", T)], "failed", "raw item that cannot be read"),
        ([HALF, ended("of_next_year")], "failed", "of_next_year"),
        ([HALF, ended("failed", error={"message": "its words"})], "failed", "its words"),
        ([HALF, ended("interrupted")], "cancelled", "interrupted"),
    ],
)
def test_an_odd_end_keeps_what_was_shown(acts: list[Any], reason: str, problem: str) -> None:
    """Half a line, a raw event without an item, an unknown word for the end: interrupted, with the text and a cause."""

    async def main(stage: Stage) -> None:
        ran, turn = await stage.ask("hello")
        assert (ran.state, ran.reason) == ("interrupted", reason)
        assert problem in (ran.detail or "")
        assert texts(stage) == ["hello", "half"]
        assert [item["role"] for item in stage.items(turn)] == ["assistant"]

    with faked(turn_start=[STARTED, BEGAN, *acts]) as stage:
        run(main(stage))


def test_trap_2_a_message_that_is_never_echoed_is_kept_once() -> None:
    """Killed right after the start of the turn: the message is in the history, once, as it was submitted (trap 2)."""

    async def main(stage: Stage) -> None:
        ran, turn = await stage.ask("hello")
        assert ran.reason == "transport_closed"
        assert stage.items(turn) == []
        (only,) = stage.history()
        assert only["content"] == [{"type": "input_text", "text": "hello"}]
        sent = [message for message in received(stage.folder / "fake-codex") if message["method"] == "turn/start"]
        assert sent[0]["params"]["clientUserMessageId"] == turn.id

    with faked(turn_start=[STARTED, Exit(-9)]) as stage:
        run(main(stage))


def test_garbage_is_counted_and_stops_nothing() -> None:
    """Lines that are no messages, and messages that nobody knows, are told in one note."""
    acts = [STARTED, Raw(b"thread panicked\n\n"), Send("of/next/year", T), answer("fine"), ended()]

    async def main(stage: Stage) -> None:
        ran, turn = await stage.ask("hello")
        assert ran.state == "completed"
        (note,) = [entry for entry in stage.timeline(turn).entries if entry.name == "left_out"]
        assert "a line that is no message" in (note.args or "") and "of/next/year" in (note.args or "")

    with faked(turn_start=acts) as stage:
        run(main(stage))


def test_text_without_an_item_id_is_the_items_all_the_same() -> None:
    """A delta without an id is an anonymous draft, which the next answer replaces; a note warns of it."""
    bare = Send("item/agentMessage/delta", {**T, "delta": "fi"})

    async def main(stage: Stage) -> None:
        ran, turn = await stage.ask("hello")
        assert ran.state == "completed"
        assert texts(stage) == ["hello", "fine"]
        notes = [entry for entry in stage.timeline(turn).entries if entry.name == "left_out"]
        assert "without an item id" in (notes[0].args or "")

    with faked(turn_start=[STARTED, bare, answer("fine"), ended()]) as stage:
        run(main(stage))


def test_a_request_of_codex_never_waits_for_ever() -> None:
    """A request that no person can decide is refused at once, though its id is one of ours, and the turn goes on."""
    tool = Send("item/tool/call", {**T, "tool": "x"}, id=3)
    script = {"turn_start": [STARTED, tool], "our reply": [answer("went on"), ended()]}

    async def main(stage: Stage) -> None:
        ran, _ = await stage.ask("hello")
        assert ran.state == "completed"
        assert texts(stage) == ["hello", "went on"]
        refusal = received(stage.folder / "fake-codex")[-1]
        assert (refusal["id"], refusal["error"]["code"]) == (3, -32601)

    with faked(**script) as stage:
        run(main(stage))


def test_a_server_that_ignores_the_interrupt_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop is carried out in a bounded time, whatever Codex makes of it, and the turn is settled as stopped."""
    monkeypatch.setattr(turn_module, "CODEX_STOP_S", 0.2)

    async def main(stage: Stage) -> None:
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: seen == "half")
            await stage.log.request(THREAD, turn.id)
            ran = await running
        assert ran.reason == "cancelled"
        assert texts(stage) == ["hello", "half"]

    with faked(turn_start=[STARTED, BEGAN, HALF], turn_interrupt=[]) as stage:
        run(main(stage))


def test_an_interrupt_that_is_refused_is_tried_again() -> None:
    """Some versions refuse an interrupt at the very beginning of a turn: it is sent again with what comes next."""
    more = Send("item/agentMessage/delta", {**T, "itemId": "m1", "delta": " more"})

    async def main(stage: Stage) -> None:
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: seen == "half")
            await stage.log.request(THREAD, turn.id)
            await running
        sent = [
            message for message in received(stage.folder / "fake-codex") if message.get("method") == "turn/interrupt"
        ]
        assert len(sent) > 1

    with faked(
        turn_start=[STARTED, BEGAN, HALF], turn_interrupt=[Refuse("no active turn to interrupt"), more]
    ) as stage:
        run(main(stage))


@pytest.mark.parametrize(
    ("on", "problem"),
    [
        ({"thread_start": [Refuse("no threads today")]}, "no threads today"),
        ({"thread_start": [Reply({})]}, "without an id"),
        ({"thread_start": [Exit(4)]}, "ended with code 4"),
        ({"turn_start": [Refuse("no turns today")]}, "no turns today"),
        ({"turn_start": [Reply({})]}, "without an id"),
    ],
)
def test_a_turn_that_cannot_be_begun_says_why(on: dict[str, Any], problem: str) -> None:
    """When Codex will not begin, the turn was never started by an agent, and tells the cause."""

    async def main(stage: Stage) -> None:
        ran, turn = await stage.ask("hello")
        assert (ran.state, ran.reason) == ("interrupted", "start_failed")
        assert problem in (ran.detail or "")
        assert stage.items(turn) == []

    with faked(**on) as stage:
        run(main(stage))


def test_a_history_that_is_refused_fails_the_turn_and_drops_the_thread() -> None:
    """A refused injection fails the turn, says why, and lets the thread go; a retry takes a new one."""
    script = {
        "turn_start": [STARTED, answer("fine"), ended()],
        "thread_inject_items": [Refuse("items[0] is not a valid response item")],
    }

    async def main(stage: Stage) -> None:
        assert (await stage.ask("one"))[0].state == "completed"
        stage.restart()
        for _ in range(2):
            ran, turn = await stage.ask("two")
            assert (ran.state, ran.reason) == ("interrupted", "start_failed")
            assert "Codex refused the history: items[0]" in (ran.detail or "")
            assert stage.items(turn) == []
        sent = [message.get("method") for message in received(stage.folder / "fake-codex")]
        assert sent.count("thread/start") == 3
        assert sent.count("thread/unsubscribe") == 2
        assert sent.count("turn/start") == 1

    with faked(**script) as stage:
        run(main(stage))


USER = raw(
    {
        "type": "message",
        "id": "msg_u",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
        "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["user.text"]},
    }
)
CONFIRMED = Send("item/started", {**T, "item": {"type": "userMessage", "id": "u", "clientId": CLIENT_ID}})
WHOLE = [STARTED, BEGAN, USER, CONFIRMED, answer("fine"), ended()]


def asked_of(stage: Stage, method: str) -> int:
    sent = [message.get("method") for message in received(stage.folder / "fake-codex")]
    return sent.count(method)


@pytest.mark.parametrize(("loaded", "made"), [(["T", "V"], (1, 0)), (["V"], (2, 1)), ([], (2, 1))])
def test_a_thread_that_codex_has_unloaded_is_made_again(loaded: list[str], made: tuple[int, int]) -> None:
    """Codex may let a thread go by itself: it is asked before each turn, and a new one is given the history. One that
    it still has is gone on with."""

    async def main(stage: Stage) -> None:
        for _ in range(2):
            assert (await stage.ask("hello"))[0].state == "completed"
        assert (asked_of(stage, "thread/start"), asked_of(stage, "thread/inject_items")) == made

    with faked(turn_start=WHOLE, **{"thread_loaded/list": [Reply({"data": loaded})]}) as stage:
        run(main(stage))


@pytest.mark.parametrize("stuck", [[], [Exit(1)], [Reply({})], [Refuse("no")]])
def test_a_process_that_hangs_between_turns_is_replaced(stuck: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A resting process that does not answer, or not well, gets no turn: another one does, and nobody notices."""
    monkeypatch.setattr(link_module, "CODEX_STOP_S", 0.3)

    async def main(stage: Stage) -> None:
        for _ in range(2):
            assert (await stage.ask("hello"))[0].state == "completed"
        assert asked_of(stage, "thread/start") == 2

    with faked(turn_start=WHOLE, **{"thread_loaded/list": stuck}) as stage:
        run(main(stage))
