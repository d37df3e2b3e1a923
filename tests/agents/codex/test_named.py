"""What is known to go wrong with Codex has tests that are named after it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRAPS = re.findall(r"^\| (\d+) \|", (HERE.parents[2] / "docs" / "codex.md").read_text("utf-8"), re.MULTILINE)
CASES = ["C26", "C27", "C28", "C42"]


def docstrings() -> dict[str, str]:
    """The docstrings of the tests here, by name."""
    found = {}
    for path in HERE.glob("test_*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_docstring(node) or ""
    return found


def test_the_traps_are_nine() -> None:
    """The table in codex.md numbers them."""
    assert [str(number) for number in range(1, 10)] == TRAPS


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_has_its_test(trap: str) -> None:
    """Each trap that Codex sets has a test that is named after it and cites it."""
    named, cites = re.compile(rf"test_trap_(\d_and_)?{trap}_"), re.compile(rf"traps? (\d and )?{trap}\b")
    assert any(named.match(name) and cites.search(says) for name, says in docstrings().items())


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_test(case: str) -> None:
    """Each case of lost calls, outputs and texts has a test of the real Codex that is named after it and cites it."""
    assert any(name.startswith(f"test_{case.lower()}_") and case in says for name, says in docstrings().items())
