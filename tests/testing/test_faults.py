"""The engine with fail-points: it passes everything on, and fails where it is told to."""

from __future__ import annotations

from typing import Any, cast

import pytest

from turnlog.engines.protocol import Engine
from turnlog.errors import StoreUnavailable
from turnlog.testing.faults import FaultEngine
from turnlog.testing.traps import Place


class Answering:
    """Answers every verb with its name and arguments, and remembers that it was called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.called.append(verb)
            return verb, arguments, named

        return call


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "commit": (([],), {}),
    "lease": (("o1", 30.0), {}),
    "dead_owners": ((), {"limit": 3}),
    "lease_end": ((), {}),
    "tail": (("t",), {"after": 1, "rev": 2, "limit": 3}),
    "read": (
        ("t",),
        {
            "after": 1,
            "before": 9,
            "turn": "u",
            "kinds": ("item",),
            "reverse": True,
            "limit": 3,
            "bytes_max": 4,
        },
    ),
    "turns": (
        (),
        {
            "thread": "t",
            "turn": "u",
            "key": "k",
            "owner": "o",
            "retry_of": "r",
            "open_only": True,
            "latest_each": True,
            "before": b"b",
            "limit": 3,
        },
    ),
    "threads": ((), {"thread": "t", "importing": True, "before": b"b", "limit": 3}),
    "snapshot": (("t", "u"), {"page": 2}),
    "check": (("t",), {}),
    "reindex": ((), {}),
    "changes": ((b"p", 0.5), {}),
    "rest": ((), {}),
    "close": ((), {}),
}
VERBS = sorted(name for name in vars(Engine) if not name.startswith("_") and name not in ("caps", "epoch"))


def faulty() -> tuple[FaultEngine, Answering]:
    answering = Answering()
    return FaultEngine(cast(Engine, answering)), answering


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_passed_on_between_its_two_places(verb: str) -> None:
    """A verb of the contract reaches its engine with all its arguments, after `.before` and before `.after`."""
    engine, answering = faulty()
    order: list[object] = []
    engine.traps.set(f"{verb}.before", lambda place: order.append((place, list(answering.called))))
    engine.traps.set(f"{verb}.after", lambda place: order.append((place, list(answering.called))))
    arguments, named = CALLS[verb]
    answer = getattr(engine, verb)(*arguments, **named)
    assert answer == (None if verb in ("lease", "reindex", "rest", "close") else (verb, arguments, named))
    assert order == [(Place(f"{verb}.before", ""), []), (Place(f"{verb}.after", ""), [verb])]


def test_it_is_an_engine() -> None:
    """The wrapper can stand wherever an engine is expected."""
    engine: Engine = faulty()[0]
    assert engine.lease_end() is not None


def test_a_failure_before_the_commit_stores_nothing() -> None:
    """The k-th commit raises the error and never reaches the engine."""
    engine, answering = faulty()
    engine.fail("commit.before", lambda: StoreUnavailable(detail="full"), k=2)
    engine.commit([])
    with pytest.raises(StoreUnavailable):
        engine.commit([])
    assert answering.called == ["commit"]


def test_a_failure_after_the_commit_hides_that_it_is_stored() -> None:
    """The commit raises although the engine has done it."""
    engine, answering = faulty()
    engine.fail("commit.after", lambda: StoreUnavailable(detail="lost"), forever=True)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            engine.commit([])
    engine.heal()
    engine.commit([])
    assert answering.called == ["commit"] * 3
