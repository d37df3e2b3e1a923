"""The transcript fold: what a person reads of a thread.

Messages are anchored to their turn: they stand in the order of the turns' submissions, and within a turn by place, so
an answer is under its question even when the next question was already waiting. What belongs to no turn stands where it
was written. Identity is the event or draft, never the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

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
from turnlog.events.thread_kinds import ThreadCompacted, ThreadForked, ThreadTruncated
from turnlog.folds.drafts import OpenDrafts, Place
from turnlog.folds.hidden import Hidden
from turnlog.folds.items import parts_text, read_item
from turnlog.folds.notices import EDITED_TEXT, Notice, NoticeKind, notice_text
from turnlog.folds.states import TERMINAL
from turnlog.folds.turn import content_text, is_call

_Phase: TypeAlias = Literal["queued", "running", "completed", "interrupted"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `turn` is None for what belongs to no turn; `seq` its event, or the head when its draft began.

    `item` is the model's own item id (of a draft: its target), `draft` the id of a draft that is still being written.
    `synthesized` tells that no item of the agent ended the text. `hidden` messages are of an attempt that was retried,
    or of what a truncation has hidden.
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
        self.child: tuple[str, int] | None = None
        """The turn that asked the same again, and the seq of its first event."""

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
        self._hidden = Hidden()

    def event(self, event: Event) -> None:
        """Take one event of the thread."""
        body = event.body
        if isinstance(body, Damaged | Unknown):
            self._notice(event, "damaged" if isinstance(body, Damaged) else "unknown")
        elif isinstance(body, ThreadLate):
            self._notice(event, "late", turn=body.of)
            return
        elif event.turn is None:
            self._thread_event(event)
        if event.turn is not None:
            turn = self._turns.setdefault(event.turn, _Turn(event.seq))
            if not turn.settled:
                self._turn_event(turn, event)
            elif not isinstance(body, Damaged | Unknown):
                self._notice(event, "collision" if event.kind in TERMINAL else "late")

    def _thread_event(self, event: Event) -> None:
        match event.body:
            case ThreadItem() as item:
                self._loose_item(event, item)
            case ThreadTruncated() as truncated:
                self.hide(truncated.after, event.seq)
                self._notice(event, "truncated", text=EDITED_TEXT if truncated.why == "edit" else None)
            case ThreadForked():
                self._notice(event, "forked")
            case ThreadCompacted():
                self._notice(event, "compacted")
            case _:
                pass

    def hide(self, after: int, seq: int) -> None:
        """What was begun between these seqs is hidden, by a truncation that may not be fed to this fold."""
        self._hidden.add(after, seq)

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        turn = self._turns.get(chunk.turn)
        if turn is not None and not turn.settled:
            turn.drafts.apply(chunk)

    def retried(self, turn: str, child: str, first: int) -> None:
        """A turn was asked again as `child`, whose events, from the seq `first` on, are not fed to this fold."""
        if (asked := self._turns.get(turn)) is not None:
            asked.child = (child, first)

    def view(self) -> TranscriptView:
        """The transcript as it stands."""
        children = {id_: self._child(turn) for id_, turn in self._turns.items()}
        gone = {id_ for id_, turn in self._turns.items() if children[id_] or self._hidden.by(turn.first)}
        anchored = [(turn.first, list(_messages(id_, turn, hidden=id_ in gone))) for id_, turn in self._turns.items()]
        anchored += [(it.seq, [replace(it, hidden=self._hidden.by(it.seq) is not None)]) for it in self._loose]
        anchored.sort(key=lambda anchor: anchor[0])
        notices = [*self._notices, *_turn_notices(self._turns, children, self._hidden)]
        notices = [replace(it, hidden=True) if self._is_hidden(it, gone) else it for it in notices]
        return TranscriptView(
            messages=tuple(message for _, messages in anchored for message in messages),
            notices=tuple(sorted(notices, key=lambda notice: notice.seq)),
        )

    def _child(self, turn: _Turn) -> str | None:
        """The turn that takes the place of one; none that was hidden while the one it asked again was not."""
        if turn.child is None or self._hidden.by(turn.child[1]) != self._hidden.by(turn.first):
            return None
        return turn.child[0]

    def _is_hidden(self, notice: Notice, gone: set[str]) -> bool:
        return notice.turn in gone if notice.turn is not None else self._hidden.by(notice.seq) is not None

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
            earlier.child = (event.turn or "", event.seq)
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
            message = replace(message, synthesized=body.synthesized)
            turn.messages.append((place, message))

    def _loose_item(self, event: Event, body: ThreadItem) -> None:
        message = _message(event, body)
        if message is not None:
            self._loose.append(message)
        elif read_item(body.raw) is None:
            self._notice(event, "damaged")

    def _notice(self, event: Event, kind: NoticeKind, *, turn: str | None = None, text: str | None = None) -> None:
        about, text = turn or event.turn, text or notice_text(kind, None, 0)
        self._notices.append(Notice(turn=about, seq=event.seq, kind=kind, text=text))


_MESSAGE_TYPES: Final = ("message", "")


def _message(event: Event, body: Item | ThreadItem) -> Message | None:
    raw = read_item(body.raw) if body.type in _MESSAGE_TYPES else None
    if raw is None or not isinstance(raw.role, str):
        return None
    text = parts_text(raw.content)
    return Message(role=raw.role, turn=event.turn, seq=event.seq, text=text, item=body.id, at=event.at)


def _messages(id_: str, turn: _Turn, *, hidden: bool) -> Iterator[Message]:
    """A turn's messages by place, those still being written among them."""
    placed = list(turn.messages)
    for group in turn.drafts.groups():
        if group.name.kind == "text" and (group.name.anonymous or group.name.target not in turn.inner):
            target = None if group.name.anonymous else group.name.target
            seq, _ = group.place
            message = Message(role="assistant", turn=id_, seq=seq, text=group.text, item=target, draft=group.id)
            placed.append((group.place, message))
    for _, message in sorted(placed, key=lambda entry: entry[0]):
        yield replace(message, hidden=True) if hidden else message


def _turn_notices(turns: dict[str, _Turn], children: dict[str, str | None], hidden: Hidden) -> Iterator[Notice]:
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
            can_retry=turn.phase == "interrupted" and turn.child is None and hidden.by(turn.first) is None,
            retried_by=children[id_],
        )


def transcript(events: Iterable[Event], drafts: Iterable[Draft] = ()) -> TranscriptView:
    """The transcript of a thread's events and of the drafts open after them."""
    fold = Transcript()
    for event in events:
        fold.event(event)
    for chunk in drafts:
        fold.draft(chunk)
    return fold.view()
