"""Three kinds of processes share a store, in a random mix of all they can do, and of what can happen to them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from .conductor import Mix
from .judge import judge
from .known import lacking
from .left import settle
from .plan import LONG, SHORT, Scale

SEED = os.environ.get("SIMULATION_SEED", "1")


SCALES = [
    pytest.param(SHORT, id="short", marks=pytest.mark.timeout(300)),
    pytest.param(LONG, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]),
]


@pytest.mark.parametrize("scale", SCALES)
def test_nothing_is_lost_doubled_invented_or_stuck(scale: Scale, tmp_path: Path) -> None:
    """P1, P2, P3, P5, P6, P7, P8, P9, C02, C03, C07, C08, C12, C42: an application, a server and commands talk, are
    killed, stopped and interrupted on one store, and an independent checker finds nothing wrong with what is left."""
    mix = Mix(SEED, scale, tmp_path)
    asyncio.run(mix.play())
    left = settle(tmp_path)
    found = judge(left, mix.known, scale)
    (tmp_path / "counts").write_text(counts_of(mix, scale))
    assert not found, evidence(found, mix, scale, tmp_path)


def evidence(found: list[str], mix: Mix, scale: Scale, folder: Path) -> str:
    """What is wrong, what was done, and how to do it again; with the store goes all that was told and shown."""
    (folder / "wrong").write_text("\n".join(found), "utf-8", "backslashreplace")
    for name, lines in (("deeds", mix.known.deeds), ("facts", mix.known.facts)):
        (folder / name).write_text("\n".join(map(repr, lines)), "utf-8", "backslashreplace")
    again = f"SIMULATION_SEED={SEED} python -m pytest {Path(__file__).name}"
    shown = [problem if len(problem) < 1_000 else f"{problem[:500]} ... {problem[-500:]}" for problem in found[:30]]
    return "\n".join(
        [*shown, f"{len(found)} in all. The store, and what was told: {folder}. Again: {again}", counts_of(mix, scale)]
    )


def counts_of(mix: Mix, scale: Scale) -> str:
    """What was lacking when the time was over, which the run went on for, and how often each thing happened."""
    lacked = ", ".join(mix.known.lacked) or "nothing"
    still = ", ".join(lacking(mix.known, scale.least)) or "nothing"
    counts = [f"  {name}: {count}" for name, count in sorted(mix.known.counts.items())]
    return "\n".join([f"When its time was over, {lacked} was lacking; in the end {still}.", *counts])
