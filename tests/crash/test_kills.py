"""Real processes that are killed: nothing they had acknowledged or shown is lost, nothing is invented or done twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from turnlog.testing.killing import Child

from ..power.recording import NAME, open_log
from ..proof.checker import check_file
from ..proof.facts import AnyFact, Fact
from ..proof.scale import LONG, SHORT, Scale
from ..proof.stored import read_store
from .ledger import wrong_ledger
from .plan import Kill, draw, scripts_of

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("child.py")
INSTANT_S = 0.6
"""Within so many seconds of its first frame a child is killed at a random instant."""

STORES = [
    *(pytest.param(SHORT, n, id=f"short-{n}") for n in range(SHORT.stores)),
    *(pytest.param(LONG, n, id=f"long-{n}", marks=pytest.mark.long) for n in range(LONG.stores)),
]


def start(folder: Path, kill: Kill) -> Child:
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    arguments = [str(folder), msgspec.json.encode(kill).decode()]
    return Child(SCRIPT, arguments, folder=folder, environment=paths)


def die(folder: Path, kill: Kill, random: Random) -> list[Fact]:
    """Run a child until its death; what had become known by then."""
    with start(folder, kill) as child:
        if kill.place is None:
            child.wait_for(lambda lines: any('"ShownDraft"' in line for line in lines) or not kill.in_draft)
            assert child.kill_within(random, INSTANT_S), "the child ended by itself"
        else:
            assert child.killed(), "the child ended by itself"
        return [fact_of(line) for line in child.lines]


def fact_of(line: Any) -> Fact:
    fact: Fact = msgspec.convert(json.loads(line), AnyFact)
    return fact


KILLS_MOST = 4
"""Times the wanted number of kills at the most, where a slow machine lets too few of them land in an open draft."""


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("scale", "store"), STORES)
def test_a_kill_loses_nothing(
    scale: Scale, store: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P3, P8, C06, C42: killed again and again at named places and random instants, on one store."""
    random = Random(f"{scale.kills_a_store} kills of store {store}")
    facts, scripts, found, drafts_open, kills = list[Fact](), [], list[str](), 0, 0
    for number in range(KILLS_MOST * scale.kills_a_store):
        if number >= scale.kills_a_store and 2 * drafts_open >= number:
            break
        kills += 1
        kill = draw(random, number)
        scripts += [script for round_ in scripts_of(number) for script in round_]
        facts += die(tmp_path, kill, random)
        left = read_store(tmp_path / NAME)
        drafts_open += left.drafts_open > 0
        # Every other time the next child is left to recover by itself, and may be killed while it does.
        recovers = number % 2 == 0
        if recovers:
            open_log(tmp_path).close()
        wrong = check_file(tmp_path / NAME, facts, scripts, settled=recovers)
        found += [f"{kill}: {problem}" for problem in wrong]
        found += [f"{kill}: {problem}" for problem in wrong_ledger(tmp_path, read_store(tmp_path / NAME))]
        assert not found, "\n".join(found[:20])
    record_property("kills", kills)
    record_property("kills_in_draft", drafts_open)
    assert 2 * drafts_open >= kills, "too few kills landed while a draft was open: the run proves little"
