"""What `ask` prints while a turn happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import pytest

import turnlog
from turnlog.cli.live import Live
from turnlog.cli.output import Output
from turnlog.events.kinds import Failure


class Watched:
    """A turn in the hands of a test, drawn after each write."""

    def __init__(self, log: turnlog.Log) -> None:
        self._log = log
        self.turn = log.submit("t", "hello").result()
        self.turn.start(agent="mine").result()

    @cached_property
    def live(self) -> Live:
        """Made at the first drawing, when standard output is the test's."""
        return Live(Output())

    def draw(self) -> None:
        self.live.draw(self._log.timeline("t", self.turn.id), 0)

    def step(self, id: str, **fields: object) -> None:
        self.turn.step(id, **fields).result()  # type: ignore[arg-type]  # the test's own fields
        self.draw()

    def say(self, text: str, target: str | None = None) -> None:
        self.turn.draft(text, target).result()
        self.draw()

    def answer(self, text: str) -> None:
        self.turn.item({"type": "message", "role": "assistant", "content": text}).result()
        self.draw()

    def complete(self) -> None:
        self.turn.complete().result()
        self.draw()


@pytest.fixture
def watched() -> Iterator[Watched]:
    with turnlog.open("memory://") as log:
        yield Watched(log)


def test_growing_text_is_printed_once(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """P2: text that grows in the log is printed as it grows, each part once, and the final item adds nothing."""
    shown = []
    for part in ("The lamp ", "is lit.\n", "\n", "Go on."):
        watched.say(part)
        shown.append(capsys.readouterr().out)
    watched.answer("The lamp is lit.\n\nGo on.")
    watched.complete()
    assert shown == ["\nThe lamp ", "is lit.", "", "\n\nGo on."]
    assert capsys.readouterr().out == "\n"


def test_a_final_text_that_differs_is_said(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """P2: when the agent's final item is another text than was shown, the output says so and shows it whole."""
    watched.say("The lamp is lit")
    watched.answer("The lamp is out.")
    watched.complete()
    told = capsys.readouterr().out.split("\n")
    assert told == ["", "The lamp is lit", "(what was shown above was replaced by:)", "The lamp is out.", ""]


def test_a_failure_says_why_and_what_to_do(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """A failed step is printed with its title, its duration, the reason and the next step."""
    watched.step("s", kind="tool", title="Reading lamp.key", status="running", started_at=1_000)
    failure = Failure(reason="Permission denied.", next_step="Let me read it.")
    watched.step("s", status="failed", ended_at=13_000, failure=failure)
    assert capsys.readouterr().out.split("\n") == [
        "  Reading lamp.key · failed · 12 ms",
        "    Permission denied.",
        "    Next: Let me read it.",
        "",
    ]


def test_sub_agents_at_work_side_by_side_stay_apart(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps of sub-agents that work at the same time are printed under the one they belong to, none left out."""
    for agent in ("one", "two"):
        watched.step(agent, kind="subagent", title=agent, status="running")
    for agent in ("two", "one"):
        watched.step(f"{agent}-step", kind="tool", parent=agent, title=f"step of {agent}", status="succeeded")
    watched.step("two", status="succeeded")
    watched.step("one", status="succeeded")
    lines = [re.sub(r" · \d+ ms$", "", line.strip()) for line in capsys.readouterr().out.split("\n")]
    assert lines == [
        "▸ one",
        "step of one · done",
        "one · done",
        "▸ two",
        "step of two · done",
        "two · done",
        "",
    ]


def test_the_answer_is_not_held_up_by_what_is_not_over(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """P2: text of the answer is printed while an earlier step and a sub-agent are still at work."""
    watched.step("agent", kind="subagent", title="slow agent", status="running")
    watched.step("tool", kind="tool", title="slow tool", status="running")
    watched.say("Already known: yes.")
    assert "Already known: yes." in capsys.readouterr().out


def test_one_look_at_the_end_shows_everything(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """P9: drawn once, when all is over, the turn is printed in the order in which it happened, nothing left out."""
    for number in (1, 2):
        watched.turn.item({"type": "message", "role": "assistant", "content": f"text {number}"})
        watched.turn.step(f"s{number}", kind="tool", title=f"step {number}", status="succeeded")
    watched.complete()
    lines = [line.strip() for line in capsys.readouterr().out.split("\n")]
    assert [line for line in lines if line][::2] == ["text 1", "text 2"]
    assert [line.partition(" ·")[0] for line in lines if line][1::2] == ["step 1", "step 2"]


def test_nothing_in_the_log_commands_the_terminal(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in titles, details, reasons and text, whole or in parts, are printed as text."""
    evil = "\x1b]0;owned\x07\x1b[2J\r\x9b1A\u202e"
    watched.step("s", kind="tool", title=evil, detail=evil, status="failed", failure=Failure(reason=evil))
    watched.say("a\x1b")
    watched.say("[2Jb\r")
    watched.say("\nc")
    watched.complete()
    out = capsys.readouterr().out
    assert not set("\x1b\x07\r\x9b\u202e") & set(out)
    assert "a\\x1b[2Jb\nc" in out
