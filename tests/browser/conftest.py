"""One Chromium and one server for all browser tests of a process, gone before other tests: its loop is in their way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from ..web.serving import Serving
from .chat import Chat
from .chromium import chromium
from .files import Files
from .puppet import SERVER, Puppets

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        if found is None:
            pytest.skip("no Chromium: set CHROMIUM, or run `make browser`")
        yield found


@pytest.fixture
def bare(browser: Browser) -> Iterator[Page]:
    """An empty page under the page's own security policy, with the client's modules beside it and no server."""
    context = browser.new_context()
    page = context.new_page()
    Files(page).open()
    yield page
    context.close()


@pytest.fixture(scope="package")
def puppets() -> Iterator[Puppets]:
    with Puppets() as puppets:
        yield puppets


@pytest.fixture(scope="package")
def server(puppets: Puppets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that is shared: a test takes a thread of its own, and leaves no turn open in it."""
    with Serving(tmp_path_factory.mktemp("server"), script=SERVER, environment=puppets.environment) as server:
        yield server


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def chat(context: BrowserContext, server: Serving, puppets: Puppets) -> Iterator[Chat]:
    """A tab on a new thread that has one turn, answered with "Ready."."""
    chat = Chat(context, server.url, begin(server.url, puppets))
    chat.until_live()
    yield chat
    end(chat.url.replace("/t/", "/api/threads/"))
    puppets.release()
    chat.check()


def end(api: str) -> None:
    """Interrupt the open turns of a thread, the last first so that none begins, and wait until all have ended."""
    turns = httpx.get(f"{api}/turns").json()["turns"]
    ended = {"completed", "interrupted"}
    for turn in sorted((turn for turn in turns if turn["state"] not in ended), key=lambda turn: -turn["seq_first"]):
        httpx.post(f"{api}/turns/{turn['turn']}/interrupt", json={})
    while not all(turn["state"] in ended for turn in httpx.get(f"{api}/turns").json()["turns"]):
        pass


def begin(url: str, puppets: Puppets) -> str:
    """Make a thread with one answered turn; its id."""
    thread = f"thread-{next(_numbers)}"
    httpx.post(f"{url}/api/threads/{thread}/turns", json={"content": "Are you there?"}).raise_for_status()
    puppets.take().answer("Ready.")
    with httpx.stream("GET", f"{url}/api/threads/{thread}/events", headers={"Accept": "text/event-stream"}) as answer:
        next(line for line in answer.iter_lines() if '"completed"' in line)
    return thread


@pytest.fixture
def another(context: BrowserContext, server: Serving) -> Callable[[Chat], Chat]:
    """Opens another tab on the thread of a tab."""
    return lambda chat: Chat(context, server.url, chat.url.rpartition("/")[2])


@pytest.fixture
def browser_without_scripts(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(java_script_enabled=False)
    yield context
    context.close()
