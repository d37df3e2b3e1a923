"""What comes of a turn after its end: passed on as long as the log takes it, and never a reason to go on astray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from turnlog.agents.codex import codex_agents
from turnlog.agents.codex.jsonrpc import Told
from turnlog.agents.codex.link import Known, Link
from turnlog.agents.codex.process import CodexProcess
from turnlog.agents.protocol import ItemSignal, Signal, StepSignal
from turnlog.errors import AlreadySettled, Fenced, StoreClosed, TurnlogError
from turnlog.testing.fake_app_server import Fake, Reply, Send, received

from .replaying import play, told, translator
from .running import fake_program, run, task, unheard

ENDED = told("turn/completed", turn={"id": "U", "status": "completed"})
COMMAND = told("item/completed", item={"type": "commandExecution", "id": "call_1", "status": "completed"})
ITEM = told("rawResponseItem/completed", item={"type": "message", "role": "assistant", "content": []})
FOREIGN = told("item/completed", turnId="V", item={"type": "commandExecution", "id": "call_2"})
LATE = AlreadySettled(thread="t", turn="u", state="completed")


class Emitted:
    """Takes signals, and answers each with an error."""

    def __init__(self, error: TurnlogError) -> None:
        self.signals: list[Signal] = []
        self._error = error

    async def __call__(self, signal: Signal) -> None:
        self.signals.append(signal)
        raise self._error


async def tell(folder: Path, emit: Emitted, *said: Any) -> Link:
    """Tell a link, whose turn U has ended, what still comes."""
    process = await CodexProcess.start(fake_program(folder, Fake()))
    link = Link(process, "T", task(folder))
    ended = translator()
    play(ended, [ENDED])
    link.remember(ended, emit)
    for one in said:
        await link.tell_late(one)
    await process.close()
    return link


def test_what_comes_late_is_passed_on(tmp_path: Path) -> None:
    """Steps and items of the turn that has ended are passed on, those of others are not (P5)."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, COMMAND, FOREIGN, COMMAND))
    assert [type(signal) for signal in emit.signals] == [StepSignal, StepSignal]
    assert link.known == Known()


def test_a_late_item_makes_the_thread_unfit(tmp_path: Path) -> None:
    """A late item is in Codex's memory and in no history: the next turn must not go on there (P9)."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, ITEM))
    assert [type(signal) for signal in emit.signals] == [ItemSignal]
    assert link.known is None


@pytest.mark.parametrize("error", [StoreClosed(), Fenced(thread="t", turn="u")])
def test_a_log_that_takes_no_more_is_left_alone(tmp_path: Path, error: TurnlogError) -> None:
    """Once the log refuses for good, nothing more of that turn is passed on."""
    emit = Emitted(error)
    run(tell(tmp_path, emit, COMMAND, COMMAND))
    assert len(emit.signals) == 1


@pytest.mark.parametrize(
    "odd",
    [
        Told("item/completed", msgspec.Raw(b"7")),
        Told("of/next/year", msgspec.Raw(b'{"turnId":"U"}')),
        told("item/completed", turnId=["U"], item={"type": "commandExecution", "id": "call_1"}),
        told("item/completed", item="x"),
        told("item/completed", item={"type": "commandExecution"}),
        told("item/started", item={"type": "userMessage", "id": "u", "clientId": "client-1"}),
        told("item/agentMessage/delta", itemId="m", delta="late text"),
        told("item/commandExecution/outputDelta", itemId="call_1", delta="late output"),
        told("error", error={"message": "again"}, willRetry=True),
        told("turn/completed", turn={"id": "V", "status": "completed"}),
    ],
)
def test_odd_late_messages_say_nothing_and_stop_nothing(odd: Told, tmp_path: Path) -> None:
    """A late message of another shape, kind or turn, or of text that nobody waits for, is no news of the turn, and what
    follows it is passed on as ever."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, odd, COMMAND))
    assert [type(signal) for signal in emit.signals] == [StepSignal]
    assert link.known == Known()


@pytest.mark.parametrize("item", [{}, {"item": None}, {"item": 7}, {"item": {"id": "x"}}])
def test_a_late_item_that_cannot_be_read_makes_the_thread_unfit(item: Any, tmp_path: Path) -> None:
    """It ends no turn any more, but Codex's memory holds what nobody else does: nothing goes on there (P9)."""
    emit = Emitted(LATE)
    link = run(tell(tmp_path, emit, told("rawResponseItem/completed", **item), COMMAND))
    assert [type(signal) for signal in emit.signals] == [StepSignal]
    assert link.known is None


def test_a_late_message_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many turns have ended in a thread, what comes late is read once for all of them."""
    decoded: list[bytes] = []
    decode = msgspec.json.decode

    def counting(data: msgspec.Raw, **more: Any) -> Any:
        decoded.append(bytes(data))
        return decode(data, **more)

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, Fake()))
        link = Link(process, "T", task(tmp_path))
        for _ in range(4):
            link.remember(translator(), unheard)
        monkeypatch.setattr(msgspec.json, "decode", counting)
        late = Told(COMMAND.method, COMMAND.params)
        await link.tell_late(late)
        assert decoded == [bytes(late.params)]
        await process.close()

    run(main())


def test_a_thread_that_never_gave_the_message_back_is_not_gone_on_with(tmp_path: Path) -> None:
    """A turn that ended well, without its message and without an item, may be asked again as if it had never been: in
    Codex's memory it may stand all the same, so another thread is taken (P9)."""
    silent = Fake(
        on={
            "turn/start": [
                Reply({"turn": {"id": "U"}}),
                Send("turn/completed", {"turn": {"id": "U", "status": "completed"}}),
            ]
        }
    )

    async def main() -> None:
        agents = codex_agents(fake_program(tmp_path, silent))
        for _ in range(2):
            await agents().run(task(tmp_path), unheard)

    run(main())
    sent = [message.get("method") for message in received(tmp_path / "fake-codex")]
    assert sent.count("thread/start") == sent.count("turn/start") == 2


def test_what_is_known_tells_items_apart() -> None:
    """Digests are equal for the same items in the same order only, however their bytes join."""
    assert Known([b"a", b"b"]) == Known([b"a", b"b"])
    for other in ([b"ab"], [b"b", b"a"], [b"a"], [b"a", b"b", b""], [b"1:a", b"b"]):
        assert Known([b"a", b"b"]) != Known(other)
