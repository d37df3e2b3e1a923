"""Scripts: what an agent will say in one turn, and by what names a log must keep it.

The expected names of drafts are written down here by hand, so that a log that names or closes them otherwise is found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from turnlog.agents.protocol import (
    AttemptDroppedSignal,
    DraftSignal,
    Finish,
    ItemSignal,
    Signal,
    StepSignal,
    UsageSignal,
)


@dataclass(frozen=True)
class Said:
    """A chunk of the draft that must be named `draft`. Unless `hurried`, the agent goes on once a reader saw it."""

    draft: str
    text: str
    targeted: bool = False
    hurried: bool = False

    @property
    def signal(self) -> DraftSignal:
        """What the agent emits."""
        _, target, kind, _ = self.draft.split("/")
        return DraftSignal(text=self.text, target=target if self.targeted else None, kind=kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Effect:
    """The agent does something in the world, for the call of this id."""

    call: str


@dataclass(frozen=True)
class Halt:
    """The agent says nothing more, and does not end."""


@dataclass(frozen=True)
class Ask:
    """The agent waits for a person's decision."""

    approval: str


Act: TypeAlias = Signal | Said | Effect | Halt | Ask | Finish


@dataclass(frozen=True)
class Script:
    """One turn. Without acts nobody starts it. `late` is an item that its owner sends after it has completed."""

    thread: str
    turn: str
    content: str
    acts: Sequence[Act] = ()
    key: str | None = None
    late: bytes | None = None

    def said(self) -> dict[str, str]:
        """The whole text of each draft."""
        texts: dict[str, str] = {}
        for act in self.acts:
            if isinstance(act, Said):
                joined = texts.get(act.draft, "") + act.text
                texts[act.draft] = joined.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return texts

    def raws(self) -> list[bytes]:
        """The bytes of each item, which are all different."""
        return [raw_of(act) for act in self.acts if isinstance(act, ItemSignal)]

    def steps(self) -> list[StepSignal]:
        """The steps, the one that carries the usage too."""
        found = [act for act in self.acts if isinstance(act, StepSignal)]
        for act in self.acts:
            if isinstance(act, UsageSignal):
                found.append(StepSignal(id="usage", step="note", title="Usage", status="succeeded", usage=act.usage))
        return found


def raw_of(signal: ItemSignal) -> bytes:
    """The bytes that must be kept of an item."""
    if isinstance(signal.raw, bytes):
        return signal.raw
    return json.dumps(signal.raw, separators=(",", ":"), ensure_ascii=False).encode()


def message(text: str, id_: str | None = None) -> ItemSignal:
    """The agent's own final message, in bytes that no encoder of ours would make."""
    named = "" if id_ is None else f'"id" : "{id_}", '
    content = json.dumps([{"type": "output_text", "text": text}])
    return ItemSignal(raw=f'{{ {named}"type":"message","role":"assistant", "content":{content} }}'.encode())


def answering(thread: str, turn: str, *, long: bool = False, key: str | None = None) -> Script:
    """A turn with everything in it, that completes. `long` chunks are written at once, not after a moment's wait."""

    def text(said: str) -> str:
        return f"{turn}: {said} " + "0123456789" * 103 * long

    tool = StepSignal(id="call_1", step="tool", call_id="call_1", name="read", status="running")
    helper = StepSignal(id="sub_1", step="subagent", title="helper", status="running")
    nested = StepSignal(id="sub_2", step="subagent", parent="sub_1", title="nested", status="running")
    acts: list[Act] = [
        Said("0/~0/reasoning/0", text("Let me look. ")),
        Said("0/~0/reasoning/0", text("There may be a file. ")),
        Said("0/~1/text/0", text("I will read it")),
        Said("0/~1/text/0", text(" soon."), hurried=True),
        Said("0/call_1/args/0", text('{"path":'), targeted=True),
        ItemSignal(
            raw={"type": "function_call", "call_id": "call_1", "name": "read", "arguments": f'{{"path":"{turn}"}}'}
        ),
        tool,
        Effect("call_1"),
        Said("0/call_1/output/0", text("line 1 \x00\u2028"), targeted=True),
        Said("0/call_1/output/0", text("line 2"), targeted=True, hurried=True),
        ItemSignal(raw=f'{{"type":"function_call_output","call_id":"call_1","output":"lines of {turn}"}}'.encode()),
        StepSignal(id="call_1", name="read", status="succeeded"),
        message(f"{turn}: I have read it now."),
        helper,
        nested,
        Said("0/sub_2/text/0", text("The nested one speaks."), targeted=True),
        StepSignal(id="sub_2.tool", step="tool", parent="sub_2", name="grep", status="running", args={"n": 1}),
        StepSignal(id="sub_2.tool", name="grep", status="failed", output="no such file"),
        StepSignal(id="sub_2", title="nested", status="succeeded", text="The nested one is done."),
        Said("0/sub_1/text/0", text("The helper speaks."), targeted=True, hurried=True),
        StepSignal(id="sub_1", title="helper", status="succeeded"),
        Said("0/~2/text/0", text("The fi")),
        AttemptDroppedSignal(reason="overloaded"),
        Said("1/~0/reasoning/0", text("Once more. ")),
        ItemSignal(raw=f'{{"type":"reasoning", "summary":["{turn}: once more"], "big":12345678901234567890}}'.encode()),
        Said("1/msg_1/text/0", text("The answer is \ud83d"), targeted=True),
        Said("1/msg_1/text/0", text("\ude00!"), targeted=True),
        message(f"{turn}: the answer is another.", "msg_1"),
        UsageSignal(usage={"tokens": 17}),
        Said("1/~1/text/0", text("Bye")),
        Said("1/~1/text/0", text(" bye."), hurried=True),
        Finish(finish_reason="stop"),
    ]
    late = f'{{"type":"message", "late":"{turn}"}}'.encode()
    return Script(thread, turn, f"answer {turn}\x00\u2028\ud800", acts, key, late)


