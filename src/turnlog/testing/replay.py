"""The operations of `testing.disk` and what replaying them gives: what is durable, and what is not yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

SECTOR_BYTES: Final = 512
"""The unit a disk writes whole: a write may be torn only between two of them."""


class Operation(msgspec.Struct, frozen=True):
    """What all operations are. A `node` is one file's content, whatever names it has had; `mark` is a position."""


class Wrote(Operation, frozen=True):
    """`data` at `offset`."""

    node: int
    offset: int
    data: bytes


class Truncated(Operation, frozen=True):
    """The file has `size` bytes: cut, or filled with zeros."""

    node: int
    size: int


class Synced(Operation, frozen=True):
    """What was done to the node before `mark` is durable, or, `failed`, never will be by a sync."""

    node: int
    mark: int
    failed: bool = False


class Linked(Operation, frozen=True):
    """`name` names the node."""

    name: str
    node: int


class Unlinked(Operation, frozen=True):
    """`name` names nothing."""

    name: str


class FolderSynced(Operation, frozen=True):
    """The names made and deleted before `mark` are durable."""

    mark: int


class Kept(msgspec.Struct, frozen=True):
    """One unsynced operation that the crash kept, by its place among them; of a torn write only these `sectors`."""

    place: int
    sectors: tuple[int, ...] | None = None


class _Pending(msgspec.Struct, frozen=True):
    """An operation that is not durable; a `lost` one was let down by a failed sync."""

    position: int
    operation: Operation
    lost: bool = False


class State:
    """The disk at `position`."""

    def __init__(self) -> None:
        self.position = 0
        self._contents: dict[int, bytearray] = {}
        self._names: dict[str, int] = {}
        self._pending: list[_Pending] = []

    def copy(self) -> State:
        """A state of its own, equal to this one."""
        other = State()
        other.position = self.position
        other._contents = {node: bytearray(content) for node, content in self._contents.items()}
        other._names = dict(self._names)
        other._pending = list(self._pending)
        return other

    def replay(self, operations: Iterable[Operation]) -> None:
        """Go on by these operations."""
        for operation in operations:
            if isinstance(operation, Synced):
                self._sync(operation)
            elif isinstance(operation, FolderSynced):
                self._sync_folder(operation.mark)
            else:
                self._pending.append(_Pending(self.position, operation))
            self.position += 1

    def unsynced(self) -> list[Operation]:
        """The operations that a crash may keep or lose, in order."""
        return [pending.operation for pending in self._pending]

    def names(self) -> dict[str, int]:
        """The names that running processes see, with their nodes."""
        names = dict(self._names)
        for pending in self._pending:
            if isinstance(pending.operation, Linked | Unlinked):
                _name(names, pending.operation)
        return names

    def files(self, kept: Sequence[Kept]) -> dict[str, bytearray]:
        """Name and content of each file after a crash that kept these of the unsynced operations."""
        names = dict(self._names)
        done: dict[int, list[Operation]] = {}
        for keep in kept:
            operation = self._pending[keep.place].operation
            if isinstance(operation, Linked | Unlinked):
                _name(names, operation)
                continue
            pieces: list[Operation] = [operation]
            if keep.sectors is not None:
                sectors = tear(operation)
                pieces = [sectors[n] for n in keep.sectors]
            done.setdefault(_node(operation), []).extend(pieces)
        return {name: self._content(node, done.get(node, ())) for name, node in names.items()}

    def _content(self, node: int, operations: Iterable[Operation]) -> bytearray:
        content = bytearray(self._contents.get(node, b""))
        for operation in operations:
            _apply(content, operation)
        return content

    def _sync(self, sync: Synced) -> None:
        content = self._contents.setdefault(sync.node, bytearray())
        left: list[_Pending] = []
        for pending in self._pending:
            operation = pending.operation
            ours = isinstance(operation, Wrote | Truncated) and operation.node == sync.node
            if not ours or pending.position >= sync.mark or pending.lost:
                left.append(pending)
            elif sync.failed:
                left.append(_Pending(pending.position, operation, lost=isinstance(operation, Wrote)))
            else:
                _apply(content, operation)
                if any(earlier.lost for earlier in left):
                    left = [part for earlier in left for part in _uncovered(earlier, operation)]
        self._pending = left

    def _sync_folder(self, mark: int) -> None:
        left: list[_Pending] = []
        for pending in self._pending:
            if isinstance(pending.operation, Linked | Unlinked) and pending.position < mark:
                _name(self._names, pending.operation)
            else:
                left.append(pending)
        self._pending = left


def tear(operation: Operation) -> list[Wrote]:
    """The parts of a write that can be kept and lost apart: cut where the file's sectors begin."""
    if not isinstance(operation, Wrote):
        raise TypeError(f"only a write can be torn, not {operation!r}")
    start, end = operation.offset, operation.offset + len(operation.data)
    cuts = [start, *range((start // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
    return [Wrote(operation.node, low, operation.data[low - start : high - start]) for low, high in pairwise(cuts)]


def _node(operation: Operation) -> int:
    assert isinstance(operation, Wrote | Truncated)
    return operation.node


def _name(names: dict[str, int], operation: Linked | Unlinked) -> None:
    if isinstance(operation, Linked):
        names[operation.name] = operation.node
    else:
        names.pop(operation.name, None)


def _apply(content: bytearray, operation: Operation) -> None:
    if isinstance(operation, Wrote):
        _resize(content, max(len(content), operation.offset))
        content[operation.offset : operation.offset + len(operation.data)] = operation.data
    elif isinstance(operation, Truncated):
        _resize(content, operation.size)


def _resize(content: bytearray, size: int) -> None:
    if size > len(content):
        content.extend(bytes(size - len(content)))
    else:
        del content[size:]


def _uncovered(earlier: _Pending, later: Operation) -> list[_Pending]:
    """What of an earlier lost write is not replaced by a later operation that became durable before it."""
    write = earlier.operation
    if not earlier.lost or not isinstance(write, Wrote) or write.node != _node(later):
        return [earlier]
    start, end = write.offset, write.offset + len(write.data)
    if isinstance(later, Truncated):
        low_end, high_start = later.size, end
    else:
        assert isinstance(later, Wrote)
        low_end, high_start = later.offset, later.offset + len(later.data)
    ranges = ((start, min(end, low_end)), (max(start, high_start), end))
    return [
        _Pending(earlier.position, Wrote(write.node, low, write.data[low - start : high - start]), lost=True)
        for low, high in ranges
        if low < high
    ]
