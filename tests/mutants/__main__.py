"""`make test-mutants`: put each mutant into a copy of the checkout and see that one of its tests fails.

python -m tests.mutants [NAME...]        the mutants of these names, or all
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .mutant import ROOT, DoesNotApply, Mutant, load

COPIED: Final = ("src", "tests", "docs", "bench", "pyproject.toml", "README.md", "Makefile", "CHANGELOG.md")
AT_ONCE: Final = 2
TEST_S: Final = 120
"""Seconds for one test: a mutant may make it wait for what never comes."""

TESTS_FAILED: Final = 1
"""pytest's exit code when tests ran and some failed; any other one proves nothing."""

FIRST_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
FIRST_REASON: Final = re.compile(r"^E +(.{,90})", re.MULTILINE)


def copy_checkout(folder: Path) -> None:
    """Copy what tests need."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def run_tests(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the checkout in `folder` until the first failure."""
    options = ["-x", "-p", "no:cacheprovider", "--timeout", str(TEST_S)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def catch(mutant: Mutant) -> tuple[bool, str]:
    """Whether a test failed, and which; or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        folder = Path(place)
        copy_checkout(folder)
        try:
            (folder / mutant.file).write_text(mutant.apply(folder), "utf-8")
        except DoesNotApply as error:
            return False, str(error)
        ran = run_tests(folder, mutant.tests)
    if ran.returncode == TESTS_FAILED and (failed := FIRST_FAILURE.search(ran.stdout)):
        reason = FIRST_REASON.search(ran.stdout)
        return True, failed[1] + (f"\n{'':8}{reason[1]}" if reason else "")
    return False, "SURVIVED" if ran.returncode == 0 else f"pytest ended with {ran.returncode}: {ran.stdout[-2_000:]}"


def check_unchanged(mutants: Sequence[Mutant]) -> str | None:
    """The tests must pass without a mutant, else their failing tells nothing; what failed, if any did."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        copy_checkout(Path(place))
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        ran = run_tests(Path(place), ["-n", str(AT_ONCE), *tests])
    return None if ran.returncode == 0 else ran.stdout[-5_000:]


def main(names: Sequence[str]) -> int:
    """Try the mutants of these names, or all; 0 if each was caught, 2 if there is no mutant of a name."""
    known = load()
    if unknown := sorted(set(names) - {mutant.name for mutant in known}):
        print(f"There is no mutant {', '.join(unknown)}. There are: {', '.join(mutant.name for mutant in known)}")
        return 2
    mutants = [mutant for mutant in known if not names or mutant.name in names]
    if (problem := check_unchanged(mutants)) is not None:
        print(f"The tests do not pass without a mutant:\n{problem}")
        return 1
    missed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = time.monotonic()
        for mutant, (caught, by) in zip(mutants, pool.map(catch, mutants), strict=True):
            missed += not caught
            print(f"{'caught' if caught else 'MISSED':6}  {mutant.promise:3}  {mutant.name:32}  {by}", flush=True)
    print(f"{len(mutants)} mutants, {missed} not caught, {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
