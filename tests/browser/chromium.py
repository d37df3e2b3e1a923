"""The system's Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Playwright, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APP: Final = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
FLAGS: Final = (
    "--no-sandbox",  # as root, in a container, there is none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def executable(own: str) -> str | None:
    """Where Chromium is: as `CHROMIUM` says, on the path, or playwright's `own`; None when none starts."""
    if chosen := os.environ.get("CHROMIUM"):
        return chosen
    found = [path for name in NAMES if (path := shutil.which(name))]
    return next((path for path in [*found, str(APP), own] if Path(path).is_file() and _starts(path)), None)


def _starts(path: str) -> bool:
    """Whether it is more than a name: some systems have a program that only says how to install one."""
    return subprocess.run([path, "--version"], capture_output=True, check=False, timeout=60).returncode == 0


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """A Chromium with an empty profile, or None when the machine has none."""
    with sync_playwright() as playwright:
        path = _path(playwright)
        if path is None:
            yield None
            return
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def _path(playwright: Playwright) -> str | None:
    return executable(playwright.chromium.executable_path)
