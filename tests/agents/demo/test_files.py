"""The demo agent's reading of folders as they are: strange, hostile, huge, and changing meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.agents.demo.asking import ask
from turnlog.agents.demo import files
from turnlog.agents.demo.bounds import DEPTH_MAX, FILE_BYTES_MAX
from turnlog.agents.demo.files import File, Folder, Listing, Text, decode, lines_of, problem
from turnlog.agents.demo.shown import shown_name
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.events.clock import SystemClock


def paths(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    """A link to a file or folder outside, to its own folder or to nothing is left out, and said so."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("fine")
    (root / "out").symlink_to(outside)
    (root / "secret.txt").symlink_to(outside / "secret.txt")
    (root / "loop").symlink_to(root)
    (root / "nowhere").symlink_to(root / "missing")
    listing = Folder(root).listing()
    assert paths(listing) == ["a.txt"]
    assert listing.skipped == {"link": ["loop", "nowhere", "out", "secret.txt"]}


def test_a_folder_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    """Between listing and reading, a folder that becomes a link to the outside does not open the outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "a.txt").write_text("fine")
    folder = Folder(root)
    (file,) = folder.listing().files
    (root / "inner").rename(root / "was")
    (root / "inner").symlink_to(outside)
    with pytest.raises(OSError):
        folder.read(file)


def test_nothing_waits_for_a_fifo(tmp_path: Path) -> None:
    """A FIFO is left out of a listing, and a file that became one meanwhile is no text."""
    os.mkfifo(tmp_path / "pipe")
    listing = Folder(tmp_path).listing()
    assert listing.skipped == {"special file": ["pipe"]}
    assert Folder(tmp_path).read(File(("pipe",), 0)) == "special file"


def test_what_is_not_the_persons_own_is_left_out(tmp_path: Path) -> None:
    """Hidden files and folders, and folders that tools fill, are left out by name."""
    for name in (".git", "node_modules", "src/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.txt").write_text("x")
    (tmp_path / ".env").write_text("KEY=1")
    listing = Folder(tmp_path).listing()
    assert listing.files == []
    assert listing.skipped == {"hidden": [".env", ".git"], "generated": ["node_modules", "src/__pycache__"]}


def test_a_deep_tree_ends(tmp_path: Path) -> None:
    """Folders deeper than the bound are left out, and said so."""
    deep = tmp_path.joinpath(*["d"] * (DEPTH_MAX + 3))
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("x")
    listing = Folder(tmp_path).listing()
    assert len(listing.folders) == DEPTH_MAX
    assert listing.skipped == {"too deep": ["/".join(["d"] * (DEPTH_MAX + 1))]}


def test_a_huge_folder_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: no more names than the bound are looked at, in one folder and in all together, and the rest is named."""
    monkeypatch.setattr(files, "ENTRIES_MAX", 5)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for number in range(4):
            (tmp_path / folder / f"{number}.txt").write_text("x")
    listing = Folder(tmp_path).listing()
    assert len(listing.files) == 3
    assert listing.skipped == {"over the limit": ["a/…", "b"]}


