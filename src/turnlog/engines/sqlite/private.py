"""Files and folders that only their user can read, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def create_folder(path: Path) -> None:
    """Make a folder and its missing parents; those that exist stay as they are."""
    if not path.is_dir():
        create_folder(path.parent)
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            return
        path.chmod(FOLDER_MODE)


def give_to_owner_of(path: Path, file: int) -> None:
    """What root makes beside a file of somebody else belongs to that one, who could not open it otherwise.

    Nothing happens where the file at `path` is still to be made: root's, then.
    """
    if os.geteuid() == 0 and path.exists():
        owner = path.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)


def create_file(path: Path) -> None:
    """Make an empty file, and its folder, unless it exists."""
    create_folder(path.parent)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        return
    os.fchmod(file, FILE_MODE)
    os.close(file)
