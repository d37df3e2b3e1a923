"""What turnlog is measured against: a raw file, and the way of its first ancestor. All of it is our own code."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

_SESSION = re.compile(r"[A-Za-z0-9_.-]+")


class RawFile:
    """The floor: one append and one fdatasync a record."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, record: bytes) -> None:
        """Make one record durable."""
        os.write(self._file, record)
        os.fdatasync(self._file)


class ZeroedFile:
    """Below the floor: a file that need not grow, overwritten in place."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._size = size
        self._at = 0
        os.write(self._file, bytes(size))
        os.fsync(self._file)

    def write(self, record: bytes) -> None:
        """Make one record durable."""
        if self._at + len(record) > self._size:
            self._at = 0
        os.pwrite(self._file, record, self._at)
        self._at += len(record)
        os.fdatasync(self._file)


class LineJournal:
    """The first ancestor's way: a file of JSON lines a session, opened, locked, synced and closed for each event.

    The folder is synced with each event too, as that ancestor does, unless `folder_once`: then when a file is new.
    """

    def __init__(self, folder: Path, *, folder_once: bool = False) -> None:
        self._folder = folder
        self._folder_once = folder_once
        folder.mkdir(parents=True)

    def append(self, session: str, event: dict[str, Any]) -> None:
        """Make one event durable."""
        if not _SESSION.fullmatch(session):
            raise ValueError(session)
        line = {**event, "created_at": time.time(), "version": 1, "session_id": session}
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        path = f"{self._folder}/{session}~{os.getpid()}.jsonl"
        new = self._folder_once and not os.path.exists(path)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, data)
            os.fsync(file)
            fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            os.close(file)
        if new or not self._folder_once:
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def turn(self, session: str, text: str) -> None:
        """One turn of two events, as `one_turn` of turnlog writes it: submitted, and ended."""
        turn = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(6)}"
        self.append(session, {"event": "submitted", "role": "user", "content": text, "turn_id": turn})
        self.append(session, {"event": "interrupted", "reason": "cancelled", "turn_id": turn, "terminal": True})
