"""The commands that change a thread as a whole, and the one that stops a turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

import turnlog
from tests.cli.calling import Caller
from turnlog.journal.turn import Turn


@pytest.fixture
def turns(call: Caller) -> list[str]:
    """A thread of two turns that were interrupted."""
    call.store.parent.mkdir(parents=True)
    with turnlog.open(call.url) as log:
        found: list[Turn] = []
        for text in ("first question", "second question"):
            found.append(log.submit("t", text).result())
            found[-1].interrupt("failed").result()
        return [turn.id for turn in found]


def document(call: Caller, *arguments: str) -> Any:
    called = call(*arguments, "--json")
    assert called.exit_code == 0, called.output
    return json.loads(called.stdout)


def test_a_thread_is_renamed_and_pinned(call: Caller, turns: list[str]) -> None:
    """rename and pin tell what the thread is called and whether it stands first; --off and an empty title undo them."""
    assert document(call, "rename", "t", "Notes")["title"] == "Notes"
    assert document(call, "rename", "t", "")["title"] == "first question"
    assert document(call, "pin", "t")["pinned"] is True
    assert document(call, "threads")["threads"][0]["pinned"] is True
    assert "pinned" in call("threads").stdout
    assert document(call, "pin", "t", "--off")["pinned"] is False
    assert call("rename", "t", "two\nlines").exit_code == 2
    assert call("pin", "none").exit_code == 1


def test_undo_takes_back_the_newest_turn_shown(call: Caller, turns: list[str]) -> None:
    """undo hides the newest turn, then the one before it, and says how each is read (C12)."""
    assert document(call, "undo", "t")["hidden"] == [turns[1]]
    said = call("undo", "t").stdout
    assert "1 turn was taken back" in said and turns[0] in said
    assert call("undo", "t").exit_code == 2
    assert call("undo", "t", turns[0]).exit_code == 1
    assert "second question" in call("show", "t", turns[1]).stdout
    shown = call("show", "t").stdout
    assert shown.count("A message was taken back.") == 2 and "question" not in shown and "Ask again" not in shown


def test_an_edit_takes_the_place_of_a_message(call: Caller, turns: list[str]) -> None:
    """ask --edit hides the turn that is edited and everything after it, and asks the new message."""
    asked = call("ask", "t", "better question", "--edit", turns[0], "--json")
    assert asked.exit_code == 0, asked.output
    rows = {row["turn"]: row["hidden"] for row in document(call, "show", "t")["turns"]}
    assert [rows.pop(turn) for turn in turns] == [True, True]
    assert list(rows.values()) == [False]
    assert call("ask", "t", "--retry", turns[0], "--edit", turns[0]).exit_code == 2


def test_a_thread_is_forked_and_summed_up(call: Caller, turns: list[str]) -> None:
    """fork copies up to a turn, again the same; compact tells the seq of the summary."""
    row = document(call, "fork", "t", "copy", "--turn", turns[0])
    assert (row["thread"], document(call, "fork", "t", "copy", "--turn", turns[0])["head"]) == ("copy", row["head"])
    assert [turn["turn"] for turn in document(call, "show", "copy")["turns"]] == turns[:1]
    assert call("fork", "t", "copy").exit_code == 1
    assert document(call, "compact", "t", "They agreed.", "--until", turns[0])["seq"] > 0
    assert call("compact", "t", " ").exit_code == 2


def test_stop_asks_the_turn_that_is_answered_to_end(call: Caller, turns: list[str]) -> None:
    """stop reaches a turn that another log works on, names it, and is refused when none is open."""
    assert call("stop", "t").exit_code == 1, "it has ended"
    with turnlog.open(call.url) as log:
        running = log.submit("t", "third question").result()
        running.start().result()
        assert document(call, "stop", "t")["turn"] == running.id
        assert log.turn_view("t", running.id).interrupt_requested
    assert call("stop", "t", running.id).exit_code == 1
