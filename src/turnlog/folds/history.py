"""The history fold: the raw items an agent is given of a thread. What it does is told in docs/history.md.

Turns stand in the order of their submissions, whole, one after the other: a message that was already waiting comes
after the answer before it. Where the agent gave its own form of a submission, that form is the item. What a truncation
hides is given to nobody. Profile `raw` gives items as they are stored; `responses` gives what a Responses endpoint
accepts (see `validity`), `portable` what any other one does (see `portable`). Both have the newest summary in the place
of what it tells of. All report what they added or left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from turnlog.errors import InvalidInput
from turnlog.events.codec import encode_json
from turnlog.events.kinds import Event
from turnlog.events.thread_kinds import ThreadCompacted
from turnlog.folds.groups import group_starts
from turnlog.folds.pieces import Added, Omitted, Pairs, Piece
from turnlog.folds.portable import PART_WHY, portable, why_not_portable
from turnlog.folds.sections import Aside, Gathering, Section, is_hidden
from turnlog.folds.validity import make_valid, mend_surrogates

Profile: TypeAlias = Literal["raw", "responses", "portable"]

SUMMARY_PREFIX: Final = "Summary of the conversation up to here, which stands in its place:\n\n"
"""What a summary begins with, so that a model does not take it for something that the person asks."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Raw items in order, each one JSON object.

    `added` are items nobody wrote, by index in `items`; `changed` items that differ from what is stored, likewise: lone
    surrogates became U+FFFD, or `portable` took something out. `omitted` is what of the log is not in `items`, by seq.
    """

    items: tuple[bytes, ...]
    added: tuple[Added, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    changed: tuple[int, ...] = ()


class Window(NamedTuple):
    """The newest events of a thread, from the submission at the seq `since` on, with all turns submitted from there."""

    since: int
    turns: Collection[str]


class _Made(msgspec.Struct, kw_only=True):
    """A history in the making.

    `stored` are the bytes of each piece as the log has them, None when they are given so. `summed` is the last seq of
    what a summary stands for.
    """

    pieces: list[Piece]
    asides: list[Aside]
    added: list[Added]
    orphans: list[Piece]
    stored: dict[int, bytes] | None
    summed: int = 0


def history(
    events: Iterable[Event], profile: Profile = "responses", until: str | None = None, limit: int | None = None
) -> History:
    """The items of a thread, or only of the turns submitted before the turn `until`; the newest `limit` groups of them.

    Raises `InvalidInput` for a profile that there is not.
    """
    check_profile(profile)
    made = _make(Gathering(until).take(events), profile)
    if limit is not None:
        _cut(made, limit)
    return _finish(made)


def recent_history(
    events: Iterable[Event], window: Window, profile: Profile, until: str | None, limit: int
) -> History | None:
    """The same of the events of a window alone, or None when more of the thread must be read.

    It tells when it has more than `limit` groups, or a summary that stands for all before it; and when every output and
    late item among those has its call and its turn there.
    """
    check_profile(profile)
    gathered = Gathering(until, window.turns).take(events)
    made = _make(gathered, profile)
    first = _cut(made, limit)
    if first is None:
        told = made.summed >= window.since - 1
    else:
        told = all((it.begun, it.place) < (first.begun, first.place) for it in made.orphans)
    return _finish(made) if told and not gathered.strangers else None


def check_profile(profile: str) -> None:
    """Raises `InvalidInput` for a profile that there is not."""
    if profile not in get_args(Profile):
        raise InvalidInput(field="profile", problem=f"must be one of {', '.join(get_args(Profile))}")


def _make(gathered: Gathering, profile: Profile) -> _Made:
    """All pieces of a profile."""
    truncations = list(gathered.holding())
    asides = [Aside(after + 1, after + 1, "truncated", seq - 1) for after, seq in truncations if after + 1 < seq]
    asides += [aside for aside in gathered.asides if not is_hidden(aside.begun, truncations)]
    sections = [section for section in gathered.sections if section.loose or not is_hidden(section.begun, truncations)]
    pieces = [piece for section in sections for piece in section.pieces if not is_hidden(piece.begun, truncations)]
    if profile == "raw":
        orphans = [pieces[at] for at in Pairs(pieces).orphans]
        return _Made(pieces=pieces, asides=asides, added=[], orphans=orphans, stored=None)
    summary = _summary(gathered, truncations)
    if summary is not None:
        last = summary.begun
        pieces = [piece for piece in pieces if piece.begun > last]
        asides = [aside for aside in asides if (aside.until or aside.begun) > last]
        asides.append(Aside(1, 1, "compacted", last))
        sections = [section for section in sections if section.loose or section.begun > last]
    retried = _unanswered_attempts(sections, gathered.asked_again)
    made = _valid([piece for piece in pieces if piece.section not in retried], profile)
    again = "retried, and had brought nothing"
    made.asides += [*asides, *(Aside(it.begun, it.seq, again) for it in pieces if it.section in retried)]
    if summary is not None:
        made.pieces.insert(0, summary)
        added = [Added(at=it.at + 1, why=it.why) for it in made.added]
        made.added = [Added(at=0, why="compacted"), *added]
        made.summed = summary.begun
    return made


def _summary(gathered: Gathering, truncations: Sequence[tuple[int, int]]) -> Piece | None:
    """The newest summary that no truncation hides, as an item; it stands where what it tells of was begun."""
    for seq, body in reversed(gathered.compactions):
        if not is_hidden(seq, truncations):
            last = min(body.until, seq - 1)
            raw = summary_item(body)
            return Piece(seq=seq, begun=last, place=0, section=0, raw=raw, type="message", role="user")
    return None


def summary_item(body: ThreadCompacted) -> bytes:
    """A summary as a Responses item: a message of the user, which every endpoint and model takes."""
    part = {"type": "input_text", "text": SUMMARY_PREFIX + body.summary}
    return encode_json({"type": "message", "role": "user", "content": [part]})


def _unanswered_attempts(sections: Iterable[Section], asked_again: Collection[str]) -> set[int]:
    """Sections of attempts that brought nothing and were retried: the retry asks the same again."""
    turns = {section.turn: section for section in sections if section.turn is not None}
    earlier = {section.retry_of for section in turns.values()} | set(asked_again)
    return {section.begun for turn, section in turns.items() if turn in earlier and not section.answered}


def _valid(pieces: Sequence[Piece], profile: Profile) -> _Made:
    """What a Responses endpoint accepts of these pieces, or any other endpoint."""
    stored = {piece.seq: piece.raw for piece in pieces}
    asides: list[Aside] = []
    in_part: set[int] = set()
    if profile == "portable":
        pieces = _ported(pieces, asides, in_part)
    valid = make_valid(pieces)
    asides += [Aside(piece.begun, piece.seq, why) for piece, why in valid.gone]
    gone = {aside.seq for aside in asides}
    asides += [Aside(it.begun, it.seq, PART_WHY) for it in pieces if it.seq in in_part and it.seq not in gone]
    return _Made(pieces=valid.pieces, asides=asides, added=valid.added, orphans=valid.orphans, stored=stored)


def _ported(pieces: Sequence[Piece], asides: list[Aside], in_part: set[int]) -> list[Piece]:
    """The pieces that another endpoint can be given. What cannot be read, or has another format, is judged later."""
    kept = []
    for piece in pieces:
        if not piece.readable or piece.format != "responses":
            kept.append(piece)
        elif (why := why_not_portable(piece)) is not None:
            asides.append(Aside(piece.begun, piece.seq, why))
        else:
            taken, bound = portable(piece)
            kept.append(taken)
            if bound:
                in_part.add(piece.seq)
    return kept


def _cut(made: _Made, limit: int) -> Piece | None:
    """Leave the newest `limit` groups. The first piece that stays, None when nothing had to go."""
    starts = group_starts(made.pieces)
    if len(starts) <= limit:
        return None
    at = starts[-limit]
    first = made.pieces[at]
    made.pieces = made.pieces[at:]
    made.added = [Added(at=it.at - at, why=it.why) for it in made.added if it.at >= at]
    made.asides = [*_left_out(first), *(it for it in made.asides if not _is_before(it, first))]
    return first


def _left_out(first: Piece) -> Iterator[Aside]:
    """What a limit leaves out before the first piece that stays: what was begun before, and a part of its turn."""
    if first.begun > 1:
        yield Aside(1, 1, "limit", first.begun - 1)
    if first.place > first.begun:
        yield Aside(first.begun, first.begun, "limit, earlier in its turn", first.place - 1)


def _is_before(aside: Aside, first: Piece) -> bool:
    """Whether something was left out before the first piece that stays, and so needs no words of its own."""
    if aside.until is not None:
        return aside.until < first.begun
    return (aside.begun, aside.seq) < (first.begun, first.place)


def _finish(made: _Made) -> History:
    """The history as it is given: without lone surrogates, unless it is as stored."""
    asides = sorted(made.asides, key=lambda it: (it.seq, it.until or 0, it.why))
    omitted = tuple(aside.omitted for aside in asides)
    if made.stored is None:
        return History(items=tuple(piece.raw for piece in made.pieces), omitted=omitted)
    items = tuple(mend_surrogates(piece.raw) for piece in made.pieces)
    new = {added.at for added in made.added}
    was = [it.raw if at in new else made.stored[it.seq] for at, it in enumerate(made.pieces)]
    changed = tuple(at for at, (raw, item) in enumerate(zip(was, items, strict=True)) if raw != item)
    return History(items=items, added=tuple(made.added), omitted=omitted, changed=changed)
