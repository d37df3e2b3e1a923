"""What a scripted Responses endpoint answers with: one function for each kind of answer, good or broken.

An `Answer` is called with the number of the request, from which the ids of its items are made, and gives acts: events
to send, gates to wait at, and how it ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

End: TypeAlias = Literal["end", "reset", "hang"]
"""How an answer ends: its body ends in good order, the connection is reset, or nothing more ever comes."""


@dataclass(frozen=True)
class Status:
    """A plain HTTP answer instead of a stream of events."""

    status: int
    body: bytes


class Headers:
    """Send the headers of a stream now, before its first event."""


Act: TypeAlias = dict[str, Any] | threading.Event | Status | Headers | End
Answer: TypeAlias = Callable[[int], Iterator[Act]]

TOKENS: Final = 120
"""What a finished answer says it took in all, 20 of it for its own words."""


def text(
    said: str, *, chunks: int = 3, gate: threading.Event | None = None, tokens: int = TOKENS, **fields: Any
) -> Answer:
    """A message in so many pieces. With a `gate` it stops before the last piece until the gate is set."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        yield from _message(f"msg_{number:04}", said, chunks, gate, fields)
        yield _completed(number, tokens)

    return acts


def reasoning_text(thought: str, said: str) -> Answer:
    """A thought with a streamed summary and encrypted content, then a message."""

    def acts(number: int) -> Iterator[Act]:
        item = f"rs_{number:04}"
        yield _created(number)
        yield _event("response.output_item.added", item={"type": "reasoning", "id": item, "summary": []})
        yield _event("response.reasoning_summary_part.added", item_id=item, summary_index=0)
        for piece in _pieces(thought, 2):
            yield _event("response.reasoning_summary_text.delta", item_id=item, summary_index=0, delta=piece)
        summary = [{"type": "summary_text", "text": thought}]
        done = {"type": "reasoning", "id": item, "summary": summary, "encrypted_content": f"gAAAA{number}"}
        yield _event("response.output_item.done", item=done)
        yield from _message(f"msg_{number:04}", said, 1, None, {})
        yield _completed(number)

    return acts


def call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    preamble: str | None = None,
    end: End | None = None,
    tokens: int = TOKENS,
    **fields: Any,
) -> Answer:
    """A function call, after a message if there is a `preamble`. With `end` it ends so, after the call."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        if preamble is not None:
            yield from _message(f"msg_{number:04}", preamble, 1, None, {})
        item = {
            "type": "function_call",
            "id": f"fc_{number:04}",
            "call_id": f"call_{number:04}",
            "name": name,
            "arguments": json.dumps(arguments),
            **fields,
        }
        yield from _whole(item)
        yield end or _completed(number, tokens)

    return acts


def shell(command: str, *, preamble: str | None = None, tokens: int = TOKENS, **more: Any) -> Answer:
    """A call of Codex's own shell tool, with `more` arguments."""
    return call("exec_command", {"cmd": command, **more}, preamble=preamble, tokens=tokens)


def half_call(name: str, begun: str) -> Answer:
    """A call whose connection is reset in the middle of its arguments."""

    def acts(number: int) -> Iterator[Act]:
        item = {"type": "function_call", "id": f"fc_{number:04}", "call_id": f"call_{number:04}", "name": name}
        yield _created(number)
        yield _event("response.output_item.added", item={**item, "arguments": ""})
        yield _event("response.function_call_arguments.delta", item_id=item["id"], delta=begun)
        yield "reset"

    return acts


def items(*raw: Mapping[str, Any]) -> Answer:
    """Any raw items, each added and done."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        for item in raw:
            yield from _whole(item)
        yield _completed(number)

    return acts


def broken(said: str, end: End, *, finished: Sequence[Mapping[str, Any]] = ()) -> Answer:
    """Finished items, then the beginning of a message, then this end without a final event."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        for item in finished:
            yield from _whole(item)
        if said:
            yield from _begun(f"msg_{number:04}", said, 2)
        yield end

    return acts


def http(status: int, message: str = "the endpoint's own words") -> Answer:
    """A plain HTTP error."""
    body = json.dumps({"error": {"message": message, "type": "scripted"}}).encode()

    def acts(_number: int) -> Iterator[Act]:
        yield Status(status, body)

    return acts


def failed(code: str, message: str, *, finished: Sequence[Mapping[str, Any]] = ()) -> Answer:
    """Finished items, then the provider's own failure."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        for item in finished:
            yield from _whole(item)
        error = {"code": code, "message": message}
        yield _event("response.failed", response={"id": _response(number), "status": "failed", "error": error})

    return acts


def incomplete(said: str) -> Answer:
    """A message that the provider cut at its length limit."""

    def acts(number: int) -> Iterator[Act]:
        yield _created(number)
        yield from _message(f"msg_{number:04}", said, 1, None, {})
        reason = {"reason": "max_output_tokens"}
        yield _event("response.incomplete", response={"id": _response(number), "incomplete_details": reason})

    return acts


def hang(*, headers: bool) -> Answer:
    """Nothing ever comes: not even the headers, or nothing but them and the first event."""

    def acts(number: int) -> Iterator[Act]:
        if headers:
            yield Headers()
            yield _created(number)
        yield "hang"

    return acts


def _event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def _response(number: int) -> str:
    return f"resp_{number:04}"


def _created(number: int) -> dict[str, Any]:
    return _event("response.created", response={"id": _response(number)})


def _completed(number: int, tokens: int = TOKENS) -> dict[str, Any]:
    usage = {
        "input_tokens": tokens - 20,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": tokens,
    }
    return _event("response.completed", response={"id": _response(number), "usage": usage})


def _whole(item: Mapping[str, Any]) -> Iterator[Act]:
    yield _event("response.output_item.added", item=dict(item))
    yield _event("response.output_item.done", item=dict(item))


def _begun(item: str, said: str, chunks: int, gate: threading.Event | None = None) -> Iterator[Act]:
    added = {"type": "message", "id": item, "role": "assistant", "content": []}
    yield _event("response.output_item.added", item=added)
    pieces = _pieces(said, chunks)
    for at, piece in enumerate(pieces):
        if gate is not None and at == len(pieces) - 1:
            yield gate
        yield _event("response.output_text.delta", item_id=item, delta=piece)


def _message(
    item: str, said: str, chunks: int, gate: threading.Event | None, fields: Mapping[str, Any]
) -> Iterator[Act]:
    yield from _begun(item, said, chunks, gate)
    content = [{"type": "output_text", "text": said, "annotations": []}]
    done = {"type": "message", "id": item, "role": "assistant", "status": "completed", "content": content, **fields}
    yield _event("response.output_item.done", item=done)


def _pieces(said: str, chunks: int) -> list[str]:
    """A text in at most so many pieces of about one length."""
    size = max(1, -(-len(said) // chunks))
    return [said[at : at + size] for at in range(0, len(said), size)]
