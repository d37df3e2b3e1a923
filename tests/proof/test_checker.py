"""The checker finds what is wrong: a proof whose checker cannot fail is none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from turnlog.journal.log import open_log

from .checker import check_file
from .facts import Accepted, Account, Fact, ShownDraft, ShownEvent
from .playing import playing
from .scripts import Script, standard


@dataclass
class Played:
    path: Path
    facts: list[Fact]
    scripts: list[Script]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The standard scripts on a store that is closed."""
    path = tmp_path_factory.mktemp("played") / "store.db"
    account, scripts = Account(), standard()

    async def play() -> None:
        async with open_log(f"sqlite:///{path}") as log, playing(log, account, scripts) as stage:
            assert not stage.failures

    asyncio.run(play())
    yield Played(path, account.facts, scripts)


def test_a_whole_store_is_found_whole(played: Played) -> None:
    """Nothing is wrong with a store nobody has damaged."""
    assert check_file(played.path, played.facts, played.scripts) == []


LAST = "(SELECT max(seq) FROM event WHERE thread = t.id)"
ANSWERED = "(SELECT id FROM thread WHERE thread = CAST('answered' AS BLOB))"
HALTED = "(SELECT id FROM thread WHERE thread = CAST('halted' AS BLOB))"


def reworded(old: str, new: str, kind: str) -> str:
    return (
        f"UPDATE event SET body = CAST(replace(CAST(body AS TEXT), '{old}', '{new}') AS BLOB) "
        f"WHERE kind = CAST('{kind}' AS BLOB)"
    )


AGAIN = """INSERT INTO event SELECT id + 1, thread, (SELECT head + 1 FROM thread WHERE id = e.thread), at, v, kind, body
        FROM event AS e WHERE kind = CAST('completed' AS BLOB);
    UPDATE thread SET head = head + 1 WHERE id = {0}"""

DAMAGES = [
    ("DELETE FROM event AS e WHERE seq = (SELECT max(seq) FROM event WHERE thread = e.thread)", "the head is"),
    (f"DELETE FROM event WHERE thread = {ANSWERED} AND seq = 9", "the seqs are"),
    (reworded("answer a1", "answer a2", "submitted"), "not what was accepted"),
    (reworded("I have read it now", "I have read it all", "item"), "was said 0 times"),
    (reworded("  bye.", " ", "item"), "only"),
    (reworded("The fi", "The f", "attempt_dropped"), "drops"),
    (reworded("The helper speaks", "The helper spoke", "step"), "nobody said"),
    (reworded('"status":"interrupted"', '"status":"succeeded"', "step"), "nobody took the step"),
    (reworded('"call_1"', '"call_9"', "interrupted"), "have no outcome"),
    (reworded('"after":', '"after":1', "step"), "at another place"),
    (reworded('"no_final_item"', '"interrupted"', "item"), "is synthesized"),
    ("UPDATE turn SET phase = 1 WHERE thread = " + ANSWERED, "the row tells"),
    ("UPDATE turn SET seq_last = seq_last - 1", "the row tells"),
    ("UPDATE turn SET key = CAST('other' AS BLOB) WHERE thread = " + HALTED, "the key of the row"),
    (AGAIN.format(ANSWERED), "while completed"),
    (reworded('"late"', '"tale"', "thread_late"), "nobody sent"),
    (reworded('"reason":"cancelled"', '"reason":"not_started"', "interrupted"), "and had begun"),
    ("UPDATE event SET v = 2 WHERE seq = 3", "unknown kind"),
    ("DELETE FROM turn WHERE thread = " + HALTED, "the turn is gone"),
]


@pytest.mark.parametrize(("damage", "word"), DAMAGES, ids=[str(n) for n in range(len(DAMAGES))])
def test_damage_is_found(damage: str, word: str, played: Played, tmp_path: Path) -> None:
    """Each kind of loss, invention or disagreement is named."""
    path = tmp_path / "store.db"
    shutil.copy(played.path, path)
    db = apsw.Connection(str(path))
    before = db.total_changes()
    db.execute(damage)
    assert db.total_changes() > before
    db.close()
    assert any(word in problem for problem in check_file(path, played.facts, played.scripts))


@pytest.mark.parametrize(
    "fact",
    [
        Accepted(thread="answered", turn="a2", content="", key=None),
        Accepted(thread="other", turn="a1", content="", key=None),
        ShownEvent(thread="answered", turn="a1", seq=999, kind="item", data=b""),
        ShownDraft(thread="answered", turn="a1", draft="0/~9/text/0", after=1, rev=1, offset=0, text="lost"),
    ],
)
def test_what_is_not_there_is_missed(fact: Fact, played: Played) -> None:
    """A fact that the store does not bear out is named."""
    assert any(str(fact) in problem for problem in check_file(played.path, [*played.facts, fact], played.scripts))
