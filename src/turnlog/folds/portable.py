"""Items for another endpoint than the one that made them.

What only that one can resolve or read is taken out: ids of items and responses, encrypted parts, files by id, calls
that its own side carried out. Reasoning goes: an endpoint takes it back by an id or an encrypted part that it made
itself, and a readable summary was written for people. A type that is not known to be understood everywhere goes too,
because one unknown item makes an endpoint refuse all of them. Call ids stay: they are the client's.

Every byte that is not taken out stays as it is. Doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from turnlog.events.codec import encode_json
from turnlog.folds.json_text import Edit, Part, edited, parts, removals
from turnlog.folds.pieces import NAMED_BY_ID, Piece
from turnlog.folds.turn import is_call

_KEPT: Final = frozenset(
    {
        "",
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
    }
)
"""Types that the client gives meaning to, and no server. A message may go without a type."""

_SERVERS_OWN: Final = frozenset({"id", "encrypted_content", "previous_response_id", "response_id", "created_by"})
"""Fields of an item that mean something to the server that made them."""

_PART_BOUND: Final = frozenset({"file_id", "encrypted_content"})
"""Fields of a content part that say that only one server has what it shows."""

_PART_SEALED: Final = frozenset({"encrypted_content"})
"""Fields that go from a part that stays."""

_PART_OPEN: Final = frozenset({"text", "image_url", "file_url", "file_data", "input_audio", "refusal"})
"""Fields of a content part that hold it for everybody."""

PART_LEFT_OUT: Final = "[left out: only another server has it]"
"""What stands for a part of a content or output that only its own server has."""

PART_WHY: Final = "a part that only its server has"


def why_not_portable(piece: Piece) -> str | None:
    """Why another endpoint is not given an item, None when it is."""
    if piece.type in _KEPT:
        return None
    if piece.type == "reasoning":
        if any(_holds(piece.raw, part) for part in parts(piece.raw) if part.key in ("summary", "content")):
            return "reasoning, which another endpoint does not take"
        return "reasoning that only its server can read"
    if piece.type == "item_reference":
        return "a reference to what only its server has"
    if "compaction" in piece.type:
        return "a summary that only its server can read"
    if is_call(piece.type) and piece.call_id is None:
        return f"{piece.type}, which the model's own side carried out"
    return f"{piece.type}, which another endpoint may not know"


def portable(piece: Piece) -> tuple[Piece, bool]:
    """The item without what only its own server knows, and whether a part of its content went with that."""
    members = list(parts(piece.raw))
    gone = _SERVERS_OWN - ({"id"} if _names_its_call(piece, members) else frozenset())
    edits, bound = removals(members, gone), False
    for member in members:
        if member.key in ("content", "output"):
            for part in _elements(piece.raw, member):
                bound |= _is_bound(piece.raw, part)
                edits += _part_edits(piece.raw, part, "output_text" if piece.role == "assistant" else "input_text")
    return (replace(piece, raw=edited(piece.raw, edits)) if edits else piece), bound


def _names_its_call(piece: Piece, members: list[Part]) -> bool:
    """Whether the `id` is what names the call that the item is the output of."""
    if piece.type not in NAMED_BY_ID or piece.call_id is None:
        return False
    ids = {piece.raw[member.start : member.end] for member in members if member.key == "id"}
    calls = {piece.raw[member.start : member.end] for member in members if member.key == "call_id"}
    return not calls or ids <= calls


def _holds(raw: bytes, part: Part) -> bool:
    return raw[part.start : part.end] not in (b"null", b'""') and (
        raw[part.start : part.start + 1] != b"[" or any(True for _ in parts(raw, part.start))
    )


def _is_bound(raw: bytes, part: Part) -> bool:
    """Whether only one server has what a part shows."""
    fields = {member.key for member in parts(raw, part.start) if _holds(raw, member)}
    return bool(fields & _PART_BOUND) and not fields & _PART_OPEN


def _part_edits(raw: bytes, part: Part, text_type: str) -> Iterator[Edit]:
    """A text in the place of a part that only its server has; no annotations where they cite files of the server."""
    if _is_bound(raw, part):
        yield Edit(part.start, part.end, encode_json({"type": text_type, "text": PART_LEFT_OUT}))
        return
    members = list(parts(raw, part.start))
    yield from removals(members, _PART_SEALED)
    for member in members:
        cited = (field.key for one in _elements(raw, member) for field in parts(raw, one.start))
        if member.key == "annotations" and "file_id" in cited:
            yield Edit(member.start, member.end, b"[]")


def _elements(raw: bytes, value: Part) -> Iterator[Part]:
    return parts(raw, value.start) if raw[value.start : value.start + 1] == b"[" else iter(())