def halting(thread: str, turn: str, *, long: bool = False, key: str | None = None) -> Script:
    """A turn that is left open with a draft of each kind, a call whose outcome is unknown, and a running helper."""

    def text(said: str) -> str:
        return f"{turn}: {said} " + "0123456789" * 103 * long

    acts: list[Act] = [
        Said("0/rs_1/reasoning/0", text("Thinking."), targeted=True),
        Said("0/msg_1/text/0", text("Before the call. "), targeted=True),
        ItemSignal(raw=f'{{"type":"function_call","call_id":"call_1","name":"pay","arguments":"{turn}"}}'.encode()),
        Effect("call_1"),
        StepSignal(id="sub_1", step="subagent", title="helper", status="running"),
        Said("0/sub_1/text/0", text("The helper began. "), targeted=True),
        Said("0/call_1/output/0", text("Half an output"), targeted=True),
        Said("0/call_2/args/0", text('{"half":"an arg'), targeted=True),
        Said("0/msg_1/text/0", text("After the call."), targeted=True),
        Said("0/~0/text/0", text("Without a name.")),
        Halt(),
    ]
    return Script(thread, turn, f"halt {turn}", acts, key)


def waiting(thread: str, turn: str, *, key: str | None = None) -> Script:
    """A turn that was accepted and that nobody starts."""
    return Script(thread, turn, f"wait {turn}", (), key)


def brief(thread: str, turn: str, *, key: str | None = None) -> Script:
    """The shortest turn that has a draft, an item and an end; its draft is written at once."""
    acts: list[Act] = [
        Said("0/~0/text/0", f"{turn}: said. " + "0123456789" * 103),
        ItemSignal(raw=f'{{"type":"function_call","call_id":"call_1","name":"look","arguments":"{turn}"}}'.encode()),
        message(f"{turn}: said at last."),
        Finish(),
    ]
    return Script(thread, turn, f"brief {turn}", acts, key)


def asking(thread: str, turn: str, *, key: str | None = None) -> Script:
    """A turn that asks a person, and does what it asked for once that is decided."""
    acts: list[Act] = [
        Said("0/~0/text/0", f"{turn}: may I? "),
        ItemSignal(raw=f'{{"type":"function_call","call_id":"call_1","name":"pay","arguments":"{turn}"}}'.encode()),
        StepSignal(id=APPROVAL, step="approval", title="Pay?", status="waiting"),
        Ask(APPROVAL),
        StepSignal(id=APPROVAL, status="succeeded"),
        Effect("call_1"),
        ItemSignal(raw=f'{{"type":"function_call_output","call_id":"call_1","output":"paid {turn}"}}'.encode()),
        message(f"{turn}: it is done."),
        Finish(),
    ]
    return Script(thread, turn, f"ask {turn}", acts, key)


APPROVAL: Final = "approval_1"
"""What a script asks for is named so."""

THREADS: Final = ("answered", "halted", "waiting")


def standard(*, long: bool = False, round_: str = "1") -> list[Script]:
    """The scripts that most proofs play at once: one turn that ends, one left open, one never started."""
    return [
        answering("answered", f"a{round_}", long=long, key=f"key-a{round_}"),
        halting("halted", f"h{round_}", long=long, key=f"key-h{round_}"),
        waiting("waiting", f"w{round_}"),
    ]
