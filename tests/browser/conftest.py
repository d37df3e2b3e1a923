"""One Chromium for all browser tests of a process, gone before other tests: its loop would be in their way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from .chromium import chromium
from .files import Files


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
