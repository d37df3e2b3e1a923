"""The history fold: the raw items an agent is given of a thread.

Turns stand in the order of their submissions, whole, one after the other: a message that was already waiting comes
after the answer before it. Where the agent gave its own form of a submission, that form is the item. Profile `raw`
gives items as they are stored; `responses` gives what a Responses endpoint accepts (see `validity`). Both report what
they added or left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from turnlog.errors import InvalidInput
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Damaged, Event, Item, Submitted, ThreadItem, ThreadLate, Unknown
from turnlog.folds.items import read_item
from turnlog.folds.validity import NAMED_BY_ID, Added, Omitted, Piece, make_valid, mend_surrogates

Profile: TypeAlias = Literal["raw", "responses"]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Raw items in order, each one JSON object.

    `added` are items nobody wrote, by index in `items`; `changed` items whose lone surrogates became U+FFFD, likewise;
    `omitted` is what of the log is not in `items`, by seq.
    """

    items: tuple[bytes, ...]
    added: tuple[Added, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    changed: tuple[int, ...] = ()


class _Section:
    """A turn's items, or neighbours that belong to no turn."""

    __slots__ = ("answered", "loose", "pieces", "retried", "submitted")

    def __init__(self, *, loose: bool) -> None:
        self.loose = loose
        self.pieces: list[Piece] = []
        self.answered = False
        self.retried = False
        self.submitted = False


class _Gathering:
    """Sections in order, and what could not become a part of them."""

    def __init__(self, until: str | None) -> None:
        self._until = until
        self._closed = False
        self._turns: dict[str, _Section] = {}
        self.sections: list[_Section] = []
        self.omitted: list[Omitted] = []

    def take(self, event: Event) -> None:
        """Take one event. From the submission of `until` on, only turns submitted before go on."""
        body = event.body
        if event.turn is not None and event.turn not in self._turns:
            self._closed = self._closed or event.turn == self._until
            if self._closed:
                return
            self._turns[event.turn] = self._section(loose=False)
        elif event.turn is None and self._closed and not (isinstance(body, ThreadLate) and body.of in self._turns):
            return
        match body:
            case Submitted():
                self._submitted(event, body)
            case Item() | ThreadItem():
                self._item(event, body)
            case ThreadLate(late=Item.kind):
                self.omitted.append(Omitted(seq=event.seq, why="late"))
            case Damaged() | Unknown():
                why = "damaged" if isinstance(body, Damaged) else f"unknown kind {event.kind}"
                self.omitted.append(Omitted(seq=event.seq, why=why))
            case _:
                pass

    def _section(self, *, loose: bool) -> _Section:
        if not (loose and self.sections and self.sections[-1].loose):
            self.sections.append(_Section(loose=loose))
        return self.sections[-1]

    def _submitted(self, event: Event, body: Submitted) -> None:
        assert event.turn is not None
        section = self._turns[event.turn]
        raw = user_item(body)
        section.pieces.append(Piece(seq=event.seq, section=event.seq, raw=raw, type="message", role=body.role))
        section.submitted = True
        earlier = self._turns.get(body.retry_of) if body.retry_of else None
        if earlier is not None:
            earlier.retried = True

    def _item(self, event: Event, body: Item | ThreadItem) -> None:
        section = self._section(loose=True) if event.turn is None else self._turns[event.turn]
        raw = read_item(body.raw)
        piece = Piece(
            seq=event.seq,
            section=section.pieces[0].section if section.pieces else event.seq,
            raw=body.raw,
            type=body.type,
            role=raw.role if raw is not None and isinstance(raw.role, str) else None,
            call_id=body.call_id or (body.id if body.type in NAMED_BY_ID else None) or None,
            format=body.format,
            readable=raw is not None,
        )
        purpose = body.purpose if isinstance(body, Item) else None
        if purpose == "compaction":
            self.omitted.append(Omitted(seq=event.seq, why="a summary the agent made for itself"))
        elif purpose == "submission" and section.submitted and piece.readable:
            section.pieces[0] = piece
        else:
            section.answered = True
            section.pieces.append(piece)


def history(events: Iterable[Event], profile: Profile = "responses", until: str | None = None) -> History:
    """The items of a thread, or only of the turns submitted before the turn `until`.

    Raises `InvalidInput` for a profile that there is not.
    """
    if profile not in get_args(Profile):
        raise InvalidInput(field="profile", problem=f"must be one of {', '.join(get_args(Profile))}")
    gathered = _Gathering(until)
    for event in events:
        gathered.take(event)
    if profile == "raw":
        raw = tuple(piece.raw for section in gathered.sections for piece in section.pieces)
        return History(items=raw, omitted=tuple(gathered.omitted))
    left_out = list(_unanswered_attempts(gathered.sections))
    gone = {omitted.seq for omitted in left_out}
    pieces = [piece for section in gathered.sections for piece in section.pieces if piece.seq not in gone]
    valid = make_valid(pieces)
    mended = [mend_surrogates(piece.raw) for piece in valid.pieces]
    return History(
        items=tuple(mended),
        added=valid.added,
        omitted=tuple(sorted([*gathered.omitted, *left_out, *valid.omitted], key=lambda omitted: omitted.seq)),
        changed=tuple(at for at, (piece, raw) in enumerate(zip(valid.pieces, mended, strict=True)) if piece.raw != raw),
    )


def _unanswered_attempts(sections: list[_Section]) -> Iterator[Omitted]:
    """Attempts that brought nothing and were retried: the retry asks the same again."""
    for section in sections:
        if section.retried and not section.answered:
            yield from (Omitted(seq=piece.seq, why="retried, and had brought nothing") for piece in section.pieces)


_TEXT_PART: Final = "input_text"


def user_item(body: Submitted) -> bytes:
    """A submitted message as a Responses item."""
    content = [{"type": _TEXT_PART, "text": body.content}] if isinstance(body.content, str) else body.content
    return encode_json({"type": "message", "role": body.role, "content": content})
