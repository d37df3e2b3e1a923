"""Events and drafts as lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

from turnlog.cli.output import Output, complain
from turnlog.cli.words import cut_to, one_line, shell_word
from turnlog.errors import CursorUnprovable
from turnlog.events.codec import json_line
from turnlog.events.kinds import (
    AttemptDropped,
    Completed,
    Damaged,
    Draft,
    Event,
    Interrupted,
    Item,
    Requested,
    Step,
    Submitted,
    ThreadItem,
    ThreadLate,
    WorkerStarted,
)
from turnlog.folds.items import call_args, call_name, parts_text, read_item, reasoning_text
from turnlog.folds.turn import content_text
from turnlog.journal.documents import draft_frame, event_frame
from turnlog.journal.log import Log

_KIND_COLUMNS = 17


class Tailing:
    """Prints a thread as it is in the log."""

    def __init__(self, out: Output, epoch: str, *, as_json: bool) -> None:
        self._out, self._epoch, self._as_json = out, epoch, as_json
        self._turn: str | None = None

    def reset(self, error: CursorUnprovable) -> None:
        """The cursor proves nothing here: where to go on from."""
        self._out.json(json_line({"event": "reset", "data": {"reason": error.reason, "head": error.head}}))

    def all_of(self, log: Log, thread: str, after: int) -> None:
        """What is there now, and the cursor to go on from."""
        for event in log.events(thread, after=after):
            self.show(event)
            after = event.seq
        for draft in log.drafts(thread):
            self.show(draft)
        self._out.flush()
        complain(f"cursor {self._epoch}.{after}")

    async def follow(self, news: AsyncIterator[Event | Draft]) -> None:
        """What is there and what comes."""
        async for piece in news:
            self.show(piece)
            self._out.flush()

    def show(self, piece: Event | Draft) -> None:
        """One event or chunk of a draft, as one line; a line before says of which turn."""
        if self._as_json:
            self._out.json(draft_frame(piece) if isinstance(piece, Draft) else event_frame(piece, self._epoch))
            return
        if piece.turn is not None and piece.turn != self._turn:
            self._out.line(f"turn {shell_word(piece.turn)}", "bold")
            self._turn = piece.turn
        if isinstance(piece, Draft):
            at, kind, said = "", "draft", f"+{piece.offset} {piece.text!r}"
        else:
            at, kind, said = f"{piece.seq}", piece.kind, _said(piece)
        line = f"{at:>7}  {one_line(kind):<{_KIND_COLUMNS}}  {one_line(said)}"
        self._out.line(cut_to(line, self._out.columns).rstrip(), "dim" if isinstance(piece, Draft) else "plain")


def _said(event: Event) -> str:
    match event.body:
        case Submitted() as body:
            return content_text(body.content)
        case WorkerStarted() as body:
            return f"{body.agent or ''} {body.agent_version or ''}"
        case Item() | ThreadItem() as body:
            return _item_said(body)
        case Step() as body:
            parts = [body.title or body.name or body.id, body.status, body.failure and body.failure.reason]
            return " · ".join(part for part in parts if part)
        case AttemptDropped() as body:
            return body.reason or ""
        case Requested() as body:
            return " · ".join(part for part in (body.what, body.approval, body.by) if part)
        case Completed() as body:
            return body.finish_reason or ""
        case Interrupted() as body:
            return " · ".join(part for part in (body.reason, body.detail) if part)
        case ThreadLate() as body:
            return f"{body.late} of turn {body.of}"
        case Damaged() as body:
            return f"cannot be read: {body.problem}"
        case _:
            return ""


def _item_said(body: Item | ThreadItem) -> str:
    item = read_item(body.raw)
    if item is None:
        return "cannot be read"
    if body.type.endswith("_call"):
        return f"{body.type} {call_name(item, body.type)} {call_args(item) or ''}"
    text = reasoning_text(item) if body.type == "reasoning" else parts_text(item.content or item.output)
    return f"{body.type or 'message'} {text}"
