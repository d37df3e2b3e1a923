"""The mutants fit the product as it is now; that they are caught is proved by `make test-mutants`."""

from __future__ import annotations

import pytest

from . import __main__ as program
from .mutant import ROOT, Mutant, load

PROMISES = {f"P{n}" for n in range(1, 12)}


@pytest.mark.parametrize("mutant", load(), ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant) -> None:
    """A mutant's passage is in its file once, the result is Python, and the tests that it names exist."""
    compile(mutant.apply(ROOT), mutant.file, "exec")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8")


@pytest.mark.parametrize("names", [["no_such_mutant"], ["--help"], ["key_ignored", "no_such_mutant"]])
def test_an_unknown_name_runs_nothing(
    names: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that no mutant has is refused before any test runs, and the names that there are are told."""

    def run_tests(*_: object) -> None:
        pytest.fail("tests were run")

    monkeypatch.setattr(program, "run_tests", run_tests)
    assert program.main(names) == 2
    said = capsys.readouterr().out
    assert f"no mutant {names[-1]}." in said and "key_ignored" in said


def test_every_promise_has_a_mutant() -> None:
    """P1 to P11 are each broken on purpose by at least one mutant."""
    assert {mutant.promise for mutant in load()} == PROMISES
