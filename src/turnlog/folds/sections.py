"""A thread's events sorted into sections: each turn's items together, in the order of their submissions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from turnlog.events.codec import encode_json
from turnlog.events.kinds import (
    AttemptDropped,
    Damaged,
    Event,
    Item,
    Submitted,
    ThreadItem,
    ThreadLate,
    Unknown,
)
from turnlog.events.thread_kinds import ThreadCompacted, ThreadTruncated
from turnlog.folds.items import is_responses_item, read_item
from turnlog.folds.pieces import NAMED_BY_ID, Omitted, Piece


class Aside(NamedTuple):
    """Something that is reported as left out: where it was begun, its own seq, and why; `until` when it is a range."""

    begun: int
    seq: int
    why: str
    until: int | None = None

    @property
    def omitted(self) -> Omitted:
        """As it is told."""
        return Omitted(seq=self.seq, why=self.why, until=self.until)


class Section:
    """A turn's items, or neighbours that belong to no turn. `begun` is the seq of its first event."""

    __slots__ = ("answered", "attempt", "begun", "loose", "pieces", "retry_of", "submitted", "turn")

    def __init__(self, begun: int, turn: str | None) -> None:
        self.begun = begun
        self.turn = turn
        self.loose = turn is None
        self.pieces: list[Piece] = []
        self.attempt = 0
        self.answered = False
        self.submitted = False
        self.retry_of: str | None = None


class Gathering:
    """Sections in order, what could not become a part of them, and what happened to the thread as a whole.

    With `known`, the events begin in the middle of a thread, and events of turns that are not in `known` are of turns
    that began before. `strangers` tells that something late came of a turn that was not seen.
    """

    def __init__(self, until: str | None = None, known: Collection[str] | None = None) -> None:
        self._until = until
        self._known = known
        self._closed = False
        self._turns: dict[str, Section] = {}
        self.sections: list[Section] = []
        self.asides: list[Aside] = []
        self.truncations: list[tuple[int, int]] = []
        self.compactions: list[tuple[int, ThreadCompacted]] = []
        self.asked_again: set[str] = set()
        self.strangers = False

    def take(self, events: Iterable[Event]) -> Gathering:
        """Take events. From the submission of `until` on, only turns submitted before go on."""
        for event in events:
            if event.turn is None:
                self._of_thread(event)
            elif (section := self._turn(event, event.turn)) is not None:
                self._of_turn(event, section)
        return self

    def _turn(self, event: Event, turn: str) -> Section | None:
        section = self._turns.get(turn)
        if section is not None:
            return section
        if turn == self._until:
            self._closed = True
            if isinstance(event.body, Submitted) and event.body.retry_of:
                self.asked_again.add(event.body.retry_of)
        if self._closed or (self._known is not None and turn not in self._known):
            return None
        section = self._turns[turn] = Section(event.seq, turn)
        self.sections.append(section)
        return section

    def _of_thread(self, event: Event) -> None:
        body = event.body
        if isinstance(body, ThreadLate):
            self._late(event, body)
            return
        if self._closed:
            return
        match body:
            case ThreadItem():
                self._item(event, body, self._loose(event.seq))
            case ThreadTruncated():
                self.truncations.append((body.after, event.seq))
            case ThreadCompacted():
                self.compactions.append((event.seq, body))
            case Damaged() | Unknown():
                self.asides.append(Aside(event.seq, event.seq, _why_unread(event)))
            case _:
                pass

    def _late(self, event: Event, body: ThreadLate) -> None:
        section = self._turns.get(body.of)
        if body.late != Item.kind or (section is None and self._closed):
            return
        if section is None and self._known is not None:
            self.strangers = True
        self.asides.append(Aside(event.seq if section is None else section.begun, event.seq, "late"))

    def _loose(self, seq: int) -> Section:
        if not (self.sections and self.sections[-1].loose):
            self.sections.append(Section(seq, None))
        return self.sections[-1]

    def _of_turn(self, event: Event, section: Section) -> None:
        match event.body:
            case Submitted():
                self._submitted(event, event.body, section)
            case Item():
                self._item(event, event.body, section)
            case AttemptDropped():
                section.attempt += 1
            case Damaged() | Unknown():
                self.asides.append(Aside(section.begun, event.seq, _why_unread(event)))
            case _:
                pass

    def _submitted(self, event: Event, body: Submitted, section: Section) -> None:
        piece = Piece(
            seq=event.seq,
            begun=section.begun,
            place=event.seq,
            section=section.begun,
            raw=user_item(body),
            type="message",
            role=body.role,
        )
        section.pieces.append(piece)
        section.submitted = True
        section.retry_of = body.retry_of

    def _item(self, event: Event, body: Item | ThreadItem, section: Section) -> None:
        purpose = body.purpose if isinstance(body, Item) else None
        begun = event.seq if section.loose else section.begun
        if purpose == "compaction":
            self.asides.append(Aside(begun, event.seq, "a summary the agent made for itself"))
            return
        raw = read_item(body.raw)
        in_place = purpose == "submission" and section.submitted and raw is not None
        piece = Piece(
            seq=event.seq,
            begun=begun,
            place=section.pieces[0].place if in_place else event.seq,
            section=section.begun,
            attempt=section.attempt,
            raw=body.raw,
            type=body.type,
            role=raw.role if raw is not None and isinstance(raw.role, str) else None,
            call_id=body.call_id or (body.id if body.type in NAMED_BY_ID else None) or None,
            format=body.format,
            readable=raw is not None,
            whole=raw is not None and is_responses_item(raw),
            synthesized=isinstance(body, Item) and body.synthesized is not None,
        )
        if in_place:
            section.pieces[0] = piece
        else:
            section.answered = True
            section.pieces.append(piece)

    def holding(self) -> Iterator[tuple[int, int]]:
        """The truncations that no later one hides, newest first: (after, its seq)."""
        kept: list[tuple[int, int]] = []
        for after, seq in reversed(self.truncations):
            if not is_hidden(seq, kept):
                kept.append((after, seq))
                yield after, seq


def is_hidden(begun: int, truncations: Iterable[tuple[int, int]]) -> bool:
    """Whether one of these truncations hides what was begun at a seq."""
    return any(after < begun < seq for after, seq in truncations)


def _why_unread(event: Event) -> str:
    return "damaged" if isinstance(event.body, Damaged) else f"unknown kind {event.kind}"


_TEXT_PART: Final = "input_text"


def user_item(body: Submitted) -> bytes:
    """A submitted message as a Responses item."""
    content = [{"type": _TEXT_PART, "text": body.content}] if isinstance(body.content, str) else body.content
    return encode_json({"type": "message", "role": body.role, "content": content})
