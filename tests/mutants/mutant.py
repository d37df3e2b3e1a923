"""Mutants: defects put into the product on purpose, each with the promise it breaks and the tests that must notice.

A mutant is a TOML file that names a file and replaces one passage of it, so that it survives edits elsewhere, and fails
loudly when its own passage is edited.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(__file__).parent


class DoesNotApply(Exception):
    """The passage that a mutant replaces is not in its file exactly once."""


@dataclass(frozen=True)
class Mutant:
    """One defect. `tests` are given to pytest; one of them must fail."""

    name: str
    promise: str
    says: str
    tests: tuple[str, ...]
    file: str
    old: str
    new: str

    def apply(self, root: Path) -> str:
        """The text of the mutant's file in the checkout at `root`, with the defect; raises `DoesNotApply`."""
        text = (root / self.file).read_text("utf-8")
        if self.old == self.new or text.count(self.old) != 1:
            raise DoesNotApply(f"{self.name}: its passage is {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


def load() -> list[Mutant]:
    """All mutants, by promise and name."""
    found = []
    for path in FOLDER.glob("*.toml"):
        fields = tomllib.loads(path.read_text("utf-8"))
        tests = tuple(fields.pop("tests"))
        found.append(Mutant(name=path.stem, tests=tests, **fields))
    return sorted(found, key=lambda mutant: (int(mutant.promise.removeprefix("P")), mutant.name))
