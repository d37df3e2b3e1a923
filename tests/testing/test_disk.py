"""The model of a disk: what it keeps of what was written, synced, named and lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.testing.disk import Disk, Image
from turnlog.testing.replay import SECTOR_BYTES, Kept, Operation, Wrote, tear


def a_synced_file(disk: Disk, name: str, content: bytes) -> None:
    disk.created(name)
    disk.wrote(name, 0, content)
    sync(disk, name)
    disk.folder_synced(name, disk.position)


def sync(disk: Disk, name: str, *, failed: bool = False) -> None:
    disk.synced(name, disk.mark(name, "sync.before"), failed=failed)


def test_what_was_synced_is_kept_and_what_was_not_is_lost() -> None:
    """Of a write before a sync and one after it, a crash that keeps nothing unsynced leaves the first."""
    disk = Disk()
    a_synced_file(disk, "x", b"old")
    disk.wrote("x", 0, b"n")
    assert disk.now().none().files == {"x": bytearray(b"old")}
    assert disk.now().all().files == {"x": bytearray(b"nld")}


def test_a_sync_covers_only_what_was_written_before_it_began() -> None:
    """A write that another thread makes while a sync runs is not durable by this sync."""
    disk = Disk()
    a_synced_file(disk, "x", b"aa")
    mark = disk.mark("x", "sync.before")
    disk.wrote("x", 0, b"b")
    disk.synced("x", mark)
    assert disk.now().none().files["x"] == b"aa"
    sync(disk, "x")
    assert disk.now().none().files["x"] == b"ba"


def test_a_sync_of_one_file_does_nothing_for_another() -> None:
    """Writes to a file wait for the sync of that file."""
    disk = Disk()
    a_synced_file(disk, "x", b"x")
    a_synced_file(disk, "y", b"y")
    disk.wrote("x", 0, b"X")
    sync(disk, "y")
    assert disk.now().none().files == {"x": b"x", "y": b"y"}


def test_a_new_name_is_durable_only_by_a_sync_of_its_folder() -> None:
    """A file whose content was synced, and its folder never, may be absent or present after the crash."""
    disk = Disk()
    disk.created("x")
    disk.wrote("x", 0, b"content")
    sync(disk, "x")
    assert disk.now().none().files == {}
    assert disk.now().all().files == {"x": b"content"}
    disk.folder_synced("x", disk.position)
    assert disk.now().none().files == {"x": b"content"}


def test_a_sync_of_a_folder_covers_only_earlier_names() -> None:
    """A file made while the sync of its folder runs is not durable by this sync."""
    disk = Disk()
    a_synced_file(disk, "x", b"x")
    mark = disk.mark("x", "sync.before")
    disk.created("y")
    disk.folder_synced("x", mark)
    assert disk.now().none().files == {"x": b"x"}


def test_a_deleted_name_comes_back_until_its_folder_is_synced() -> None:
    """A deletion that was not synced may be undone by the crash, even when the name was used again."""
    disk = Disk()
    a_synced_file(disk, "x", b"first")
    disk.deleted("x")
    assert disk.now().none().files == {"x": b"first"}
    disk.created("x")
    disk.wrote("x", 0, b"second")
    assert disk.now().none().files == {"x": b"first"}
    assert disk.now().all().files == {"x": b"second"}


def test_truncation_cuts_and_fills_with_zeros() -> None:
    """A cut file ends there, and what is written beyond the end leaves zeros between."""
    disk = Disk()
    a_synced_file(disk, "x", b"abcdef")
    disk.truncated("x", 2)
    disk.wrote("x", 4, b"z")
    assert disk.now().all().files["x"] == b"ab\0\0z"
    sync(disk, "x")
    assert disk.now().none().files["x"] == b"ab\0\0z"


def test_what_a_failed_sync_let_down_is_not_saved_by_a_later_one() -> None:
    """After a failed sync a successful one does not make the older writes durable, only those made since."""
    disk = Disk()
    a_synced_file(disk, "x", b"......")
    disk.wrote("x", 0, b"aaaa")
    sync(disk, "x", failed=True)
    disk.wrote("x", 2, b"bb")
    sync(disk, "x")
    assert disk.now().none().files["x"] == b"..bb.."
    assert disk.now().all().files["x"] == b"aabb.."


def test_a_later_truncation_removes_what_a_failed_sync_let_down() -> None:
    """A durable cut holds against an older write that was never made durable."""
    disk = Disk()
    a_synced_file(disk, "x", b"..")
    disk.wrote("x", 0, b"aaaa")
    sync(disk, "x", failed=True)
    disk.truncated("x", 1)
    sync(disk, "x")
    assert disk.now().none().files["x"] == b"."
    assert disk.now().all().files["x"] == b"a"


def test_a_write_is_torn_where_sectors_of_the_file_begin() -> None:
    """The parts of a torn write join to the whole, and all but the outer ones are whole sectors of the file."""
    data = bytes(range(256)) * 5
    parts = tear(Wrote(1, 100, data))
    assert b"".join(part.data for part in parts) == data
    assert [part.offset for part in parts] == [100, SECTOR_BYTES, 2 * SECTOR_BYTES]


def test_a_torn_write_leaves_the_sectors_that_were_kept() -> None:
    """Of a write over three sectors of which the last was kept, the first two still have the older bytes."""
    disk = Disk()
    a_synced_file(disk, "x", b"-" * 3 * SECTOR_BYTES)
    disk.wrote("x", 0, b"+" * 3 * SECTOR_BYTES)
    image = disk.image(disk.position, lambda operations: [Kept(0, (2,))])
    assert image.files["x"] == b"-" * 2 * SECTOR_BYTES + b"+" * SECTOR_BYTES


def test_a_seed_always_gives_the_same_subset() -> None:
    """The same seed keeps the same operations, also after later points were looked at."""
    disk = Disk()
    a_synced_file(disk, "x", b"")
    for n in range(20):
        disk.wrote("x", n * SECTOR_BYTES, bytes([n]) * 2 * SECTOR_BYTES)
    point = disk.now()
    before = [point.subset(seed) for seed in range(50)]
    sync(disk, "x")
    disk.now().none()
    assert [point.subset(seed) for seed in range(50)] == before
    assert len({image.kept for image in before}) > 40
    assert any(keep.sectors for image in before for keep in image.kept)


def test_images_of_a_point_are_all_different() -> None:
    """With one unsynced write of one sector there are two images, however many subsets are asked for."""
    disk = Disk()
    a_synced_file(disk, "x", b"a")
    disk.wrote("x", 0, b"b")
    assert [bytes(image.files["x"]) for image in disk.now().images(100)] == [b"a", b"b"]


def test_forgetting_keeps_what_is_on_the_disk_and_what_is_not() -> None:
    """After `forget` the earlier points are refused, and later ones are what they would have been."""
    disk = Disk()
    a_synced_file(disk, "x", b"aa")
    earlier = disk.now()
    disk.wrote("x", 0, b"b")
    disk.forget()
    disk.wrote("x", 1, b"c")
    with pytest.raises(ValueError, match="forgotten"):
        earlier.none()
    assert disk.points == []
    assert disk.now().none().files["x"] == b"aa"
    assert disk.now().all().files["x"] == b"bc"


def test_unsynced_operations_are_told_to_the_one_who_chooses() -> None:
    """An image of one's own choice is given the unsynced operations in order."""
    disk = Disk()
    a_synced_file(disk, "x", b"")
    disk.wrote("x", 0, b"1")
    disk.wrote("x", 0, b"2")
    seen: list[Operation] = []

    def choose(operations: list[Operation]) -> list[Kept]:
        seen.extend(operations)
        return [Kept(0)]

    assert disk.image(disk.position, choose).files["x"] == b"1"
    assert [operation.data for operation in seen if isinstance(operation, Wrote)] == [b"1", b"2"]


def test_an_image_is_written_only_into_an_empty_folder(tmp_path: Path) -> None:
    """Files of two crashes are never mixed."""
    image = Image({"x": bytearray(b"content")}, ())
    image.write(tmp_path / "crash")
    assert (tmp_path / "crash" / "x").read_bytes() == b"content"
    with pytest.raises(ValueError, match="not empty"):
        image.write(tmp_path / "crash")
