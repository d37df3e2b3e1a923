"""The page in a real browser: how soon it is painted, and what a growing answer costs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import CDPSession, Page
from tests.browser.chromium import chromium
from tests.browser.puppet import SERVER, Puppets
from tests.web.serving import Serving

from bench.table import Line

TURNS: Final = 200
LOADS: Final = 9
WATCHED_S: Final = 6
UPDATES_PER_S: Final = 30
IDLE: Final = frozenset({"(idle)", "(program)", "(root)"})
PAINT_MS_MAX: Final = 300
SCRIPT_SHARE_MAX: Final = 0.05
PACE_SHARE_MIN: Final = 0.95

ANSWER: Final = (
    "A *turn* ends once, `completed` or `interrupted`.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThat is all.\n"
)


def run(folder: Path) -> Iterator[Line]:
    """Measure with a server and a Chromium of our own; without a Chromium there is one line that says so."""
    with Puppets() as puppets, chromium() as browser:
        if browser is None:
            yield Line("the page in a browser", "not measured: no Chromium")
            return
        with Serving(folder, script=SERVER, environment=puppets.environment) as server:
            for number in range(TURNS):
                _ask(server.url, number)
                puppets.take().answer(ANSWER)
            page = browser.new_page()
            address = f"{server.url}/t/bench"
            yield _paint(page, address, "first paint of a thread as it is opened, warm")
            yield _load_earlier(page)
            whole = page.content()
            page.route(address, lambda route: route.fulfill(response=route.fetch(), body=whole))
            yield _paint(page, address, "first paint of a document with all turns, warm")
            yield _growing(page, server.url, puppets)
        puppets.release()


def _ask(url: str, number: int) -> None:
    asked = {"content": f"Question {number}", "when_busy": "queue"}
    httpx.post(f"{url}/api/threads/bench/turns", json=asked).raise_for_status()


def _shown(page: Page) -> int:
    """How many turns the document has."""
    return page.locator(".turn").count()


def _load_earlier(page: Page) -> Line:
    """Earlier turns are fetched as a reader does it, until the document has all of them."""
    began = time.monotonic()
    while (before := _shown(page)) < TURNS:
        page.locator("a[data-earlier]:visible").first.click()
        page.wait_for_function("before => document.querySelectorAll('.turn').length > before", arg=before)
    return Line("  fetching earlier turns until all are there", f"{(time.monotonic() - began) * 1e3:.0f} ms")


def _paint(page: Page, address: str, what: str) -> Line:
    times = []
    for _ in range(LOADS):
        page.goto(address)
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
        times.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    median = sorted(times)[LOADS // 2]
    return Line(
        what,
        f"{median:.0f} ms",
        f"{_shown(page)} of {TURNS} turns",
        bar=f"< {PAINT_MS_MAX} ms",
        held=median < PAINT_MS_MAX,
    )


def _growing(page: Page, url: str, puppets: Puppets) -> Line:
    """An answer grows by some words at a time, with a heading, a list and code now and then."""
    _ask(url, TURNS)
    puppet = puppets.take()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("Profiler.enable")
    session.send("Profiler.setSamplingInterval", {"interval": 200})
    session.send("Profiler.start")
    before, began = _metrics(session), time.monotonic()
    for update in range(UPDATES_PER_S * WATCHED_S):
        puppet.draft(ANSWER if update % 30 == 0 else f"a few more words {update} ", target="m")
        page.wait_for_timeout(max(0.0, (update + 1) / UPDATES_PER_S - (time.monotonic() - began)) * 1e3)
    took_s = time.monotonic() - began
    after = _metrics(session)
    script_s = _script_s(session.send("Profiler.stop")["profile"])
    # A page that shows nothing spends nothing.
    page.locator(".turn", has_text=f"a few more words {UPDATES_PER_S * WATCHED_S - 1}").wait_for()
    puppet.fail("the bench is over")
    spent = {name: after[name] - before[name] for name in ("TaskDuration", "Timestamp")}
    share, pace = script_s / spent["Timestamp"], UPDATES_PER_S * WATCHED_S / took_s
    return Line(
        f"script time of an answer that grows {pace:.1f} times a second among {_shown(page)} turns",
        f"{share:.1%}",
        f"all tasks {spent['TaskDuration'] / spent['Timestamp']:.1%}",
        bar=f"< {SCRIPT_SHARE_MAX:.0%}",
        held=share < SCRIPT_SHARE_MAX and pace > UPDATES_PER_S * PACE_SHARE_MIN,
    )


def _metrics(session: CDPSession) -> dict[str, float]:
    told: dict[str, Any] = session.send("Performance.getMetrics")
    return {metric["name"]: metric["value"] for metric in told["metrics"]}


def _script_s(profile: dict[str, Any]) -> float:
    """Seconds that samples found JavaScript running. The browser's own count of script time leaves promises out."""
    idle = {node["id"] for node in profile["nodes"] if node["callFrame"]["functionName"] in IDLE}
    times = zip(profile["samples"], profile["timeDeltas"], strict=True)
    return float(sum(delta for node, delta in times if node not in idle)) / 1e6
