"""Whether the server can take a message, and what it has done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from tests.journal.stores import Store
from turnlog.errors import StoreBusy, StoreUnavailable
from turnlog.limits import STORE_BUSY_WAIT_S
from turnlog.web.app import create_app

from .sites import GUARD, asked, site_of


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store(request.param, tmp_path) as opened:
        yield opened


def health(app: Starlette) -> httpx.Response:
    return asked(app, "GET", "/healthz")


def test_health_follows_the_store(store: Store) -> None:
    """A server whose store refuses writes says so, asks to come back, and says that it is well once writes work again,
    without a message being sent meanwhile."""
    log = store.open()
    app = create_app(site_of(log), guard=GUARD)
    assert (health(app).status_code, health(app).json()["status"]) == (200, "ok")
    store.faults(log).fail("commit.before", lambda: StoreUnavailable(detail="full"), forever=True)
    store.faults(log).fail("lease.before", lambda: StoreUnavailable(detail="full"), forever=True)
    with pytest.raises(StoreUnavailable):
        log.append_message("t", {}).result()
    sick = health(app)
    assert (sick.status_code, sick.headers["retry-after"]) == (503, "1")
    assert sick.json()["type"] == "urn:turnlog:problem:store-unavailable"
    store.faults(log).heal()
    assert health(app).status_code == 200
    before = store.faults(log).traps.reached("lease.before")
    assert health(app).status_code == 200
    assert store.faults(log).traps.reached("lease.before") == before


def test_health_costs_the_store_nothing(store: Store) -> None:
    """While all is well, looking at the health writes and reads nothing."""
    log = store.open()
    app = create_app(site_of(log), guard=GUARD)
    log.append_message("t", {}).result()
    verbs = ("commit.before", "lease.before", "threads.before", "read.before")
    before = [store.faults(log).traps.reached(verb) for verb in verbs]
    for _ in range(3):
        assert health(app).status_code == 200
    assert [store.faults(log).traps.reached(verb) for verb in verbs] == before


def test_disk_that_does_not_answer_is_no_health(store: Store) -> None:
    """A write that the disk lets wait for longer than any working one makes the health a failure, not a wait."""
    log = store.open()
    app = create_app(site_of(log), guard=GUARD)
    with store.faults(log).hold("commit.before") as hold:
        written = log.append_message("t", {})
        hold.wait_held()
        assert health(app).status_code == 200
        store.clock.advance(STORE_BUSY_WAIT_S + 1)
        assert health(app).json()["type"] == "urn:turnlog:problem:store-busy"
        with pytest.raises(StoreBusy):
            log.check()
    written.result()
    assert health(app).status_code == 200


def test_closed_log_is_no_health(store: Store) -> None:
    """A server whose log is closed says so."""
    log = store.open()
    app = create_app(site_of(log), guard=GUARD)
    log.close()
    assert health(app).json()["type"] == "urn:turnlog:problem:store-closed"


def test_metrics_are_the_counts(store: Store) -> None:
    """The metrics are lines of the Prometheus text format, and tell what was counted."""
    site = site_of(store.open())
    app = create_app(site, guard=GUARD)
    site.counts.turns["interrupted", "cancelled"] += 2
    site.counts.store_errors["StoreBusy"] += 1
    site.counts.running = 3
    health(app)
    answer = asked(app, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.rstrip("\n").split("\n")
    assert {
        'turnlog_turns_ended_total{state="interrupted",reason="cancelled"} 2',
        'turnlog_store_errors_total{kind="StoreBusy"} 1',
        'turnlog_http_answers_total{method="GET",status="200"} 1',
        "turnlog_turns_running 3",
        "turnlog_turns_waiting 0",
        "turnlog_streams 0",
    } <= set(lines)
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? \d+')
    assert all(sample.fullmatch(line) or re.match(r"# (HELP|TYPE) [a-z_]+ \S", line) for line in lines)
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {re.match(r"[a-z_]+", line)[0] for line in lines if not line.startswith("#")} <= named  # type: ignore[index]
