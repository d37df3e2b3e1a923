"""Power loss at every sync of scripted turns: nothing that was acknowledged, started or shown is lost or invented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ..proof.scale import PARTS, SCALES, Scale
from .recording import record, recover, wrong_after

Record = Callable[[str, object], None]

AGAIN = 5
"""Each of so many recovered stores is recovered a second time."""


@pytest.mark.timeout(7_200)
@pytest.mark.usefixtures("often_checkpointed")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scale", SCALES)
def test_nothing_is_lost_at_any_sync(scale: Scale, part: int, folder: Path, record_property: Record) -> None:
    """P1, P2, P3, P5, P8: before and after each sync and whenever something became known, from creating to closing."""
    recording = record(folder / "live")
    known = sorted({fact.at for fact in recording.account.facts})
    points = [*recording.disk.points, *(replace(recording.end, position=position) for position in known)]
    states, found = 0, list[str]()
    for number, point in list(enumerate(points))[part::PARTS]:
        facts = recording.account.by(point.position)
        for image in point.images(scale.subsets):
            states += 1
            name, again = f"{number}-{states}", states % AGAIN == 0
            wrong = wrong_after(image, folder / name, facts, recording.scripts, again=again)
            found += [f"{point} {image.kept}: {problem}" for problem in wrong]
    record_property("crash_states", states)
    assert not found, "\n".join(found[:20])
    assert len(points) > 120


@pytest.mark.timeout(7_200)
@pytest.mark.usefixtures("often_checkpointed")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scale", SCALES)
def test_recovery_may_crash_too(scale: Scale, part: int, folder: Path, record_property: Record) -> None:
    """P2, P8: killed at each sync, then out of power at each sync of the recovery: the next recovery ends it."""
    recording = record(folder / "live")
    points = [point for point in recording.disk.points if point.position <= recording.end.position]
    states, found = 0, list[str]()
    for number, killed in [*enumerate([*points, recording.end])][part::PARTS]:
        known = recording.account.by(killed.position)
        recovery = recover(killed, folder / f"{number}")
        for point in recovery.disk.points:
            facts = known + recovery.account.by(point.position)
            for image in point.images(scale.subsets if killed is recording.end else scale.recovery_subsets):
                states += 1
                name, again = f"{number}-{states}", states % AGAIN == 0
                wrong = wrong_after(image, folder / name, facts, recording.scripts, again=again)
                found += [f"{killed}, then {point} {image.kept}: {problem}" for problem in wrong]
    record_property("crash_states", states)
    assert not found, "\n".join(found[:20])
