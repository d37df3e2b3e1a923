"""Views as JSON documents of the shapes in `shapes`. Pure: a document is built of what was read.

A document whose parts are bytes already (raw items, events) is given as bytes, all others as a shape for `json_line`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from turnlog.errors import InvalidInput, RecordDamaged
from turnlog.events.clock import rfc3339
from turnlog.events.codec import decode_json, event_json, json_line, one_line
from turnlog.events.kinds import Draft, Event, Failure
from turnlog.folds.drafts import draft_name
from turnlog.folds.entries import Entry
from turnlog.folds.findings import Finding
from turnlog.folds.history import History
from turnlog.folds.repair import RepairPlan, RepairReport
from turnlog.folds.transcript import Message
from turnlog.journal import shapes
from turnlog.journal.listed import ListedTurn
from turnlog.journal.reading import ThreadView, TranscriptPage, ViewPage
from turnlog.journal.recovery import Recovered
from turnlog.journal.verifying import Progress

_TIMES: Final = frozenset({"at", "created_at", "updated_at", "submitted_at", "started_at", "settled_at", "ended_at"})


def thread_row(view: ThreadView) -> shapes.ThreadRow:
    """A thread in a list."""
    return shapes.ThreadRow(**_fields(view))


def turn_row(row: ListedTurn) -> shapes.TurnRow:
    """A turn in a list."""
    return shapes.TurnRow(**_fields(row), hidden=row.hidden)


def threads_document(page: ViewPage[ThreadView]) -> shapes.Threads:
    """A page of threads."""
    return shapes.Threads(threads=[thread_row(row) for row in page.rows], next=cursor_text(page.next))


def turns_document(page: ViewPage[ListedTurn], at: str) -> shapes.Turns:
    """A page of a thread's turns. `at` is a cursor from before they were read."""
    return shapes.Turns(turns=[turn_row(row) for row in page.rows], next=cursor_text(page.next), at=at)


def newest_turns_document(page: ViewPage[ListedTurn]) -> shapes.NewestTurns:
    """A page of turns, the newest of each thread."""
    return shapes.NewestTurns(turns=[turn_row(row) for row in page.rows], next=cursor_text(page.next))


def transcript_document(page: TranscriptPage) -> shapes.TranscriptPage:
    """A page of a transcript, with the rows of its turns."""
    return shapes.TranscriptPage(
        messages=[_message(message) for message in page.messages],
        notices=[shapes.NoticeFacts(**_fields(notice)) for notice in page.notices],
        turns=[turn_row(row) for row in page.turns],
        next=cursor_text(page.next),
        at=page.at,
    )


def timeline_document(
    row: ListedTurn, entries: Sequence[shapes.Entry], epoch: str, *, next: str | None = None
) -> shapes.Timeline:
    """One turn's trace, or a page of it and the place where the next one begins."""
    return shapes.Timeline(turn=turn_row(row), entries=list(entries), next=next, at=f"{epoch}.{row.seq_last}")


def entry_shape(entry: Entry) -> shapes.Entry:
    """One entry of a timeline."""
    return shapes.Entry(**{**_fields(entry), "failure": _failure(entry.failure)})


def history_document(history: History, at: str) -> bytes:
    """What an agent is given. `at` is the cursor behind the last event that was read."""
    rest = {
        "added": [shapes.AddedItem(at=added.at, why=added.why) for added in history.added],
        "omitted": [shapes.OmittedEvent(seq=it.seq, until=it.until, why=it.why) for it in history.omitted],
        "changed": history.changed,
        "at": at,
    }
    return _listed("items", [_item_json(raw) for raw in history.items], rest)


def events_document(events: Sequence[Event], *, next: str | None, at: str) -> bytes:
    """A page of a thread's events. `next` is the cursor of the page after it, `at` the one behind its last event."""
    return _listed("events", [event_json(event) for event in events], {"next": next, "at": at})


def recovered_document(recovered: Sequence[Recovered]) -> dict[str, Any]:
    """What a recovery settled."""
    return {"recovered": [turn._asdict() | {"unknown_calls": list(turn.unknown_calls)} for turn in recovered]}


