"""Makes the pictures of docs/images from a real run of the demo agent: `make screenshot`.

Everything in them is real but the hour: times are hidden, so that the same version makes the same pictures.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from ..web.serving import ROOT, Serving
from .chromium import chromium

IMAGES: Final = ROOT / "docs" / "images"
BYTES_MAX: Final = 200_000
"""A picture of more would make every clone pay for it."""

FILES: Final = ("guarantees.md", "glossary.md", "states.md")
FIRST: Final = "What happens when the process is killed in the middle of an answer?"
SECOND: Final = "Where is a draft closed?"

WIDE: Final = {"width": 1_080, "height": 960}
LOW: Final = {"width": 1_080, "height": 620}
PHONE: Final = {"width": 375, "height": 700}


def main() -> None:
    """Serve, ask two questions, and take the pictures."""
    IMAGES.mkdir(exist_ok=True)
    temporary = tempfile.TemporaryDirectory
    with temporary() as folder, temporary() as store, chromium() as browser:
        if browser is None:
            raise SystemExit("no Chromium: set CHROMIUM, or run `make browser`")
        for name in FILES:
            (Path(folder) / name).write_bytes((ROOT / "docs" / name).read_bytes())
        shutil.copytree(ROOT / "docs" / "decisions", Path(folder) / "decisions")
        with Serving(Path(store), workspace=Path(folder)) as server:
            url = ask(browser, server.url)
            take(browser, url, "chat", viewport=WIDE)
            take(browser, url, "chat-dark", viewport=WIDE, color_scheme="dark")
            take(browser, url, "chat-phone", viewport=PHONE, device_scale_factor=2, has_touch=True, is_mobile=True)
            path, port = interrupt(browser, server), server.port
        with Serving(Path(store), workspace=Path(folder), port=port) as server:
            take(browser, server.url + path, "interrupted", trace=False, viewport=LOW)


def ask(browser: Browser, url: str) -> str:
    """Begin a thread and ask on; its address when all is answered."""
    page = browser.new_page()
    page.goto(url)
    for number, question in enumerate((FIRST, SECOND), 1):
        page.get_by_role("textbox", name="Your message").fill(question)
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".turn[data-state=completed]")).to_have_count(number, timeout=60_000)
    address = page.url.partition("#")[0]
    page.context.close()
    return address


def interrupt(browser: Browser, server: Serving) -> str:
    """Begin a thread and kill the server while it answers; the path of its page."""
    page = browser.new_page()
    page.goto(server.url)
    page.get_by_role("textbox", name="Your message").fill(FIRST)
    page.get_by_role("button", name="Send").click()
    page.locator(".turn .answer > .msg").first.wait_for()
    server.kill()
    path = urlsplit(page.url).path
    page.context.close()
    return path


def take(browser: Browser, url: str, name: str, *, trace: bool = True, **how: Any) -> None:
    """A picture of the thread's last turn, with its trace open or not."""
    page = browser.new_page(**how)
    page.goto(url)
    if trace:
        page.locator(".turn").last.locator("details.trace > summary").click()
        expect(page.locator(".turn").last.locator(".step").first).to_be_visible()
    settle(page)
    picture = page.screenshot()
    assert len(picture) <= BYTES_MAX, f"{name}: {len(picture)} bytes"
    (IMAGES / f"{name}.png").write_bytes(picture)
    page.context.close()


def settle(page: Page) -> None:
    """Bring the last question to the top, and leave out what differs from run to run."""
    page.evaluate("""() => {
      for (const time of document.querySelectorAll(".who, .foot, #newest")) time.style.display = "none";
      document.querySelector(".turn:last-child").scrollIntoView({ block: "start", behavior: "instant" });
    }""")


if __name__ == "__main__":
    main()
