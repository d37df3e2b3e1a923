"""P3 of one turn: every word in it was said by its script, in the place where it stands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from turnlog.agents.protocol import StepSignal

from .scripts import Script
from .stored import StoredEvent, StoredThread

ENDS = {"completed", "interrupted"}
FIELDS = ("parent", "kind", "call_id", "name", "title", "status", "usage", "detail")
"""Of a step, what only the agent says; text, args and output may also come from drafts."""


class Words:
    """The words of one turn of a thread, against its script."""

    def __init__(self, thread: StoredThread, turn: str, script: Script) -> None:
        self._events = thread.of(turn)
        self._drafts = {draft: thread.draft(turn, draft) or "" for of, draft in thread.chunks if of == turn}
        self._script = script
        self._said = script.said()
        self._end = self._events[-1] if self._events and self._events[-1].kind in ENDS else None
        self._closed: dict[str, StoredEvent] = {}
        for event in self._events:
            for closed in event.fields.get("closes", ()):
                self._closed[closed["draft"]] = event

    def wrong(self) -> Iterator[str]:
        """All that nobody said, and what is missing of a turn that completed."""
        yield from self._wrong_drafts()
        raws = Counter(event.raw for event in self._events if event.kind == "item" and not _synthesized(event))
        for raw, count in raws.items():
            if raw not in self._script.raws() or count > 1:
                yield f"the item {raw!r} is there {count} times, and was said {self._script.raws().count(raw)} times"
        for event in self._events:
            if event.kind == "item" and _synthesized(event):
                yield from self._wrong_synthesized(event)
            elif event.kind == "step":
                yield from self._wrong_step(event)
            elif event.kind == "attempt_dropped":
                yield from self._wrong_dropped(event)
        yield from self._wrong_order()
        if self._end is not None and self._end.kind == "interrupted":
            yield from self._wrong_end(self._end)
        elif self._end is not None:
            yield from self._incomplete(raws)

    def _begins(self, draft: str, text: str | None) -> bool:
        """Whether a text is what was said in a draft, up to some place."""
        return text is not None and self._said.get(draft, "").startswith(text)

    def _wrong_drafts(self) -> Iterator[str]:
        for draft, text in self._drafts.items():
            if draft not in self._said or not self._begins(draft, text):
                yield f"the draft {draft} holds {text!r}"
        for draft in self._closed:
            if draft not in self._said:
                yield f"closes a draft {draft} that nobody wrote"

    def _wrong_order(self) -> Iterator[str]:
        """What ends together is in the order in which it began: drafts by their places."""
        places: list[tuple[int, int]] = []
        for event in self._events:
            closes = event.fields.get("closes", ())
            if closes and (_synthesized(event) or event.fields.get("id", "").startswith("~")):
                places.append((closes[0]["after"], closes[0]["rev"]))
        if places != sorted(places):
            yield f"the drafts ended in the order {places}"

    def _wrong_synthesized(self, event: StoredEvent) -> Iterator[str]:
        kind = event.fields["synthesized"]
        expected = {"completed": "no_final_item", "interrupted": "interrupted"}
        if self._end is None or kind != expected[self._end.kind]:
            yield f"seq {event.seq} is synthesized {kind}"
        text = text_of(event)
        closes = [closed["draft"] for closed in event.fields.get("closes", ())] or list(self._said)
        if not any("/text/" in draft and self._begins(draft, text) for draft in closes):
            yield f"nobody said what seq {event.seq} holds: {text!r}"

    def _wrong_step(self, event: StoredEvent) -> Iterator[str]:
        fields = event.fields
        own = next((step for step in self._script.steps() if _is(step, fields)), None)
        drafts = [closed["draft"] for closed in fields.get("closes", ())]
        for field in ("text", "args", "output"):
            value = fields.get(field)
            if value is None or (own is not None and value == getattr(own, field)):
                continue
            sources = [draft for draft in drafts or self._said if field_of(draft) == field]
            if not any(self._begins(draft, value) for draft in sources):
                yield f"nobody said the {field} of the step at seq {event.seq}: {value!r}"
        if own is None and not self._may_be_synthesized(fields):
            yield f"nobody took the step at seq {event.seq}: {fields}"

    def _may_be_synthesized(self, fields: dict[str, Any]) -> bool:
        """A step that closes a draft when the turn ends: what was not said to its end is not called a success."""
        if self._end is None or fields.get("name") is not None or fields.get("title") is not None:
            return False
        if self._end.kind == "interrupted":
            return fields.get("status") == "interrupted"
        return fields.get("status") == ("unknown" if fields["kind"] == "tool" else "succeeded")

    def _wrong_dropped(self, event: StoredEvent) -> Iterator[str]:
        for one in event.fields.get("dropped", ()):
            if not self._begins(one["draft"], one["text"]):
                yield f"seq {event.seq} drops {one}"
        closed = {closed["draft"] for closed in event.fields.get("closes", ())}
        if missing := closed - {one["draft"] for one in event.fields.get("dropped", ())}:
            yield f"seq {event.seq} closes {sorted(missing)} without their text"

    def _wrong_end(self, end: StoredEvent) -> Iterator[str]:
        """Of a call that had begun, the outcome is known or called unknown."""
        begun: dict[str, None] = {}
        for event in self._events:
            fields = event.fields
            call = str(fields.get("call_id") or fields.get("id"))
            if event.kind == "item" and fields.get("type") == "function_call":
                begun[call] = None
            elif event.kind == "item" and fields.get("type") == "function_call_output":
                begun.pop(call, None)
            elif event.kind == "step" and any(_is(step, fields) for step in self._script.steps()):
                if fields["status"] in ("succeeded", "failed"):
                    begun.pop(call, None)
                elif fields.get("kind") == "tool":
                    begun[call] = None
        if list(begun) != end.fields.get("unknown_calls", []):
            yield f"the calls {list(begun)} have no outcome, and the end names {end.fields.get('unknown_calls')}"

    def _incomplete(self, raws: Counter[bytes]) -> Iterator[str]:
        if missing := [raw for raw in self._script.raws() if raw not in raws]:
            yield f"completed without {missing}"
        for draft, event in self._closed.items():
            text = self._taken_over(event, draft)
            if text is not None and text != self._said.get(draft):
                yield f"completed, and of {draft} only {text!r} is kept"

    def _taken_over(self, event: StoredEvent, draft: str) -> str | None:
        """What an event keeps of a draft it closes; None when the agent itself said something in its place."""
        fields = event.fields
        if event.kind == "item":
            text = text_of(event) if _synthesized(event) else None
        elif event.kind == "attempt_dropped":
            text = next((one["text"] for one in fields.get("dropped", ()) if one["draft"] == draft), "")
        else:
            field = field_of(draft)
            text = None if says(self._script, fields, field) else fields.get(field, "")
        return text


def text_of(event: StoredEvent) -> str:
    """The text of a synthesized item, which must have exactly the documented form."""
    value: dict[str, Any] = json.loads(event.raw)
    (part,) = value["content"]
    text = part["text"]
    assert isinstance(text, str)
    assert value == {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return text


def field_of(draft: str) -> str:
    """The field of a step that takes a draft over."""
    kind = draft.split("/")[-2]
    return "text" if kind == "reasoning" else kind


def says(script: Script, fields: dict[str, Any], field: str) -> bool:
    """Whether the stored fields are a step of the agent that itself says this field."""
    said = [getattr(step, field) for step in script.steps() if _is(step, fields)]
    return fields.get(field) is not None and fields[field] in said


def takes(script: Script, fields: dict[str, Any]) -> bool:
    """Whether stored fields are a step of the agent."""
    return any(_is(step, fields) for step in script.steps())


def _synthesized(event: StoredEvent) -> bool:
    return "synthesized" in event.fields


def _is(step: StepSignal, fields: dict[str, Any]) -> bool:
    """Whether stored fields are this step of the agent."""
    told = {name: getattr(step, "step" if name == "kind" else name) for name in FIELDS}
    return step.id == fields["id"] and told == {name: fields.get(name) for name in FIELDS}
