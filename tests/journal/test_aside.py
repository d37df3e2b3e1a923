"""Reads beside the event loop."""

from __future__ import annotations

import threading

import pytest

from turnlog.errors import StoreClosed, UnknownThread
from turnlog.journal.aside import Aside


def test_a_read_is_answered_from_another_thread() -> None:
    """A read runs in a thread of its own, and what it raises is the answer of who asked, and of nobody else."""
    aside = Aside()

    def fail() -> None:
        raise UnknownThread(thread="t")

    bad, good = aside.read(fail), aside.read(threading.get_ident)
    with pytest.raises(UnknownThread):
        bad.result(10)
    assert good.result(10) != threading.get_ident()
    aside.close()


def test_closing_finishes_what_waits_and_refuses_the_rest() -> None:
    """Whoever waits for a read when the log is closed has an answer; whoever comes later is told that it is closed."""
    aside, go_on = Aside(), threading.Event()
    waiting = [aside.read(lambda: go_on.wait(10)) for _ in range(3)]
    closing = threading.Thread(target=aside.close)
    closing.start()
    go_on.set()
    closing.join(10)
    assert [receipt.result(10) for receipt in waiting] == [True] * 3
    with pytest.raises(StoreClosed):
        aside.read(lambda: None)
    aside.close()
