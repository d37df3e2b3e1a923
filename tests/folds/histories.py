"""Random threads for the history: any turn may go on beside any other, and anything may be lost, late or hidden.

Wilder than what the journal writes on purpose: a history must hold for damaged and foreign logs too. Every item carries
the seq of its event as `mark`, so that a test can tell what became of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from turnlog.events.codec import encode_body, encode_json
from turnlog.events.kinds import (
    AttemptDropped,
    Damaged,
    Event,
    Item,
    KnownBody,
    Submitted,
    ThreadCreated,
    ThreadItem,
    ThreadLate,
    Unknown,
)
from turnlog.events.thread_kinds import ThreadCompacted, ThreadForked, ThreadRepaired, ThreadTruncated

CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "computer_call": "computer_call_output",
    "mcp_tool_call": "mcp_tool_call_output",
}
HOSTED: Final = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
STRANGE: Final = ("item_reference", "compaction", "mcp_list_tools", "mcp_approval_request", "agent_message")
TEXTS: Final = st.sampled_from(["a", "\ud83d", "\ude00", "Grüße \u2028", "\x00", '"]},{', "\\"])
IDS: Final = st.sampled_from(["c1", "c2", "c3", "c4", "c5", "\ud83d"])


@dataclass
class Log:
    """One thread. `turns` are those submitted, with the seq of their first event."""

    events: list[Event] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)

    @property
    def head(self) -> int:
        return len(self.events)

    def add(self, body: Any, turn: str | None = None, kind: str | None = None) -> int:
        seq = self.head + 1
        data = b"" if isinstance(body, Damaged | Unknown) else encode_body(body)
        self.events.append(Event(thread="t", seq=seq, turn=turn, at=0, kind=kind or body.kind, body=body, data=data))
        if turn is not None:
            self.turns.setdefault(turn, seq)
        return seq

    def submit(self, text: str = "q", **fields: Any) -> str:
        turn = f"turn-{len(self.turns) + 1}"
        content = [{"type": "input_text", "text": text, "mark": self.head + 1}]
        self.add(Submitted(content=content, digest="d", **fields), turn)
        return turn

    def item(self, turn: str | None, type_: str, *, raw: bytes | None = None, **fields: Any) -> int:
        known: dict[str, Any] = {
            name: fields.pop(name) for name in ("purpose", "synthesized", "format") if name in fields
        }
        whole = {"type": type_, **fields, "mark": self.head + 1}
        raw = encode_json(whole) if raw is None else raw
        kept: dict[str, Any] = {
            "type": type_,
            "id": fields.get("id"),
            "call_id": fields.get("call_id"),
            "raw": raw,
            **known,
        }
        body: KnownBody = ThreadItem(**kept) if turn is None else Item(**kept)
        return self.add(body, turn)

    def message(self, turn: str | None, text: str = "a", role: str = "assistant", **fields: Any) -> int:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        return self.item(turn, "message", role=role, content=[part], **fields)

    def call(self, turn: str | None, call_id: str, type_: str = "function_call", **fields: Any) -> int:
        fields |= {"name": "look", "input" if type_ == "custom_tool_call" else "arguments": "{}"}
        return self.item(turn, type_, call_id=call_id, **fields)

    def output(self, turn: str | None, call_id: str, type_: str = "function_call", **fields: Any) -> int:
        return self.item(turn, CALLS[type_], call_id=call_id, output="done", **fields)

    def reasoning(self, turn: str | None, **fields: Any) -> int:
        return self.item(turn, "reasoning", summary=[{"type": "summary_text", "text": "hm"}], **fields)

    def truncate(self, turn: str, why: Any = "undo") -> int:
        """Hide a turn and all that was begun after it."""
        return self.add(ThreadTruncated(after=self.turns[turn] - 1, turn=turn, why=why))

    def compact(self, until: int, summary: str = "all of it") -> int:
        return self.add(ThreadCompacted(summary=summary, until=until))

    def drop_attempt(self, turn: str) -> int:
        return self.add(AttemptDropped(attempt=0), turn)

    def late(self, turn: str) -> int:
        raw = encode_json({"type": "message", "role": "assistant", "content": "late", "mark": self.head + 1})
        return self.add(ThreadLate(of=turn, late="item", raw=encode_body(Item(type="message", raw=raw))))


def marks(items: Any) -> list[int]:
    """Which events the items come from, in order; 0 for what was added."""
    found = []
    for raw in items:
        try:
            item = json.loads(raw)
        except ValueError:
            continue
        part = item["content"][0] if isinstance(item.get("content"), list) and item["content"] else {}
        found.append(item.get("mark") or (part.get("mark") if isinstance(part, dict) else None) or 0)
    return found


@st.composite
def logs(draw: st.DrawFn, most: int = 40) -> Log:
    """A thread of up to `most` actions."""
    log = Log()
    log.add(ThreadCreated())
    for _ in range(draw(st.integers(0, most))):
        if not log.turns or draw(st.integers(0, 5)) == 0:
            _submit(draw, log)
        else:
            _act(draw, log, draw(st.sampled_from([*list(log.turns)[-2:], list(log.turns)[-1], None])))
    return log


def _submit(draw: st.DrawFn, log: Log) -> None:
    turns = [None, *log.turns]
    turn = log.submit(draw(TEXTS), retry_of=draw(st.sampled_from(turns)))
    if draw(st.integers(0, 3)) == 0:
        log.message(turn, draw(TEXTS), "user", id="msg_1", purpose="submission")


def _act(draw: st.DrawFn, log: Log, turn: str | None) -> None:
    extra: dict[str, Any] = draw(
        st.sampled_from([{}, {"id": "x_1"}, {"id": "x_2", "encrypted_content": "gAAA"}, {"n": 9007199254740993}])
    )
    type_ = draw(st.sampled_from(["function_call", "function_call", *CALLS]))
    match draw(st.integers(0, 15)):
        case 0 | 1:
            log.message(
                turn, draw(TEXTS), draw(st.sampled_from(["assistant", "assistant", "user", "developer"])), **extra
            )
        case 2 | 3 | 4:
            log.call(turn, draw(IDS), type_, **extra)
        case 5 | 6 | 7:
            log.output(turn, draw(IDS), type_, **extra)
        case 8 | 9:
            log.reasoning(turn, **extra)
        case 10:
            log.item(turn, draw(st.sampled_from(HOSTED + STRANGE)), **{"id": "h_1", **extra})
        case 11:
            part = draw(st.sampled_from([{"file_id": "f"}, {"image_url": "u"}, {"file_id": "f", "image_url": "u"}]))
            log.item(turn, "message", role="user", content=[{"type": "input_image", **part}])
        case 12 if turn is not None:
            draw(st.sampled_from([log.drop_attempt, log.late]))(turn)
        case 13 if turn is not None:
            log.message(turn, "half", synthesized="interrupted")
        case 14:
            _spoil(draw, log, turn)
        case 15:
            _as_a_whole(draw, log)
        case _:
            pass


def _spoil(draw: st.DrawFn, log: Log, turn: str | None) -> None:
    match draw(st.integers(0, 6)):
        case 6:
            raw = draw(st.sampled_from([b"{}", b'{"type":null,"text":"t"}', b'{"type":"message","role":"user"}']))
            log.item(turn, "", raw=raw)
        case 0:
            log.add(Damaged(problem="torn"), turn, "item" if turn else "thread_item")
        case 1:
            log.add(Unknown(), turn, "from_the_future")
        case 2:
            log.item(turn, "message", raw=b'{"torn')
        case 3:
            log.item(turn, "message", raw=b'{"role":"assistant"}', format="chat")
        case 4 if turn is not None:
            log.message(turn, "summary", purpose="compaction")
        case _:
            log.call(turn, "")


def _as_a_whole(draw: st.DrawFn, log: Log) -> None:
    match draw(st.integers(0, 5)):
        case 0 | 1:
            log.truncate(draw(st.sampled_from(list(log.turns))))
        case 2:
            log.truncate(draw(st.sampled_from(list(log.turns))), "edit")
            log.submit("edited")
        case 3 | 4:
            log.compact(draw(st.integers(1, log.head + 3)), draw(TEXTS))
        case _:
            log.add(draw(st.sampled_from([ThreadForked(of="s", epoch="e", seq=1), ThreadRepaired(finding="draft")])))
