"""Run all measurements on the real disk and show the table. Nothing is left behind."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

from bench import alone, growth, page, processes, restart, shown, space, streams, timeline, together
from bench.table import Line, formatted

SETTLED = 20_000


def main() -> None:
    """Measure, show, and exit with 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--settled", type=int, default=SETTLED, help="settled turns of the store opened after a kill")
    parser.add_argument(
        "--only",
        choices=[
            *("alone", "together", "processes", "shown", "growth", "space", "restart", "streams", "page", "timeline")
        ],
        help="one measurement",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=streams.SHORT_S,
        help=f"how long streams are watched; {streams.FULL_S:.0f}: all bars",
    )
    given = parser.parse_args()
    parts: dict[str, Callable[[Path], Iterator[Line]]] = {
        "alone": alone.run,
        "together": together.run,
        "processes": processes.run,
        "shown": shown.run,
        "growth": growth.run,
        "space": space.run,
        "restart": partial(restart.run, settled=given.settled),
        "streams": partial(streams.run, seconds=given.seconds),
        "page": page.run,
        "timeline": timeline.run,
    }
    missed = False
    with tempfile.TemporaryDirectory(prefix="bench-", dir=os.environ.get("TMPDIR") or Path.cwd()) as name:
        _show(_about(Path(name)))
        for part, run in parts.items():
            if given.only in (None, part):
                (folder := Path(name) / part).mkdir()
                lines = list(run(folder))
                missed = missed or any(line.held is False for line in lines)
                _show(formatted(lines))
    sys.exit(missed)


def _show(text: str) -> None:
    sys.stdout.write(text + "\n\n")
    sys.stdout.flush()


def _about(folder: Path) -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs"
    return f"{machine}, {python}, SQLite {apsw.sqlite_lib_version()}, on {_file_system(folder)}"


def _file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`, where the system tells."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "an unnamed file system"
    best = ("", "an unnamed file system")
    for line in mounts.read_text().split("\n"):
        fields = line.split(" ")
        if len(fields) > 2 and folder.resolve().is_relative_to(fields[1]):
            best = max(best, (fields[1], fields[2]), key=lambda mount: len(mount[0]))
    return best[1]


if __name__ == "__main__":
    main()
