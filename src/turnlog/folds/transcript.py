"""The transcript fold: what a person reads of a thread.

Messages are anchored to their turn: they stand in the order of the turns' submissions, and within a turn by place, so
an answer is under its question even when the next question was already waiting. What belongs to no turn stands where it
was written. Identity is the event or draft, never the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from turnlog.events.kinds import (
    Attachment,
    Completed,
    Damaged,
    Draft,
    Event,
    Interrupted,
    Item,
    Reason,
    Step,
    Submitted,
    Synthesized,
    ThreadItem,
    ThreadLate,
    Unknown,
    WorkerStarted,
)
from turnlog.folds.drafts import OpenDrafts, Place
from turnlog.folds.items import parts_text, read_item
from turnlog.folds.notices import Notice, NoticeKind, notice_text
from turnlog.folds.turn import content_text, is_call

_Phase: TypeAlias = Literal["queued", "running", "completed", "interrupted"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `turn` is None for what belongs to no turn; `seq` its event, or the head when its draft began.

    `item` is the model's own item id (of a draft: its target), `draft` the id of a draft that is still being written.
    `synthesized` tells that no item of the agent ended the text. `hidden` messages are of an attempt that was retried.
    """

    role: str
    turn: str | None
    seq: int
    text: str
    item: str | None = None
    synthesized: Synthesized | None = None
    draft: str | None = None
    hidden: bool = False
    attachments: tuple[Attachment, ...] = ()
    at: int | None = None