def finding_facts(found: Finding) -> shapes.FindingFacts:
    """A finding."""
    return shapes.FindingFacts(**msgspec.structs.asdict(found))


def finding_json(found: Finding) -> bytes:
    """A finding on one line."""
    return json_line(finding_facts(found))


def progress_fields(progress: Progress) -> dict[str, Any]:
    """How far a verification came."""
    return {"threads": progress.threads, "events": progress.events}


def repair_document(plan: RepairPlan, report: RepairReport | None) -> shapes.Repair:
    """A plan of repair, and what became of it when it was carried out."""
    steps = [
        shapes.RepairStep(
            action=step.action,
            thread=step.thread,
            turn=step.turn,
            says=step.says,
            findings=[finding_facts(found) for found in step.findings],
        )
        for step in plan.steps
    ]
    done = None
    if report is not None:
        done = [shapes.RepairDone(**msgspec.structs.asdict(step)) for step in report.steps]
    left = [finding_facts(found) for found in plan.left]
    return shapes.Repair(plan=plan.id, steps=steps, left=left, more=plan.more, done=done)


def event_frame(event: Event, epoch: str) -> bytes:
    """One event of a stream, as a line of JSON without its LF: `{"event":"event","id":cursor,"data":event}`."""
    head = json_line({"event": "event", "id": f"{epoch}.{event.seq}"})
    return head[:-1] + b',"data":' + event_json(event) + b"}"


def turn_frame(row: ListedTurn, *, duplicate: bool) -> bytes:
    """What became of a submission, likewise: the row of its turn, and whether it was in the log before."""
    data = msgspec.structs.asdict(turn_row(row))
    return json_line({"event": "turn", "data": {**data, "duplicate": duplicate}})


def draft_frame(draft: Draft) -> bytes:
    """One chunk of a draft in a stream, likewise."""
    return b'{"event":"draft","data":' + draft_json(draft) + b"}"


def draft_json(draft: Draft) -> bytes:
    """One chunk of a draft on one line. `item` is what it targets; an anonymous draft has none."""
    name = draft_name(draft.draft)
    return json_line(
        shapes.DraftChunk(
            turn=draft.turn,
            draft=draft.draft,
            item=None if name.anonymous else name.target,
            kind=name.kind,
            after=draft.after,
            offset=draft.offset,
            text=draft.text,
        )
    )


def cursor_text(cursor: bytes | None) -> str | None:
    """The place where a list goes on, as text that needs no quoting anywhere."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).decode().rstrip("=")


def cursor_of(text: str, field: str = "before") -> bytes:
    """The inverse of `cursor_text`. Raises `InvalidInput` of `field`."""
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field=field, problem="must be the `next` of a list") from None


def _message(message: Message) -> shapes.Message:
    files = [shapes.AttachmentFacts(**_fields(file)) for file in message.attachments]
    return shapes.Message(**{**_fields(message), "attachments": files})


def _failure(failure: Failure | None) -> shapes.FailureFacts | None:
    return None if failure is None else shapes.FailureFacts(reason=failure.reason, next_step=failure.next_step)


def _fields(view: msgspec.Struct) -> dict[str, Any]:
    """A view's fields by name, with times for people."""
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return {name: rfc3339(value) if name in _TIMES and value is not None else value for name, value in fields.items()}


def _item_json(raw: bytes) -> bytes:
    """A raw item as the value it is; what is damaged, as text."""
    try:
        raw.decode("utf-8")
        decode_json(raw, dict[str, Any])
    except (UnicodeDecodeError, RecordDamaged):
        return json_line(raw.decode("utf-8", "replace"))
    # Line ends in JSON stand only between values: as spaces, the value is the same and the document one line.
    return one_line(raw.replace(b"\n", b" ").replace(b"\r", b" "))


def _listed(name: str, values: Sequence[bytes], rest: dict[str, Any]) -> bytes:
    """An object whose first field is a list of values that are JSON already."""
    return b'{"' + name.encode() + b'":[' + b",".join(values) + b"]," + json_line(rest)[1:]
