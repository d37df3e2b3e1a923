"""Replays what the real Codex said, in pieces of any size, and makes scenes that it never said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from turnlog.agents.codex.jsonrpc import Lines, Message, Reply, Told, read_message
from turnlog.agents.codex.translate import Translator
from turnlog.agents.protocol import (
    AttemptDroppedSignal,
    DraftSignal,
    ItemSignal,
    Signal,
    StepSignal,
    UsageSignal,
)

FOLDER: Final = Path(__file__).with_name("transcripts")
SCENES: Final = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def messages(data: bytes, size: int) -> list[Message]:
    """The messages of a transcript that comes in pieces of `size` bytes."""
    lines = Lines()
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return [read_message(line) for piece in pieces for line in lines.feed(piece)]


def replay(scene: str, size: int | None = None) -> tuple[list[Signal], Translator]:
    """The signals of a recorded turn, and the translator after it."""
    data = (FOLDER / f"{scene}.jsonl").read_bytes()
    said = messages(data, size or len(data))
    results = [json.loads(bytes(message.result)) for message in said if isinstance(message, Reply)]
    thread = next(result["thread"]["id"] for result in results if "thread" in result)
    turn = next(result["turn"]["id"] for result in results if "turn" in result)
    translator = Translator(thread=thread, turn=turn, client_id="client-1")
    return play(translator, (message for message in said if isinstance(message, Told))), translator


def play(translator: Translator, said: Iterable[Told]) -> list[Signal]:
    return [signal for told in said for signal in translator.take(told)]


def told(method: str, **params: Any) -> Told:
    """A notification of the turn U of the thread T."""
    return Told(method, msgspec.Raw(json.dumps({"threadId": "T", "turnId": "U", **params}).encode()))


def translator() -> Translator:
    return Translator(thread="T", turn="U", client_id="client-1")


def words(signals: Iterable[Signal]) -> list[str]:
    """Signals in short; drafts of one target joined, token counts left out."""
    said: list[str] = []
    last: DraftSignal | None = None
    for signal in signals:
        if (
            isinstance(signal, DraftSignal)
            and last is not None
            and (signal.target, signal.kind)
            == (
                last.target,
                last.kind,
            )
        ):
            said[-1] += signal.text
        elif not isinstance(signal, UsageSignal):
            said.append(_words(signal))
        last = signal if isinstance(signal, DraftSignal) else None
    return said


def _words(signal: Signal) -> str:
    match signal:
        case DraftSignal(text=text, target=target, kind=kind):
            return f"draft {kind} {target}: {text}"
        case ItemSignal(raw=raw, purpose=purpose):
            assert isinstance(raw, bytes)
            item = json.loads(raw)
            name = item.get("call_id") or item.get("id", "")
            return f"{purpose or 'item'} {item['type']} {item.get('role', name)}"
        case StepSignal(id=id_, step=kind, name=name, status=status):
            return f"step {kind} {name} {id_.rpartition('-')[2] if kind == 'phase' else id_} {status}"
        case AttemptDroppedSignal():
            return "dropped"
        case UsageSignal():
            return "usage"
