"""Writes the generated parts of the documentation: `python docs/generate.py`."""

from __future__ import annotations

from pathlib import Path

from turnlog.folds.states import STARTED, TERMINAL, TRANSITIONS, State

FOLDER = Path(__file__).parent

_HEAD = """\
# States of a turn

Generated from the table in `turnlog.folds.states` by `python docs/generate.py`; do not edit.

The journal refuses what is not in the table (`IllegalTransition`). An event that is on disk all the same is counted as
`illegal` in the turn's row and shown as late in its timeline; it changes nothing. Records of unknown kinds are no
transitions.
"""


def states_markdown() -> str:
    """The text of docs/states.md."""
    moves = [(before, kind, after) for (before, kind), after in TRANSITIONS.items() if before != after]
    stays: dict[State, list[str]] = {}
    for (before, kind), after in TRANSITIONS.items():
        if before == after:
            stays.setdefault(after, []).append(kind)
    return "\n".join([_HEAD, *_diagram(moves), *_table(), *_sets(stays)])


def _diagram(moves: list[tuple[State | None, str, State]]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {before or '[*]'} --> {after}: {kind}" for before, kind, after in moves]
    lines += [f"    {state} --> [*]" for state in sorted(TERMINAL)]
    return [*lines, "```", ""]


def _table() -> list[str]:
    lines = ["| in state | event | then |", "|---|---|---|"]
    lines += [f"| {before or 'none'} | `{kind}` | {after} |" for (before, kind), after in TRANSITIONS.items()]
    return [*lines, ""]


def _sets(stays: dict[State, list[str]]) -> list[str]:
    lines = [f"- While {state}, these change nothing of the state: {_names(kinds)}." for state, kinds in stays.items()]
    lines.append(f"- The agent may write in: {_names(sorted(STARTED))}.")
    lines.append(f"- Nothing follows: {_names(sorted(TERMINAL))}.")
    return [*lines, ""]


def _names(names: list[str] | list[State]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    (FOLDER / "states.md").write_text(states_markdown(), "utf-8")
