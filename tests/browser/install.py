"""Sees to it that there is a Chromium for the tests: `python -m tests.browser.install MARK`, which makes the file MARK.

Without one the tests of the page are skipped; where nothing may be skipped (CI=true), not to find one is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from .chromium import executable

PACKAGES: Final = ("chromium", "fonts-liberation")


def main() -> int:
    """Look for one, else install one: with the system's packages where that is allowed, else playwright's own."""
    for install in (None, system_packages, own_build):
        if install is not None:
            install()
        if path := found():
            sys.stdout.write(f"Chromium: {path}\n")
            Path(sys.argv[1]).touch()
            return 0
    sys.stderr.write("There is no Chromium, and none could be installed: the tests of the page are skipped.\n")
    return 1 if os.environ.get("CI") == "true" else 0


def found() -> str | None:
    """Where one is."""
    with sync_playwright() as playwright:
        return executable(playwright.chromium.executable_path)


def system_packages() -> None:
    """Install the system's package, as root or with a sudo that asks nothing."""
    if shutil.which("apt-get") is None:
        return
    rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if rights and shutil.which("sudo") is None:
        return
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *PACKAGES]):
        if _run([*rights, *environment, "apt-get", *command]) != 0:
            return


def own_build() -> None:
    """Install the build that playwright was made with."""
    _run([sys.executable, "-m", "playwright", "install", "chromium"])


def _run(command: list[str]) -> int:
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
