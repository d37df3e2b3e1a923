"""`turnlog audit`, `repair` and `verify`: what a person and a program are told, and with which exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.audit.damages import DAMAGES, UNOPENABLE
from tests.audit.damaging import Damage
from tests.audit.rich import write_store
from tests.cli.calling import Caller
from tests.journal.stores import Store


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("rich"))


def damaged(call: Caller, rich: Path, damage: Damage | None) -> None:
    call.store.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(rich, call.store)
    if damage is not None:
        damage(call.store)


COLLISION = DAMAGES["a second end, another one"]


def test_a_sound_store_has_infos_at_most(call: Caller, rich: Path) -> None:
    """P4: of a sound store the commands end with 0, and a repair has nothing to do."""
    damaged(call, rich, None)
    for command in ("audit", "verify", "repair"):
        assert call(command).exit_code == 0
    kinds = [found["severity"] for found in call.read("audit")["findings"]]
    assert kinds == ["info", "info"]
    assert call.read("verify")["threads"] == 4
    assert "Nothing to repair" in call("repair").stdout
    assert "Nothing found" in call("audit", "other").stdout


def test_findings_are_told_and_repaired(call: Caller, rich: Path) -> None:
    """P4: an audit names kind and place and the command that shows a plan; the plan says what it would do and does
    nothing; applied, it is done; undone, the finding is back. Each has the exit code that tells a script."""
    damaged(call, rich, COLLISION)
    told = call("audit", "t")
    assert told.exit_code == 1
    assert "terminal_collision · turn a of t · events 10 and 39 · can be repaired" in told.stdout
    assert "turnlog repair --plan t" in told.stdout
    planned = call("repair", "t")
    assert (planned.exit_code, "sets aside terminal_collision" in planned.stdout) == (1, True)
    assert "turnlog repair --apply t" in planned.stdout
    assert call("audit").exit_code == 1, "a plan changes nothing"
    applied = call("repair", "--apply")
    assert (applied.exit_code, "done (event 40)" in applied.stdout) == (0, True)
    assert call("audit").exit_code == call("verify").exit_code == 0
    undone = call("repair", "--undo", "t", "40", "--json")
    assert json.loads(undone.stdout) == {"thread": "t", "repair": 40, "seq": 41}
    found = json.loads(call("verify", "--json").stdout)["findings"]
    assert [each["kind"] for each in found if each["severity"] != "info"] == ["terminal_collision"]


def test_a_plan_settles_nothing(call: Caller, tmp_path: Path) -> None:
    """P4, P8: a plan of a store with a dead writer's turn says that it would be settled, and leaves it as it is;
    applied, it is, and the step is told as done."""
    with Store("sqlite", tmp_path) as store:
        log = store.open()
        log.submit("t", "a question", turn="a").result().start(agent="scripted").result()
        store.kill(log)
    damaged(call, store.path, None)
    for _ in range(2):
        planned = json.loads(call("repair", "--json").stdout)
        assert [step["action"] for step in planned["steps"]] == ["recover"]
        audited = json.loads(call("audit", "--json").stdout)
        assert [found["kind"] for found in audited["findings"]] == ["pending"]
    assert "turn a of t" in call("audit").stdout
    applied = json.loads(call("repair", "--apply", "--json").stdout)
    assert [step["outcome"] for step in applied["done"]] == ["done"]
    assert call("audit").exit_code == 0
    assert "Nothing to repair" in call("repair", "--apply").stdout


def test_programs_get_documents(call: Caller, rich: Path) -> None:
    """P4: each command prints one JSON document, of a damaged store too."""
    damaged(call, rich, COLLISION)
    audited = json.loads(call("audit", "--json").stdout)
    assert set(audited["findings"][0]) == {
        *("kind", "severity", "thread", "turn", "seq", "until", "place", "repairable", "detail"),
    }
    planned = json.loads(call("repair", "--json").stdout)
    assert (planned["done"], [step["action"] for step in planned["steps"]]) == (
        None,
        ["set_aside", "rebuild_turn", "snapshot"],
    )
    applied = json.loads(call("repair", "--apply", "--json").stdout)
    assert (applied["plan"], [step["outcome"] for step in applied["done"]]) == (planned["plan"], ["done"] * 3)


def test_what_cannot_be_asked_is_refused(call: Caller, rich: Path) -> None:
    """Usage errors end with 2, an unknown thread with 1, a store that is not there or no database with 3."""
    assert call("audit").exit_code == 3
    damaged(call, rich, None)
    for wrong in (["--undo"], ["--undo", "t"], ["t", "7"], ["--undo", "t", "7"], ["--plan", "--apply"]):
        assert call("repair", *wrong).exit_code == 2
    for command in ("audit", "repair"):
        assert call(command, "nowhere").exit_code == 1
    damaged(call, rich, UNOPENABLE["the file lost its end"])
    for command in ("audit", "verify", "repair"):
        assert call(command).exit_code == 3


def test_verify_shows_how_far_it_is(call: Caller, rich: Path) -> None:
    """On a terminal, a verification says how much it has read while it reads."""
    damaged(call, rich, None)
    with call.on_terminal("verify") as terminal:
        terminal.wait_for("4 threads, ")
        assert terminal.wait() == 0
    assert "Read " in terminal.seen
