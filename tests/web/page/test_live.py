"""Live pages of a real journal: who comes when, who is slow, and what is sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from tests.folds.test_real_journal import ACTIONS, act
from tests.web.page.dom import Page
from turnlog.errors import StoreClosed
from turnlog.limits import PAGE_TURNS
from turnlog.web.page.live import LivePage, Pace, costing
from turnlog.web.page.markup import page_html
from turnlog.web.page.thread_view import load
from turnlog.web.page.turn_page import turn_page
from turnlog.web.stream.sharing import Shared

LONG_S = 20
"""Seconds after which what is waited for is taken for lost."""


def fetched(log: turnlog.Log) -> tuple[str, int]:
    """The page as a reload would show it, and its position."""
    page = load(log, "t")
    return f'<main id="thread">{page_html(page.elements())}</main>', page.head


class Browser:
    """A page that was fetched, and the stream that follows it."""

    def __init__(self, log: turnlog.Log, live: LivePage) -> None:
        self.log, self.live = log, live
        html, self.seq = fetched(log)
        self.page = Page(html)
        self.bytes = 0
        self._pieces: AsyncGenerator[bytes, None] | None = None

    async def drop(self) -> None:
        """The connection is lost."""
        if self._pieces is not None:
            await self._pieces.aclose()
        self._pieces = None

    async def take(self) -> bytes:
        """The next piece of the stream, applied."""
        if self._pieces is None:
            self._pieces = self.live.watch(self.seq)
        piece = await asyncio.wait_for(anext(self._pieces), LONG_S)
        self.bytes += len(piece)
        at = self.page.apply(piece)
        self.seq = self.seq if at is None else int(at.rpartition(".")[2])
        return piece

    async def equal(self) -> None:
        """Take pieces until the page is what a reload shows now."""
        shown = Page(fetched(self.log)[0]).thread.shown()
        async with asyncio.timeout(LONG_S):
            while self.page.thread.shown() != shown:
                await self.take()


@asynccontextmanager
async def lives(log: turnlog.Log) -> Any:
    """The live page of thread `t`."""
    shared = Shared[LivePage](lambda thread: LivePage(log, thread, Pace()))
    async with shared.use("t") as live:
        yield live


async def follow(actions: list[tuple[Any, ...]], coming: list[int], *, well: bool) -> None:
    async with turnlog.open("memory://") as log, AsyncExitStack() as stack:
        turn = await log.submit("t", "question")
        await turn.start(agent="a")
        live = await stack.enter_async_context(lives(log))
        browsers = [Browser(log, live)]
        for number, action in enumerate(actions):
            await act(turn, action)
            for _ in range(coming.count(number)):
                browsers.append(Browser(log, live))
            if number in coming:
                await browsers[number % len(browsers)].take()
                await browsers[-1 - number % len(browsers)].drop()
        await (turn.complete() if well else turn.interrupt("failed"))
        for browser in browsers:
            await browser.equal()
            await browser.drop()


@settings(max_examples=15, deadline=None)
@given(st.lists(ACTIONS, max_size=12), st.lists(st.integers(0, 12), max_size=4), st.booleans())
def test_every_browser_ends_with_the_same_page(actions: list[tuple[Any, ...]], coming: list[int], well: bool) -> None:
    """Whoever came when, dropped and came back shows what a reload shows (P9, C39, C40, C41)."""
    asyncio.run(follow(actions, coming, well=well))


def test_what_was_shown_is_not_taken_back() -> None:
    """A browser that fetched its page between two frames of the others is not sent an older text (P2)."""

    async def play() -> None:
        async with turnlog.open("memory://") as log, AsyncExitStack() as stack:
            turn = await log.submit("t", "question")
            await turn.start(agent="a")
            live = await stack.enter_async_context(lives(log))
            first = Browser(log, live)
            text = ""
            for number in range(20):
                text += f"word{number} "
                await turn.draft(f"word{number} ")
                browser = Browser(log, live)
                assert text.strip() in browser.page.thread.text
                await browser.take()
                assert text.strip() in browser.page.thread.text
                await browser.drop()
            await first.equal()
            await first.drop()

    asyncio.run(play())


def test_a_page_of_long_ago_is_told_to_fetch_itself() -> None:
    """A position from which no turn of today's page is known gets `reset` with the position of now, and no frames."""

    async def play() -> None:
        async with turnlog.open("memory://") as log:
            for _ in range(40):
                turn = await log.submit("t", "question")
                await turn.interrupt("not_started")
            async with lives(log) as live, aclosing(live.watch(3)) as pieces:
                got = [piece async for piece in pieces]
            assert got == [
                b'event: reset\ndata: {"reason":"behind","head":"%s.%d"}\n\n'
                % (log.epoch.encode(), log.thread("t").head)
            ]

    asyncio.run(play())


