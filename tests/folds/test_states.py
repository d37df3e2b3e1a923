"""The table of states and the page made from it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import get_args

import pytest

from turnlog.events.kinds import KINDS
from turnlog.folds.states import STARTED, TERMINAL, TRANSITIONS, State, next_state

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_the_table() -> None:
    """docs/states.md is what the generator writes of the table now."""
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert (DOCS / "states.md").read_text("utf-8") == generate["states_markdown"]()


def test_every_state_is_reached_and_every_kind_is_real() -> None:
    """The table names known kinds only, and leads to every state."""
    assert {kind for _, kind in TRANSITIONS} <= set(KINDS)
    assert set(TRANSITIONS.values()) == set(get_args(State))


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nothing_follows_the_end(state: State, kind: str) -> None:
    """No event of any kind may follow a terminal one (P5, C10)."""
    assert next_state(state, kind) is None


@pytest.mark.parametrize("kind", ["item", "step", "attempt_dropped"])
@pytest.mark.parametrize("state", [None, *get_args(State)])
def test_an_agent_writes_between_start_and_end(state: State | None, kind: str) -> None:
    """Items, steps and dropped attempts stand only between the start of the worker and the end (P1)."""
    assert (next_state(state, kind) is not None) == (state in STARTED)


def test_only_a_submission_begins_a_turn() -> None:
    """A turn begins with its submission, once."""
    assert [kind for kind in KINDS if next_state(None, kind)] == ["submitted"]
    assert [state for state in get_args(State) if next_state(state, "submitted")] == []
