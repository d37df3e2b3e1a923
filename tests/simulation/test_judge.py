"""The judge finds what is wrong with what processes leave: a proof whose judge cannot fail is none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import msgspec
import pytest

from turnlog.journal.log import Log
from turnlog.runner import run_turn

from ..crash.http.speaking import Speaker
from ..crash.ledger import LEDGER, note
from ..proof.facts import Account, Began
from ..proof.playing import Reader
from ..proof.scripts import APPROVAL
from .judge import judge
from .known import DONE, Deed, Known
from .left import NAME, Left, opened, settle
from .library import operate
from .plan import Action, Scale

ANYTHING = Scale(seconds=0, least=0)


@dataclass
class Run:
    """A small run: one process did a bit of everything, and said so."""

    folder: Path
    known: Known
    left: Left
    turns: dict[str, str]


class Doing:
    """Does actions in this process, and tells of them as a child would."""

    def __init__(self, log: Log, folder: Path, known: Known) -> None:
        self._log, self._folder, self._known = log, folder, known
        self._account = Account(tell=lambda fact: known.take(fact, by="library 1"))
        self._reader = Reader(log, self._account)
        self._readings: dict[str, asyncio.Task[None]] = {}
        self.turns: dict[str, str] = {}

    def _speaker(self) -> Speaker:
        def do(script: object, effect: object) -> None:
            note(self._folder, script, effect)  # type: ignore[arg-type]

        return Speaker(self._account, self._reader, self._readings, do)

    async def ask(self, content: str, *, of: str = "", key: str | None = None) -> str:
        """A message, or an edited one, with its whole answer."""
        key = key or f"key-{content}"
        action = Action(what="edit" if of else "submit", thread="t0", turn=of, content=content, key=key)
        self._known.ask(action)
        turn = await self._log.submit("t0", content, key=key, edit_of=of or None)
        self._tell(action, {"turn": turn.id, "duplicate": False, "seq": turn.seq})
        run = asyncio.create_task(run_turn(turn, self._speaker, log=self._log))
        if content.startswith("ask"):
            await self._reader.until(lambda: self._known.waiting != {})
            decide = Action(what="decide", thread="t0", turn=turn.id, text=APPROVAL, value="yes")
            self._tell(
                decide, {"seq": await self._log.request("t0", turn.id, "decide", approval=APPROVAL, value="yes")}
            )
        await run
        self.turns[content] = turn.id
        return turn.id

    async def do(self, action: Action) -> None:
        """Something to the thread as a whole."""
        self._tell(action, await operate(self._log, action))

    async def seen(self) -> None:
        """Wait until the reader has all of it."""
        head = self._log.thread("t0").head
        await self._reader.until(lambda: self._reader.heads.get("t0") == head)
        for task in self._readings.values():
            task.cancel()

    def _tell(self, action: Action, value: object) -> None:
        self._known.done(action, "library 1", DONE, value)


async def play(folder: Path, known: Known) -> dict[str, str]:
    with opened(folder) as log:
        doing = Doing(log, folder, known)
        await doing.ask("answer a1.0\x00\u2028\ud800")
        await doing.ask("ask a2.0")
        await doing.do(Action(what="fork", thread="t0", text="f1"))
        await doing.do(Action(what="rename", thread="t0", text="a name"))
        await doing.do(Action(what="pin", thread="t0", value=True))
        undone = await doing.ask("brief b3.0")
        await doing.do(Action(what="truncate", thread="t0", turn=undone))
        await doing.ask("brief b4.0", of=await doing.ask("brief b5.0"))
        await doing.do(Action(what="compact", thread="t0", text="a summary"))
        await doing.seen()
    return doing.turns


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder, known = tmp_path_factory.mktemp("judged"), Known()
    turns = asyncio.run(play(folder, known))
    yield Run(folder, known, settle(folder), turns)


def test_a_sound_run_is_found_sound(run: Run) -> None:
    """Nothing is wrong with a run in which nothing went wrong."""
    assert judge(run.left, run.known, ANYTHING) == []


def test_a_run_in_which_nothing_happened_is_none(run: Run) -> None:
    """What did not happen often enough is told."""
    assert any("too little: 0 of taken over" in one for one in judge(run.left, run.known, Scale(seconds=0, least=1)))


T0 = "(SELECT id FROM thread WHERE thread = CAST('t0' AS BLOB))"
F1 = "(SELECT id FROM thread WHERE thread = CAST('f1' AS BLOB))"


def reworded(kind: str, old: str, new: str, thread: str = T0) -> str:
    return (
        f"UPDATE event SET body = CAST(replace(CAST(body AS TEXT), '{old}', '{new}') AS BLOB) "
        f"WHERE kind = CAST('{kind}' AS BLOB) AND thread = {thread}"
    )


AGAIN = """INSERT INTO event SELECT id + 500, thread, (SELECT head + 1 FROM thread WHERE id = e.thread), at, v, kind,
        body FROM event AS e WHERE kind = CAST('requested' AS BLOB) AND thread = {0};
    UPDATE thread SET head = head + 1 WHERE id = {0}"""

DAMAGES = [
    (f"DELETE FROM event WHERE thread = {T0} AND seq = 5", "the seqs are"),
    (reworded("requested", '"yes"', '"no"'), "what was decided is"),
    (AGAIN.format(T0), "is decided 2 times"),
    (reworded("thread_truncated", '"after":', '"after":99'), "is shown again"),
    (reworded("thread_renamed", "a name", "no name"), "what was acknowledged is"),
    (reworded("thread_compacted", "a summary", "no summary"), "what was acknowledged is"),
    (reworded("submitted", "key-brief", "key-bluff"), "nobody submitted"),
    (reworded("submitted", "brief b4", "brief b9"), "nobody submitted"),
    (reworded("item", "said at last", "sad at last"), "was said 0 times"),
    (reworded("item", "it is done", "it was done", F1), "is not what its source"),
    (reworded("thread_forked", '"of":"t0"', '"of":"f1"', F1), "the fork is gone"),
    (reworded("worker_started", '"fence":1', '"fence":7', F1), "is not what its source"),
    (f"DELETE FROM event WHERE thread = {F1} AND kind = CAST('thread_forked' AS BLOB)", "the fork is gone"),
    (f"UPDATE turn SET phase = 1 WHERE thread = {T0} AND key = CAST('key-brief b4.0' AS BLOB)", "the row tells"),
    ("UPDATE turn SET turn = CAST('x' AS BLOB) WHERE key = CAST('key-brief b4.0' AS BLOB)", "the turn is gone"),
]


def left_of(run: Run, folder: Path) -> Left:
    """What is left, read again from a changed file. What turnlog made of it is as it was."""
    from ..proof.stored import read_store

    return replace(run.left, folder=folder, stored=read_store(folder / NAME))


@pytest.mark.parametrize(("damage", "word"), DAMAGES, ids=[str(n) for n in range(len(DAMAGES))])
def test_a_doctored_store_is_found(damage: str, word: str, run: Run, tmp_path: Path) -> None:
    """Each kind of loss, invention, repetition or disagreement in a store is named."""
    shutil.copytree(run.folder, tmp_path, dirs_exist_ok=True)
    db = apsw.Connection(str(tmp_path / NAME))
    before = db.total_changes()
    db.execute(damage)
    assert db.total_changes() > before
    db.close()
    found = judge(left_of(run, tmp_path), run.known, ANYTHING)
    assert any(word in problem for problem in found), found


def deed(run: Run, what: str) -> Deed:
    return next(deed for deed in run.known.deeds if deed.action.what == what)


def began_twice(run: Run, known: Known) -> None:
    known.facts.append(Began(thread="t0", turn=run.turns["ask a2.0"]))


def two_decisions(run: Run, known: Known) -> None:
    told = deed(run, "decide")
    known.done(msgspec.structs.replace(told.action, value="no"), "server 1", DONE, told.value)


def another_turn(run: Run, known: Known) -> None:
    told = deed(run, "submit")
    again = msgspec.structs.replace(told.action, what="again")
    known.done(again, "server 1", DONE, {"turn": run.turns["ask a2.0"], "duplicate": True})


def an_interrupt(run: Run, known: Known) -> None:
    action = Action(what="interrupt", thread="t0", turn=run.turns["ask a2.0"])
    known.done(action, "server 1", DONE, {"seq": 3})


def a_fork(run: Run, known: Known) -> None:
    known.done(Action(what="fork", thread="t0", text="f2"), "library 1", DONE, {"thread": "f2"})


def a_truncation(run: Run, known: Known) -> None:
    action = Action(what="truncate", thread="t0", turn=run.turns["ask a2.0"])
    known.done(action, "library 1", DONE, {"seq": deed(run, "truncate").value["seq"], "hidden": ()})


def a_title(run: Run, known: Known) -> None:
    known.done(Action(what="rename", thread="t0", text="another name"), "server 1", DONE, {"title": "another name"})


def a_lost_message(run: Run, known: Known) -> None:
    action = Action(what="submit", thread="t0", content="brief b77.0", key="k")
    known.done(action, "command 1", DONE, {"turn": "gone", "duplicate": None})


def a_strange_finding(run: Run, known: Known) -> None:
    finding = {"kind": "seq_gap", "thread": "t0"}
    action = Action(what="repair", thread="t0")
    known.done(action, "library 1", DONE, {"findings": [finding], "steps": [["set_aside", "failed", "why"]]})


ACCOUNTS = [
    (began_twice, "was run 2 times"),
    (two_decisions, "was decided 2 times"),
    (another_turn, "and was"),
    (an_interrupt, "nobody asked for what was acknowledged"),
    (a_fork, "the fork is gone"),
    (a_truncation, "is shown again"),
    (a_title, "what was acknowledged is gone"),
    (a_lost_message, "the turn is gone"),
    (a_strange_finding, "the audit found"),
    (a_strange_finding, "failed for"),
]


@pytest.mark.parametrize(("tell", "word"), ACCOUNTS, ids=[f"{tell.__name__}-{word}" for tell, word in ACCOUNTS])
def test_a_doctored_account_is_found(tell: Callable[[Run, Known], None], word: str, run: Run) -> None:
    """What somebody was promised and the store does not bear out is named."""
    known = replace(
        run.known, facts=[*run.known.facts], deeds=[*run.known.deeds], wrong=[], turn_of={**run.known.turn_of}
    )
    tell(run, known)
    found = judge(run.left, known, ANYTHING)
    assert any(word in problem for problem in found), found


def test_a_thing_done_twice_is_found(run: Run, tmp_path: Path) -> None:
    """C42: the ledger of what was done in the world is looked at."""
    shutil.copytree(run.folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / LEDGER).write_text((run.folder / LEDGER).read_text() * 2)
    assert any("was done 2 times" in problem for problem in judge(left_of(run, tmp_path), run.known, ANYTHING))


def test_what_is_shown_though_hidden_is_found(run: Run) -> None:
    """C12: a view that shows what a truncation hides, or hides what none does, is told."""
    view = run.left.views["t0"]
    hidden, shown = run.turns["brief b3.0"], run.turns["ask a2.0"]
    turned = replace(view, hidden_by={**view.hidden_by, hidden: None, shown: 1}, shown=view.shown + view.hidden)
    found = judge(replace(run.left, views={**run.left.views, "t0": turned}), run.known, ANYTHING)
    assert any(f"{hidden} is hidden by" in one for one in found)
    assert any(f"{shown} is hidden by None" in one for one in found)
    assert any("the transcript shows" in one for one in found)
