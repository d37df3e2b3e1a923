"""The drafts of one open turn: how they are named, what of them is committed, and which event closes which.

A draft's id is `attempt/target/kind/part`. Text without a target belongs to an anonymous draft `~n`: a change of kind
or a tool item seals it, and the next text opens `~n+1`. All of it is bookkeeping in memory; what was committed can be
had again from the store, and what was not has been shown to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from turnlog.errors import TooLarge
from turnlog.events.codec import RawHead, encode_json
from turnlog.events.kinds import Closed, Draft, DraftKind, DraftName, Step
from turnlog.folds.turn import is_call, is_call_output
from turnlog.journal.receipt import Receipt
from turnlog.limits import DRAFT_BYTES_MAX, DRAFTS_OPEN_MAX

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(slots=True, eq=False)
class OpenDraft:
    """A draft no event has closed. `text[:committed]` is in the store; `held` waits for the other half of a pair."""

    id: str
    name: DraftName
    text: str = ""
    committed: int = 0
    place: tuple[int, int] | None = None
    held: str = ""
    encoded_bytes: int = 0
    waiting: list[Receipt[None]] = field(default_factory=list)
    """Receipts of text that is not committed yet."""

    @property
    def whole(self) -> str:
        """All its text, a waiting half included: what closing it keeps."""
        return self.text + self.held

    @property
    def pending(self) -> str:
        """The text that is not in the store yet."""
        return self.text[self.committed :]

    @property
    def closed(self) -> list[Closed]:
        """How an event names it when it replaces it; empty when nothing of it was ever committed, so nobody saw it."""
        return [] if self.place is None else [Closed(self.id, *self.place)]

    def append(self, text: str) -> None:
        """Add text. A trailing high surrogate is held back until its half comes: no chunk splits a character."""
        text = self.held + text
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text[: len(text) - len(held)]
        self.encoded_bytes += len(encode_json(text)) - 2
        self.text += text
        self.held = held


def _draft(name: DraftName) -> OpenDraft:
    return OpenDraft(str(name), name)


def _stored_name(id_: str) -> DraftName:
    """The parts of an id from the store. One that cannot be read is nobody's answer: its text is kept in the trace."""
    try:
        return DraftName.parse(id_)
    except (ValueError, msgspec.ValidationError):
        return DraftName(0, "~", "reasoning")


@dataclass(slots=True, eq=False)
class DraftBook:
    """All open drafts of a turn, in the order in which they were opened."""

    attempt: int = 0
    drafts: dict[str, OpenDraft] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Ids that an event has closed: they are never opened again."""
    anonymous_next: int = 0
    current: OpenDraft | None = None
    """The anonymous draft that the next text without a target goes on with."""

    def add(self, text: str, target: str | None, kind: DraftKind, part: int) -> OpenDraft:
        """Append text to the draft it belongs to. Raises `TooLarge`, and then has added nothing."""
        draft = self._find(target, kind, part)
        size = draft.encoded_bytes + len(encode_json(text)) - 2
        if size > DRAFT_BYTES_MAX:
            raise TooLarge(field="draft", limit="DRAFT_BYTES_MAX", limit_value=DRAFT_BYTES_MAX, given=size)
        if draft.id not in self.drafts:
            if len(self.drafts) >= DRAFTS_OPEN_MAX:
                raise TooLarge(field="drafts", limit="DRAFTS_OPEN_MAX", limit_value=DRAFTS_OPEN_MAX)
            self.drafts[draft.id] = draft
            if draft.name.anonymous:
                self.anonymous_next += 1
                self.current = draft
        draft.append(text)
        return draft

    def _find(self, target: str | None, kind: DraftKind, part: int) -> OpenDraft:
        if target is None:
            if self.current is not None and self.current.name.kind == kind:
                return self.current
            return _draft(DraftName(self.attempt, f"~{self.anonymous_next}", kind, 0))
        name = DraftName(self.attempt, target, kind, part)
        while str(name) in self.used:
            name = DraftName(self.attempt, target, kind, name.part + 1)
        return self.drafts.get(str(name)) or _draft(name)

    def seal(self) -> None:
        """The next text without a target opens a new draft."""
        self.current = None

    def close(self, drafts: Iterable[OpenDraft]) -> None:
        """Forget drafts that an event has replaced."""
        for draft in drafts:
            self.used.add(draft.id)
            self.drafts.pop(draft.id, None)
            if self.current is draft:
                self.current = None

    def refuse_waiting(self, error: Exception) -> None:
        """Tell those who wait for text that cannot be written by itself; what closes the drafts still keeps it."""
        for draft in self.drafts.values():
            waiting, draft.waiting = draft.waiting, []
            for receipt in waiting:
                receipt.refuse(error)

    def next_attempt(self) -> None:
        """Begin the next attempt, with anonymous drafts counted from 0 again."""
        self.close(list(self.drafts.values()))
        self.attempt += 1
        self.anonymous_next = 0

    def restore(self, chunk: Draft) -> None:
        """Take in a committed chunk read from the store, in order of `chunk_rev`."""
        draft = self.drafts.setdefault(chunk.draft, OpenDraft(chunk.draft, _stored_name(chunk.draft)))
        draft.place = (chunk.after, chunk.rev)
        draft.committed = chunk.offset + len(chunk.text)
        if len(draft.text) < draft.committed:  # else it is our own text, and there may be more of it
            draft.text = draft.text[: chunk.offset] + chunk.text
            draft.encoded_bytes = len(encode_json(draft.text)) - 2
        self.attempt = max(self.attempt, draft.name.attempt)

    # --- which event closes which draft ------------------------------------------------------------------------

    def closed_by_item(self, head: RawHead) -> list[OpenDraft]:
        """The drafts that a raw item replaces: those of its id or call, else the oldest anonymous one of its kind."""
        kind = str(head.type) if isinstance(head.type, str) else ""
        wanted: DraftKind | None
        names: tuple[Any, ...]
        if is_call_output(kind):
            names, wanted = (head.call_id,), "output"
        elif is_call(kind):
            names, wanted = (head.id, head.call_id), "args"
        elif kind == "reasoning":
            names, wanted = (head.id,), "reasoning"
        else:
            names, wanted = (head.id,), "text" if head.role == "assistant" else None
        targets = {name for name in names if isinstance(name, str)}
        named = [draft for draft in self.drafts.values() if draft.name.kind == wanted and draft.name.target in targets]
        if named or wanted is None:
            return named
        anonymous = (draft for draft in self.drafts.values() if draft.name.anonymous and draft.name.kind == wanted)
        return [first] if (first := next(anonymous, None)) is not None else []

    def closed_by_step(self, step: Step) -> list[OpenDraft]:
        """The drafts that a step replaces when it settles: those that target it. Its reasoning stays on its own."""
        if step.status in (None, "running", "waiting"):
            return []
        targets = {step.id, step.call_id}
        return [
            draft
            for draft in self.drafts.values()
            if draft.name.kind != "reasoning" and draft.name.target in targets and not draft.name.anonymous
        ]
