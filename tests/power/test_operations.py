"""Power loss at every sync of what is done to threads as a whole: each operation is there or not, and is there once
acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from turnlog.engines.protocol import Engine
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.disk import Disk
from turnlog.testing.vfs import PowerVFS

from ..journal.stores import call, eventually, message, output
from ..proof.scale import SCALES, Scale
from .states import Script, open_store, state_in

TRACED = ("t", "traced")
"""The turn that is worth a snapshot."""


class Doing:
    """Does one thing after the other, and remembers what the store then holds."""

    def __init__(self, log: Log, script: Script) -> None:
        self._log, self._script = log, script

    def turn(self, thread: str, turn: str, *, well: bool = True, calls: int = 0) -> None:
        begun = self._log.submit(thread, f"question {turn}", turn=turn, key=f"key-{turn}").result()
        self._script.remember()
        begun.start(agent="scripted").result()
        self._script.remember()
        items = [it for n in range(calls) for it in (call(f"{turn}-{n}"), output(f"{turn}-{n}", "x" * 3_000))]
        for item in [*items, message(f"answer {turn}")]:
            begun.item(item).result()
            self._script.remember()
        (begun.complete() if well else begun.interrupt("failed")).result()
        self._script.remember()

    def all(self) -> None:
        """Everything that changes a thread, each acknowledged before the next."""
        log, remember = self._log, self._script.remember
        self.turn(*TRACED, calls=3)
        self.turn("t", "wrong")
        self.turn("t", "failed", well=False)
        asked: list[Callable[[], object]] = [
            lambda: log.rename("t", "A title").result(),
            lambda: log.pin("t").result(),
            lambda: log.fork("t", "copy", turn="wrong").result(),
            lambda: log.truncate("t", "wrong").result(),
            lambda: log.append_message("t", message("said by nobody's turn")).result(),
            lambda: log.compact("copy", "what it was about").result(),
            lambda: log.rename("t", "").result(),
        ]
        for act in asked:
            act()
            remember()
        edited = log.submit("t", "better", turn="edited", edit_of="traced").result()
        remember()
        log.request("t", "edited").result()
        remember()
        edited.interrupt("cancelled").result()
        remember()


def record(folder: Path) -> tuple[Disk, Script, list[bytes]]:
    """The disk, what was acknowledged when, and the pages of the snapshot."""
    folder.mkdir()
    disk, clock = Disk(), SystemClock()
    with PowerVFS(f"power {folder.name}", disk=disk) as vfs:
        engine = open_store(folder, vfs.name)
        script = Script(engine, disk)
        script.remember()
        with Log(engine, clock=clock) as log:
            Doing(log, script).all()
            eventually(lambda: engine.snapshot(*TRACED) is not None)
            pages = pages_of(engine)
    assert pages
    return disk, script, pages


def pages_of(engine: Engine) -> list[bytes]:
    """The pages of the snapshot, none when there is none."""
    first = engine.snapshot(*TRACED)
    found = [engine.snapshot(*TRACED, page=page) for page in range(0 if first is None else first.pages)]
    return [b"" if page is None else page.body for page in found]


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("scale", SCALES)
def test_each_operation_is_whole_or_not_there(
    scale: Scale, folder: Path, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P9: after a power loss at any sync every acknowledged title, pin, truncation, edit, summary, message and
    copy is there, none is there by half, and a snapshot is whole or none."""
    disk, script, pages = record(folder / "live")
    states = snapshots = 0
    for number, point in enumerate(disk.points):
        for image in point.images(scale.subsets // 4):
            states += 1
            place = folder / f"{number}-{states}"
            found = state_in(image, place)
            assert found in script.expected_at(point.position), f"{point} {image.kept}"
            with closing(open_store(place, None)) as engine:
                kept = pages_of(engine)
            assert kept in ([], pages)
            snapshots += kept == pages
    record_property("crash_states", states)
    assert snapshots
    assert len(disk.points) > 20
