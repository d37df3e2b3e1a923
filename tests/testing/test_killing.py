"""Children that are killed: what they reported is kept, and nothing waits for ever."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pytest

from turnlog.testing.killing import Child, ChildFailed

IDLE = "import signal; signal.pause()"


def child(folder: Path, body: str, *arguments: str) -> Child:
    script = folder / "child.py"
    script.write_text(f"import os, sys\nfrom turnlog.testing.killing import report\n{body}\n")
    return Child(script, arguments, folder=folder)


def test_lines_survive_the_child(tmp_path: Path) -> None:
    """What was reported before the kill is there after it, in order, with its types."""
    values = [{"n": n, "text": "é\u2028" * 50_000} for n in range(3)]
    body = f"for n in range(3): report({{'n': n, 'text': 'é\\u2028' * 50_000}})\n{IDLE}"
    with child(tmp_path, body) as running:
        assert running.wait_for(lambda lines: len(lines) == 3) == values
        running.kill()
        assert running.reap() == -signal.SIGKILL
        assert running.lines == values


def test_an_unfinished_line_is_kept_apart(tmp_path: Path) -> None:
    """The beginning of a line that the child did not finish is no line, and can be looked at."""
    body = "report(1); os.write(int(os.environ['TURNLOG_REPORT_FD']), b'[2'); os.kill(os.getpid(), 9)"
    with child(tmp_path, body) as running:
        assert running.killed()
        assert (running.lines, running.rest) == ([1], b"[2")


def test_a_child_that_ends_well_was_not_killed(tmp_path: Path) -> None:
    """`killed` tells a child that ended by itself from one that died, and all its lines are there then."""
    with child(tmp_path, "for n in range(2_000): report(n)") as running:
        assert not running.killed()
        assert running.lines == list(range(2_000))


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    """A child that raises fails the test with its own traceback."""
    with child(tmp_path, "raise ValueError('the reason')") as running, pytest.raises(ChildFailed, match="the reason"):
        running.killed()


def test_waiting_ends_with_the_child(tmp_path: Path) -> None:
    """`wait_for` does not wait on when the child has ended without reporting it."""
    with child(tmp_path, "report(1)") as running, pytest.raises(ChildFailed, match="before its end"):
        running.wait_for(lambda lines: len(lines) == 2)


def test_waiting_is_bounded(tmp_path: Path) -> None:
    """`wait_for` and `reap` give up after their timeout."""
    with child(tmp_path, IDLE) as running:
        with pytest.raises(ChildFailed, match="not reported"):
            running.wait_for(lambda lines: bool(lines), timeout=0.01)
        with pytest.raises(ChildFailed, match="did not end"):
            running.reap(timeout=0.01)


def test_a_random_kill_lands_in_a_running_child(tmp_path: Path) -> None:
    """`kill_within` kills a child that runs, and says so when it had ended before."""
    with child(tmp_path, IDLE) as running:
        assert running.kill_within(Random(1), 0.05)
    with child(tmp_path, "report(1)") as running:
        running.reap()
        assert not running.kill_within(Random(1), 0.05)


def test_children_of_the_child_are_killed_too(tmp_path: Path) -> None:
    """The whole session dies, so that no grandchild holds the pipe or the store."""
    body = f"import subprocess; subprocess.Popen([sys.executable, '-c', '{IDLE}'], close_fds=False); report(1); {IDLE}"
    with child(tmp_path, body) as running:
        running.wait_for(lambda lines: bool(lines))
        running.kill()
        assert running.reap() == -signal.SIGKILL
