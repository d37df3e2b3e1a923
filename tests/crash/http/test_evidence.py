"""What clients know is held against the store: whatever is lost, changed or doubled is found."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from turnlog.journal.log import open_log
from turnlog.runner import run_turn

from ...proof.facts import Account, Fact, ShownJson, ShownMessage, ShownWords
from ...proof.playing import Player, Reader
from ...proof.stored import read_store
from ...web.followers import Seen
from .evidence import Pages, scripts_in, wrong
from .speaking import script_of

CONTENT = "words w0.0"
SHOWN = "w0.0: half a sen"


@dataclass
class Said:
    """A store with one turn, whose words were cut by an interrupt."""

    path: Path
    turn: str


@pytest.fixture
def said(tmp_path: Path) -> Said:
    async def play() -> str:
        async with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
            turn = await log.submit("T", CONTENT)
            reader = Reader(log, Account())
            reading = asyncio.create_task(reader.read("T"))
            script = script_of("T", turn.id, CONTENT)
            player = Player(script, Account(), reader, patient=True, do=lambda script, effect: None)
            run = asyncio.create_task(run_turn(turn, lambda: player, log=log))
            await player.halted.wait()
            await log.request("T", turn.id)
            await run
            reading.cancel()
            return turn.id

    return Said(tmp_path / "store.db", asyncio.run(play()))


def found(said: Said, *facts: Fact, seen: tuple[Seen, ...] = ()) -> list[str]:
    """What is wrong with the store, given what was shown."""
    stored, pages = read_store(said.path), Pages()
    pages.take(seen, scripts_in(stored))
    return wrong(stored, facts, pages, settled=True)


def change(said: Said, sql: str) -> None:
    """Change the store behind its back."""
    db = apsw.Connection(str(said.path))
    db.execute(sql)
    assert db.total_changes() == 1
    db.close()


def item_of(said: Said) -> tuple[int, dict[str, object]]:
    """The seq of the synthesized item, and its body as a stream carries it."""
    event = next(event for event in read_store(said.path).threads["T"].events if event.kind == "item")
    value = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SHOWN}]}
    return event.seq, {**event.fields, "raw": value}


def test_what_was_shown_is_found_whole(said: Said) -> None:
    """Nothing is wrong with what is there."""
    seq, body = item_of(said)
    event = ShownJson(thread="T", turn=said.turn, seq=seq, kind="item", body=body)
    message = ShownMessage(thread="T", turn=said.turn, seq=seq, text=SHOWN)
    assert found(said, event, message, seen=(Seen("a page", f"turn-{said.turn}", f" {SHOWN} "),)) == []


def test_what_was_shown_is_missed(said: Said) -> None:
    """P2: an event with another body, another message, a draft and a name on a page that are not there are told."""
    seq, body = item_of(said)
    event = ShownJson(thread="T", turn=said.turn, seq=seq, kind="item", body={**body, "raw": {}})
    message = ShownMessage(thread="T", turn=said.turn, seq=seq, text=f"{SHOWN}tence")
    words = ShownWords(thread="T", turn=said.turn, draft="0/~0/text/0", text=f"{SHOWN}tence")
    assert len(found(said, event, message, words)) == 3
    assert found(said, seen=(Seen("a page", "turn-x", "w9.9: hello"),)) == ["P2: a page showed w9.9, which is gone"]


def test_words_of_a_page_are_missed(said: Said) -> None:
    """P2: words that a page showed and the store has lost are told, and only those of the turn in whose place they
    stood."""
    shorter = "CAST(replace(CAST(body AS TEXT), 'half a sen', 'half a s') AS BLOB)"
    change(said, f"UPDATE event SET body = {shorter} WHERE kind = CAST('item' AS BLOB)")
    elsewhere = Seen("a page", "turn-x", SHOWN)
    place = Seen("a page", f"turn-{said.turn}", SHOWN)
    without = found(said, seen=(elsewhere,))
    assert any("the words are gone" in problem for problem in set(found(said, seen=(place,))) - set(without))


def test_a_message_that_is_there_twice_is_told(said: Said) -> None:
    """P6: the same message as two turns is told."""
    log = open_log(f"sqlite:///{said.path}")
    log.submit("T", CONTENT).result()
    log.close()
    assert any("was accepted 2 times" in problem for problem in found(said))
