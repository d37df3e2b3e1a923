"""A model of a disk that keeps only what was synced: the files of one folder, as the operations that made them.

`Disk` is told of every operation on the files (by `testing.vfs`) and only appends them to a list, so that a crash point
costs a number. To look at the disk after a crash, the operations are replayed: what was synced is there; of what was
not, an `Image` has none, all or a seeded subset, one write of it torn between sectors.

What a sync covers: of a file, what was written before the sync began; of the folder (names made and deleted), what a
folder sync covered. Names of files that were never covered may be absent or present. After a sync that failed, what it
should have covered is never durable by a later sync, only by being written again: kernels drop such pages.

Not modelled: what reaches the files in another way than through the VFS, and damage to what was synced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from turnlog.testing.replay import (
    FolderSynced,
    Kept,
    Linked,
    Operation,
    State,
    Synced,
    Truncated,
    Unlinked,
    Wrote,
    tear,
)

Choose: TypeAlias = Callable[[list[Operation]], list[Kept]]
"""Of the unsynced operations, those that a crash keeps."""

_TEAR_SHARE: Final = 0.5
"""Share of the subsets in which one write is torn: whole writes and torn ones find different defects."""

_PREFIX_SHARE: Final = 1 / 3
"""Share of the subsets that keep a beginning of the operations, as a disk does that writes in order."""


class Image(msgspec.Struct, frozen=True):
    """The files a crash left. Two images of one point are equal exactly when `kept` is."""

    files: dict[str, bytearray]
    kept: tuple[Kept, ...]

    def write(self, folder: Path) -> None:
        """Write the files into `folder`, which is made if it is not there and must be empty."""
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty")
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


@dataclass(frozen=True, slots=True)
class Point:
    """An instant at which the power may fail.

    `position` orders points and acknowledgements: what was acknowledged at a position up to this one must be found in
    every image of this point. `place` says where it was taken (`sync.before`, ...), `file` for which file.
    """

    position: int
    place: str
    file: str
    disk: Disk = field(repr=False, compare=False)

    def none(self) -> Image:
        """The disk if nothing was kept of what was not synced."""
        return self.disk.image(self.position, lambda operations: [])

    def all(self) -> Image:
        """The disk if everything was kept: what a killed process leaves."""
        return self.disk.image(self.position, lambda operations: [Kept(n) for n in range(len(operations))])

    def subset(self, seed: int) -> Image:
        """The disk if a random subset was kept, the same for the same seed; one write of it may be torn."""
        return self.disk.image(self.position, lambda operations: _pick(operations, Random(seed)))

    def killed(self, folder: Path) -> Disk:
        """The disk if only the processes died: all is in `folder`, and what was not synced can still be lost.

        A `PowerVFS` on this disk watches the next process in `folder`, which sees what a power loss may yet take.
        """
        self.all().write(folder)
        return self.disk.continued(self.position)

    def images(self, subsets: int) -> Iterator[Image]:
        """None, all, and the subsets of that many seeds, without those that are equal to an earlier one."""
        seen: set[tuple[Kept, ...]] = set()
        for n in range(-2, subsets):
            image = self.none() if n == -2 else self.all() if n == -1 else self.subset(n)
            if image.kept not in seen:
                seen.add(image.kept)
                yield image


class Disk:
    """The recorded operations on the files of one folder, and the points at which its power may fail. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base = State()
        self._replayed = State()
        self._operations: list[Operation] = []
        self._names: dict[str, int] = {}
        self._nodes = 0
        self._points: list[Point] = []

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Operations recorded so far: the position of what is acknowledged now."""
        with self._lock:
            return self._base.position + len(self._operations)

    @property
    def points(self) -> list[Point]:
        """The points so far, in order: before and after each sync of a file and each synced deletion."""
        with self._lock:
            return list(self._points)

    def now(self) -> Point:
        """A point at this instant; it is not added to `points`."""
        return Point(self.position, "now", "", self)

    def forget(self) -> None:
        """Drop all points until now, and their operations: recording goes on from here, what is unsynced stays so."""
        with self._lock:
            self._base.replay(self._operations)
            self._operations.clear()
            self._points.clear()
            self._replayed = self._base.copy()

    def image(self, position: int, choose: Choose) -> Image:
        """The files at `position`, of the unsynced operations those that `choose` keeps. See `Point`."""
        with self._lock:
            state = self._at(position)
            kept = choose(state.unsynced())
            return Image(state.files(kept), tuple(kept))

    def continued(self, position: int) -> Disk:
        """A disk of its own that goes on from `position`. See `Point.killed`."""
        other = Disk()
        with self._lock:
            other._base = self._at(position).copy()
            other._replayed = other._base.copy()
            other._names = other._base.names()
            other._nodes = self._nodes
        return other

    def _at(self, position: int) -> State:
        first = self._base.position
        if not first <= position <= first + len(self._operations):
            raise ValueError(f"position {position} was forgotten or is not reached")
        if self._replayed.position > position:
            self._replayed = self._base.copy()
        self._replayed.replay(self._operations[self._replayed.position - first : position - first])
        return self._replayed

    # --- recording, by the VFS --------------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        """Whether there is a file of this name now."""
        with self._lock:
            return name in self._names

    def found(self, name: str, content: bytes) -> None:
        """A file was there before anything was recorded; its content counts as synced, an empty one's name does not."""
        with self._lock:
            node = self._link(name)
            if content:
                self._add(Wrote(node, 0, content))
                self._add(Synced(node, self._next()))
                self._add(FolderSynced(self._next()))

    def created(self, name: str) -> None:
        """A file was made, empty."""
        with self._lock:
            self._link(name)

    def deleted(self, name: str) -> None:
        """A file's name was removed."""
        with self._lock:
            if self._names.pop(name, None) is not None:
                self._add(Unlinked(name))

    def wrote(self, name: str, offset: int, data: bytes) -> None:
        """`data` was written at `offset`."""
        with self._lock:
            self._add(Wrote(self._names[name], offset, data))

    def truncated(self, name: str, size: int) -> None:
        """The file was cut, or lengthened, to `size` bytes."""
        with self._lock:
            self._add(Truncated(self._names[name], size))

    def mark(self, name: str, place: str) -> int:
        """Something is about to become durable: a point, and the mark to give to `synced` or `folder_synced`."""
        with self._lock:
            self._points.append(Point(self._next(), place, name, self))
            return self._next()

    def synced(self, name: str, mark: int, *, failed: bool = False) -> None:
        """The sync that began at `mark` returned, or `failed`."""
        with self._lock:
            self._add(Synced(self._names[name], mark, failed))
            self._points.append(Point(self._next(), "sync.failed" if failed else "sync.after", name, self))

    def folder_synced(self, name: str, mark: int) -> None:
        """The names made and deleted before `mark` are durable; `name` is the file for which the folder was synced."""
        with self._lock:
            self._add(FolderSynced(mark))
            self._points.append(Point(self._next(), "folder.after", name, self))

    def _link(self, name: str) -> int:
        self._nodes += 1
        self._names[name] = self._nodes
        self._add(Linked(name, self._nodes))
        return self._nodes

    def _next(self) -> int:
        return self._base.position + len(self._operations)

    def _add(self, operation: Operation) -> None:
        self._operations.append(operation)


def _pick(operations: list[Operation], random: Random) -> list[Kept]:
    """Some of `operations` by their places in the list, one of them perhaps torn."""
    if random.random() < _PREFIX_SHARE:
        places = list(range(random.randint(0, len(operations))))
    else:
        share = random.random()
        places = [n for n in range(len(operations)) if random.random() < share]
    kept = [Kept(n) for n in places]
    writes = [n for n, place in enumerate(places) if isinstance(operations[place], Wrote)]
    if writes and random.random() < _TEAR_SHARE:
        torn = random.choice(writes)
        sectors = len(tear(operations[places[torn]]))
        if sectors > 1:
            lasting = sorted(random.sample(range(sectors), random.randint(1, sectors - 1)))
            kept[torn] = Kept(places[torn], tuple(lasting))
    return kept
