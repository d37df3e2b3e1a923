"""What `turnlog doctor` finds out. It opens the engine alone, so that it settles no turn."""

from __future__ import annotations

import platform
import stat
import sys
from pathlib import Path
from typing import Any, Final

import apsw

from turnlog.cli.agents import codex_words
from turnlog.cli.failing import sentence
from turnlog.cli.store import Store
from turnlog.cli.words import shell_word
from turnlog.engines.open import open_engine
from turnlog.engines.protocol import Engine, Phase
from turnlog.errors import TurnlogError
from turnlog.events.clock import SystemClock
from turnlog.journal.records import turn_view
from turnlog.limits import PAGE_ROWS

_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})
_HEADER_BYTES: Final = 100
_SCHEMA: Final = slice(60, 64)
_APPLICATION: Final = slice(68, 72)
"""Where a SQLite file keeps its schema version, and the mark of whose it is."""

_OURS: Final = b"trnl"

_DEAD_MOST: Final = 1_000


def examine(store: Store, version: str) -> dict[str, Any]:
    """Facts by name, `open_turns`, `findings` as sentences, and whether the store is `usable`."""
    report: dict[str, Any] = {
        "store": store.url,
        "path": None if store.path is None else str(store.path),
        "exists": store.path is None or store.path.exists(),
        "usable": False,
        "turnlog": version,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "system": f"{platform.system()} {platform.release()}",
        "codex": codex_words(),
    }
    findings: list[str] = []
    if store.path is not None:
        _examine_files(report, findings, store.path)
    open_turns: list[dict[str, Any]] = []
    try:
        store.check_there()
        engine = open_engine(store.url, SystemClock())
    except (TurnlogError, OSError) as error:
        findings.append(sentence(error, store))
    else:
        try:
            report |= {"usable": True, "epoch": engine.epoch, "durable": engine.caps.durable}
            open_turns = _open_turns(engine)
        finally:
            engine.close()
    dead = sum(not turn["owner_alive"] for turn in open_turns)
    if dead:
        findings.append(f"Turns of dead processes are open: {dead}. Settle them: {store.command('recover')}")
    return report | {"open_turns": open_turns, "findings": findings}


def _open_turns(engine: Engine) -> list[dict[str, Any]]:
    """The first page of open turns, and whether who writes them is alive."""
    dead = set(engine.dead_owners(limit=_DEAD_MOST))
    return [
        {
            "thread": row.thread,
            "turn": row.turn,
            "name": f"{shell_word(row.turn)} of {shell_word(row.thread)}",
            "state": turn_view(engine, row).state,
            "started": row.phase is Phase.STARTED,
            "owner": row.owner,
            "owner_alive": row.owner not in dead,
        }
        for row in engine.turns(open_only=True, limit=PAGE_ROWS).rows
    ]


def _examine_files(report: dict[str, Any], findings: list[str], path: Path) -> None:
    """Sizes, permissions, file system, schema; before the store is opened, because reading its file drops locks."""
    report["file_system"] = _file_system(path)
    if report["file_system"] in _NETWORK:
        findings.append(
            f"The store is on {report['file_system']}: locks and syncs of network file systems cannot be relied on."
        )
    if not path.is_file():
        return
    wal = path.with_name(f"{path.name}-wal")
    report.update(
        bytes=path.stat().st_size,
        wal_bytes=wal.stat().st_size if wal.exists() else 0,
        permissions=f"{stat.S_IMODE(path.stat().st_mode):04o}",
        folder_permissions=f"{stat.S_IMODE(path.parent.stat().st_mode):04o}",
    )
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if header[_APPLICATION] != _OURS:
        return
    report["schema"] = int.from_bytes(header[_SCHEMA], "big")
    if path.stat().st_mode & 0o077:
        findings.append(f"Others may read the store. Keep it to yourself: chmod 600 {shell_word(str(path))}")


def _file_system(path: Path) -> str | None:
    """The type of the file system that holds `path`, where the system says it."""
    mounts = Path("/proc/self/mounts")
    if sys.platform != "linux" or not mounts.exists():
        return None
    place = str(path.absolute())
    best, found = "", None
    for line in mounts.read_text("utf-8", "surrogateescape").split("\n"):
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        folder = fields[1].encode("latin-1", "replace").decode("unicode_escape") if "\\" in fields[1] else fields[1]
        if (place == folder or place.startswith(folder.rstrip("/") + "/")) and len(folder) >= len(best):
            best, found = folder, fields[2]
    return found