def test_a_closed_log_ends_who_watches() -> None:
    """Watchers are told that the log is closed, those who come later too."""

    async def play() -> None:
        log = turnlog.open("memory://")
        await log.submit("t", "question")
        async with lives(log) as live:
            browser = Browser(log, live)
            await browser.take()
            log.close()
            with pytest.raises(StoreClosed):
                while True:
                    await browser.take()
            with pytest.raises(StoreClosed):
                await anext(live.watch(0))

    asyncio.run(play())


def test_pages_slow_down_together() -> None:
    """Frames come at most ten times a second, and less often the more pages there are and the longer they take."""
    pace = Pace()
    pace.pages = 1
    assert pace.interval(0.001) == 0.1
    pace.pages = 200
    assert pace.interval(0.001) == pytest.approx(0.4)


def test_waiting_for_the_machine_is_no_cost() -> None:
    """What a rendering costs is the core it had, not the time for which others had it: a busy machine slows no page."""
    waited = threading.Event()
    done, cost = costing(lambda: waited.wait(0.2))
    _, worked = costing(lambda: sum(range(1_000_000)))
    assert not done
    assert cost < worked


def test_earlier_turns_are_reached_page_by_page() -> None:
    """The pages that `Earlier turns` leads to show every turn and every message without one exactly once."""

    async def write(log: turnlog.Log) -> None:
        for number in range(75):
            turn = await log.submit("t", f"question {number};")
            await turn.interrupt("not_started")
            await log.append_message("t", {"type": "message", "role": "assistant", "content": f"aside {number};"})

    log = turnlog.open("memory://")
    asyncio.run(write(log))
    texts, before = [], None
    while before != "":
        page = load(log, "t", before)
        texts.append(Page(f'<main id="thread">{page_html(page.elements())}</main>').thread.text)
        before = page.earlier
    whole = "".join(reversed(texts))
    assert len(texts) == 3
    assert [whole.count(f"question {number};") for number in range(75)] == [1] * 75
    assert [whole.count(f"aside {number};") for number in range(75)] == [1] * 75
    assert whole.index("question 3;") < whole.index("aside 3;") < whole.index("question 4;")
    log.close()


def test_a_live_page_finds_the_turns_before_it() -> None:
    """When its oldest turn leaves a live page, its link leads to just that turn, as on a reloaded page."""

    async def play() -> None:
        async with turnlog.open("memory://") as log, AsyncExitStack() as stack:
            await log.append_message("t", {"type": "message", "role": "assistant", "content": "hello"})
            live = await stack.enter_async_context(lives(log))
            browser = Browser(log, live)
            await browser.take()
            for number in range(33):
                turn = await log.submit("t", f"question {number};")
                await turn.interrupt("not_started")
            await browser.equal()
            (link,) = (node for node in browser.page.thread.walk() if "data-earlier" in node.attributes)
            before = load(log, "t", link.attributes["href"].partition("?before=")[2])
            assert [source.seq_first for source in before.turns] == [3, 5, 7]
            await browser.drop()

    asyncio.run(play())


def test_a_page_that_the_log_has_left_behind_finds_the_turns_before_it() -> None:
    """A page's link to the turns before it is right however many turns the log has that the page has not yet seen."""

    async def play() -> None:
        async with turnlog.open("memory://") as log:
            for number in range(40):
                await (await log.submit("t", f"question {number};")).interrupt("not_started")
            page = load(log, "t")
            for number in range(1_001):
                await (await log.submit("t", f"later {number};")).interrupt("not_started")
            page.earlier = None
            page.find_earlier(log)
            before = load(log, "t", page.earlier)
            assert len(before.turns) == 10
            assert before.turns[-1].seq_first < page.turns[0].seq_first

    asyncio.run(play())


def test_an_older_page_knows_what_was_taken_back_later() -> None:
    """A page of older turns folds those away that a truncation far behind it took out (P9); each can still be read."""

    async def play() -> None:
        async with turnlog.open("memory://") as log:
            for number in range(PAGE_TURNS + 2):
                await (await log.submit("t", f"question {number}", turn=f"T{number}")).interrupt("failed")
            await log.truncate("t", "T1")
            older = load(log, "t", load(log, "t").earlier)
            html = page_html(older.elements())
            assert "question 0" in html
            assert ">1 turn taken back<" in html and html.count('class="turn retried"') == 1 == len(older.turns) - 1
            assert "question 1<" in page_html([turn_page(log, "t", "T1", 0).section])

    asyncio.run(play())


def test_an_old_attempt_names_the_turn_that_asked_again() -> None:
    """The page of an attempt leads to the turn that asked it again, and not to another retry, however many turns
    have come since (P8)."""

    async def play() -> None:
        async with turnlog.open("memory://") as log:
            first = await log.submit("t", "question")
            await first.interrupt("failed")
            child = await log.retry("t", first.id)
            await child.interrupt("failed")
            for _ in range(1_001):
                await (await log.submit("t", "later")).interrupt("not_started")
            html = page_html([turn_page(log, "t", first.id, 0).section])
            assert f'href="/t/t/turn/{child.id}"' in html
            assert "/retry" not in html

    asyncio.run(play())
