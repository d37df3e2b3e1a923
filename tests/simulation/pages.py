"""Pages of threads that people have open through all deaths of the server, and what must hold of what they show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from ..crash.http.evidence import Pages, scripts_in
from ..proof.facts import Fact
from ..proof.scripts import Script
from ..proof.stored import Stored
from ..web.followers import PageFollower
from ..web.recording import Client
from ..web.wire import Gone
from .known import Known

TRIES: Final = 10
TRY_S: Final = 3.0
"""Seconds for a page to show what another one shows that was loaded just now; then that one is loaded again, for what a
process still says when its turn is over changes both."""


class OpenPages:
    """The pages that are open; each lives longer than a connection, and than a server."""

    def __init__(self, known: Known, folder: Path) -> None:
        self._known = known
        self._folder = folder
        self._watching: dict[str, asyncio.Task[None]] = {}

    def open(self, client: Client, thread: str) -> None:
        """Load a page unless it was, and follow it from where it is, unless that goes on."""
        if thread in self._watching and not self._watching[thread].done():
            return
        page = self._known.pages.setdefault(thread, PageFollower(thread, f"page of {thread}"))
        self._watching[thread] = asyncio.create_task(self._watch(client, page))

    async def _watch(self, client: Client, page: PageFollower) -> None:
        """A page that is told to does load itself again."""
        try:
            while not client.gone:
                if page.shown is None:
                    await client.load(page)
                    self._known.counts["server: pages loaded"] += 1
                await client.follow(page)
        except Gone:
            return
        except AssertionError as error:
            page.wrong.append(f"{page.name} cannot be loaded: {error}")

    async def leave(self) -> None:
        """The server goes away."""
        for task in self._watching.values():
            task.cancel()
        await asyncio.gather(*self._watching.values(), return_exceptions=True)
        self._watching.clear()

    async def compare(self, client: Client, threads: list[str]) -> None:
        """P9: wait until each page shows what a fresh one does."""
        for thread in threads:
            if thread in self._watching and thread not in self._known.harmed:
                same = await self._same(client, self._known.pages[thread])
                self._known.counts["server: pages compared"] += same

    async def _same(self, client: Client, page: PageFollower) -> bool:
        fresh = PageFollower(page.thread, "a fresh page")
        for _ in range(TRIES):
            await client.load(fresh)
            try:
                async with asyncio.timeout(TRY_S):
                    await client.until(lambda: page.shown is not None and page.content == fresh.content)
            except TimeoutError:
                continue
            return True
        for name, one in (("live", page), ("fresh", fresh)):
            text = repr(one.content if one.shown else None)
            (self._folder / f"{name}-page").write_text(text, "utf-8", "backslashreplace")
        page.wrong.append(f"P9: {page.name} does not show what a fresh one does: see live-page and fresh-page")
        return False


def shown_on_pages(stored: Stored, known: Known) -> tuple[list[Fact], list[str]]:
    """P2: what pages showed of what the store has, as facts; and what they did that no page may.

    What a page shows of a thread that was damaged on purpose is no evidence.
    """
    scripts: dict[str, list[Script]] = {}
    for script in scripts_in(stored):
        scripts.setdefault(script.thread, []).append(script)
    pages, wrong = Pages(), list[str]()
    for thread, page in known.pages.items():
        if thread not in known.harmed:
            pages.take(page.seen, scripts.get(thread, ()))
            wrong += page.wrong
    return pages.facts, wrong + pages.lost([script for some in scripts.values() for script in some])