def test_a_huge_file_is_read_in_part(tmp_path: Path) -> None:
    """P11: of a file only the first bytes are read, and the text says that it is cut."""
    (tmp_path / "big.txt").write_bytes(b"0123456789abcde\n" * (FILE_BYTES_MAX // 16 + 1))
    folder = Folder(tmp_path)
    (file,) = folder.listing().files
    text = folder.read(file)
    assert isinstance(text, Text)
    assert text.cut
    assert len(text.lines) == FILE_BYTES_MAX // 16


def test_a_search_ends_when_it_has_read_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a question searches no more bytes than the bound, says so, and can still quote what it found."""
    monkeypatch.setattr(files, "TOTAL_BYTES_MAX", 10)
    for name in ("a", "b"):
        (tmp_path / name).write_text("needle 789")
    told = ask(tmp_path, "needle")
    assert "comes up in 1 line of 1 file" in told.text
    assert "`b` (over the limit)" in told.text
    assert "```\nneedle 789\n```" in told.text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("grüße".encode(), "grüße"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("grüße".encode("utf-16"), "grüße"),
        ("grüße".encode("utf-16-be", "strict").join([b"\xfe\xff", b""]), "grüße"),
        ("grüße".encode("cp1252"), "grüße"),
        ("grüße".encode() + b" \xff end", "grüße \ufffd end"),
        (b"\x7fELF\0\0", None),
        (b"", ""),
    ],
)
def test_bytes_become_the_text_they_are(data: bytes, text: str | None) -> None:
    """Text is read in the encoding it has, damaged UTF-8 keeps what is sound, binary is no text."""
    assert decode(data) == text


def test_only_line_ends_end_a_line() -> None:
    """C17: LF, CR LF and CR end a line, U+2028, U+0085, vertical tab and form feed do not."""
    assert lines_of("a\u2028b\u0085c\x0bd\x0ce\nf\r\ng\rh\n") == ["a\u2028b\u0085c\x0bd\x0ce", "f", "g", "h"]
    assert lines_of("") == []
    assert lines_of("\n\n") == ["", ""]


@given(st.text(), st.text())
@example("\\n", "\n")
@example("\udcff", "\\xff")
@example("a\u202eb", "ab")
def test_two_names_never_look_the_same(one: str, other: str) -> None:
    """What is shown of a file name is printable, and different for different names."""
    assert shown_name(one).isprintable()
    assert (shown_name(one) == shown_name(other)) == (one == other)


def test_names_of_any_bytes_can_be_read(tmp_path: Path) -> None:
    """A file whose name holds a line feed and bytes that are no UTF-8 is listed, shown and read."""
    raw = os.fsencode(tmp_path) + b"/a\n\xff.txt"
    fd = os.open(raw, os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"found")
    os.close(fd)
    folder = Folder(tmp_path)
    (file,) = folder.listing().files
    assert file.path == "a\\n\\xff.txt"
    assert folder.read(file) == Text(["found"], False)


def test_a_file_that_is_gone_is_a_problem_with_a_next_step(tmp_path: Path) -> None:
    """A file deleted between listing and reading is told as gone, with what to do."""
    (tmp_path / "a.txt").write_text("x")
    folder = Folder(tmp_path)
    (file,) = folder.listing().files
    (tmp_path / "a.txt").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        folder.read(file)
    trouble = problem(file.parts, caught.value)
    assert (trouble.path, trouble.failure.reason) == ("a.txt", "it is gone")
    assert trouble.failure.next_step


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Listing and reading, failing or not, give back every descriptor."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.txt").write_text("x")
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    folder = Folder(tmp_path)
    for file in folder.listing().files:
        folder.read(file)
    with pytest.raises(OSError):
        folder.read(File(("a", "b", "missing"), 0))
    with pytest.raises(OSError):
        folder.listing(("missing",))
    assert (os.listdir("/proc/self/fd") if before else []) == before


def test_held_files_are_never_opened(tmp_path: Path) -> None:
    """P1: the files of the open store, hard links to them and the owners' folder are left out, told, and not opened."""
    (tmp_path / "a.txt").write_text("fine")
    opened = []

    def opener(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(str(path))
        return os.open(path, flags, mode, dir_fd=dir_fd)

    engine = SqliteEngine(tmp_path / "chat.db", SystemClock())
    engine.lease("owner", 30.0)
    (tmp_path / "hard.txt").hardlink_to(tmp_path / "chat.db")
    folder = Folder(tmp_path, opener=opener)
    listing = folder.listing()
    assert paths(listing) == ["a.txt"]
    assert listing.folders == []
    names = ["chat.db", "chat.db-shm", "chat.db-wal", "chat.db.owners", "hard.txt"]
    assert listing.skipped == {"the store of this log": names}
    assert [folder.read(File((name,), 9)) for name in names if name != "chat.db.owners"] == [
        "the store of this log"
    ] * 4
    assert set(opened) == {str(tmp_path)}
    engine.close()
    assert isinstance(folder.read(File(("a.txt",), 4)), Text)


def test_a_file_that_becomes_held_is_not_closed(tmp_path: Path) -> None:
    """P1: when a store is opened while its file is being read, the reader does not close it: its locks would go."""
    path = tmp_path / "chat.db"
    SqliteEngine(path, SystemClock()).close()
    engines, files = [], []

    def opener(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        file = os.open(path, flags, mode, dir_fd=dir_fd)
        if path == "chat.db":
            files.append(file)
            engines.append(SqliteEngine(tmp_path / "chat.db", SystemClock()))
        return file

    assert Folder(tmp_path, opener=opener).read(File(("chat.db",), 9)) == "binary"
    os.fstat(files[0])
    engines[0].close()
    os.close(files[0])