class TranscriptView(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in reading order, and notices in order of seq."""

    messages: tuple[Message, ...]
    notices: tuple[Notice, ...]


class _Turn:
    """What is kept of one turn. `inner` are names of steps and calls: text that targets one is no answer."""

    __slots__ = ("child", "drafts", "first", "inner", "messages", "phase", "reason", "settled_seq", "unknown_calls")

    def __init__(self, first: int) -> None:
        self.first = first
        self.phase: _Phase = "queued"
        self.messages: list[tuple[Place, Message]] = []
        self.drafts = OpenDrafts()
        self.inner: set[str] = set()
        self.reason: Reason | None = None
        self.settled_seq = first
        self.unknown_calls: tuple[str, ...] = ()
        self.child: str | None = None

    @property
    def settled(self) -> bool:
        return self.phase in ("completed", "interrupted")

    def settle(self, phase: _Phase, seq: int) -> None:
        self.phase, self.settled_seq = phase, seq
        self.drafts, self.inner = OpenDrafts(), set()


class Transcript:
    """Folds a thread. Feed it the thread's events in order and chunks of drafts as they come; view it at any time."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._loose: list[Message] = []
        self._notices: list[Notice] = []

    def event(self, event: Event) -> None:
        """Take one event of the thread."""
        body = event.body
        if isinstance(body, Damaged | Unknown):
            self._notice(event, "damaged" if isinstance(body, Damaged) else "unknown")
        elif isinstance(body, ThreadLate):
            self._notice(event, "late", turn=body.of)
            return
        elif isinstance(body, ThreadItem):
            self._loose_item(event, body)
        if event.turn is not None:
            turn = self._turns.setdefault(event.turn, _Turn(event.seq))
            if not turn.settled:
                self._turn_event(turn, event)
            elif not isinstance(body, Damaged | Unknown):
                self._notice(event, "late")

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        turn = self._turns.get(chunk.turn)
        if turn is not None and not turn.settled:
            turn.drafts.apply(chunk)

    def retried(self, turn: str, child: str) -> None:
        """A turn was asked again as `child`, whose events are not fed to this fold."""
        if (asked := self._turns.get(turn)) is not None:
            asked.child = child

    def view(self) -> TranscriptView:
        """The transcript as it stands."""
        anchored = [(turn.first, list(_messages(id_, turn))) for id_, turn in self._turns.items()]
        anchored += [(message.seq, [message]) for message in self._loose]
        anchored.sort(key=lambda anchor: anchor[0])
        notices = [*self._notices, *_turn_notices(self._turns)]
        hidden = {id_ for id_, turn in self._turns.items() if turn.child is not None}
        notices = [msgspec.structs.replace(it, hidden=True) if it.turn in hidden else it for it in notices]
        return TranscriptView(
            messages=tuple(message for _, messages in anchored for message in messages),
            notices=tuple(sorted(notices, key=lambda notice: notice.seq)),
        )

    def _turn_event(self, turn: _Turn, event: Event) -> None:
        body = event.body
        turn.drafts.close(getattr(body, "closes", ()))
        match body:
            case Submitted():
                self._submitted(turn, event, body)
            case WorkerStarted():
                turn.phase = "running"
            case Item(purpose=None):
                self._item(turn, event, body)
            case Step():
                turn.inner.update(name for name in (body.id, body.call_id) if name)
            case Completed():
                turn.settle("completed", event.seq)
            case Interrupted():
                turn.reason, turn.unknown_calls = body.reason, tuple(body.unknown_calls)
                turn.settle("interrupted", event.seq)
            case Damaged() if event.kind in ("completed", "interrupted"):
                turn.settle("completed" if event.kind == "completed" else "interrupted", event.seq)
            case _:
                pass

    def _submitted(self, turn: _Turn, event: Event, body: Submitted) -> None:
        earlier = self._turns.get(body.retry_of) if body.retry_of else None
        if earlier is not None:
            earlier.child = event.turn
        message = Message(
            role=body.role,
            turn=event.turn,
            seq=event.seq,
            text=content_text(body.content),
            attachments=tuple(body.attachments),
            at=event.at,
        )
        turn.messages.append(((event.seq, 0), message))

    def _item(self, turn: _Turn, event: Event, body: Item) -> None:
        if is_call(body.type):
            turn.inner.update(name for name in (body.id, body.call_id) if name)
            return
        message = _message(event, body)
        if message is None:
            if read_item(body.raw) is None:
                self._notice(event, "damaged")
        elif message.role == "assistant":
            place = min([(event.seq, 0), *((closed.after, closed.rev) for closed in body.closes)])
            message = msgspec.structs.replace(message, synthesized=body.synthesized)
            turn.messages.append((place, message))

    def _loose_item(self, event: Event, body: ThreadItem) -> None:
        message = _message(event, body)
        if message is not None:
            self._loose.append(message)
        elif read_item(body.raw) is None:
            self._notice(event, "damaged")

    def _notice(self, event: Event, kind: NoticeKind, *, turn: str | None = None) -> None:
        about = event.turn if turn is None else turn
        self._notices.append(Notice(turn=about, seq=event.seq, kind=kind, text=notice_text(kind, None, 0)))


_MESSAGE_TYPES: Final = ("message", "")


def _message(event: Event, body: Item | ThreadItem) -> Message | None:
    raw = read_item(body.raw) if body.type in _MESSAGE_TYPES else None
    if raw is None or not isinstance(raw.role, str):
        return None
    text = parts_text(raw.content)
    return Message(role=raw.role, turn=event.turn, seq=event.seq, text=text, item=body.id, at=event.at)


def _messages(id_: str, turn: _Turn) -> Iterator[Message]:
    """A turn's messages by place, those still being written among them."""
    placed = list(turn.messages)
    for group in turn.drafts.groups():
        if group.name.kind == "text" and (group.name.anonymous or group.name.target not in turn.inner):
            target = None if group.name.anonymous else group.name.target
            seq, _ = group.place
            message = Message(role="assistant", turn=id_, seq=seq, text=group.text, item=target, draft=group.id)
            placed.append((group.place, message))
    for _, message in sorted(placed, key=lambda entry: entry[0]):
        yield message if turn.child is None else msgspec.structs.replace(message, hidden=True)


def _turn_notices(turns: dict[str, _Turn]) -> Iterator[Notice]:
    """What a person must know of each turn that has not simply been answered."""
    for id_, turn in turns.items():
        if turn.phase == "completed":
            continue
        yield Notice(
            turn=id_,
            seq=turn.settled_seq,
            kind=turn.phase,
            reason=turn.reason,
            text=notice_text(turn.phase, turn.reason, len(turn.unknown_calls)),
            unknown_calls=turn.unknown_calls,
            can_retry=turn.phase == "interrupted" and turn.child is None,
            retried_by=turn.child,
        )


def transcript(events: Iterable[Event], drafts: Iterable[Draft] = ()) -> TranscriptView:
    """The transcript of a thread's events and of the drafts open after them."""
    fold = Transcript()
    for event in events:
        fold.event(event)
    for chunk in drafts:
        fold.draft(chunk)
    return fold.view()
