"""A person's browser tab on a thread: what is done in it, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from playwright.sync_api import BrowserContext, Locator, Page, expect

WAIT_S: Final = 10.0
"""Seconds to wait for something to show; a healthy page needs tenths."""

expect.set_options(timeout=WAIT_S * 1_000)

WATCH: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
"""

SAME: Final = """async () => {
  const { parse } = await import("/static/morph.js");
  const html = await (await fetch(location.href, { cache: "no-store" })).text();
  const plain = (root) => {
    const copy = root.cloneNode(true);
    for (const node of copy.querySelectorAll("[data-live]")) node.textContent = "";
    for (const node of copy.querySelectorAll("[tabindex='-1']")) node.removeAttribute("tabindex");
    for (const node of copy.querySelectorAll("details")) node.removeAttribute("open");
    for (const node of copy.querySelectorAll("[data-keep]")) {
      node.replaceChildren();
      node.removeAttribute("data-loaded");
    }
    copy.removeAttribute("data-at"); // What changes nothing on the page need not move the cursor.
    copy.normalize();
    return copy;
  };
  const live = plain(document.getElementById("thread")), fresh = plain(parse(html).querySelector("#thread"));
  const differ = (one, other) => {
    for (let i = 0; i < Math.max(one.childNodes.length, other.childNodes.length); i++) {
      const [a, b] = [one.childNodes[i], other.childNodes[i]];
      if (!a || !b) return ["only one has", (a ?? b).outerHTML ?? (a ?? b).data];
      if (!a.isEqualNode(b)) return a.cloneNode().isEqualNode(b.cloneNode()) ? differ(a, b)
        : [a.cloneNode().outerHTML ?? a.data, b.cloneNode().outerHTML ?? b.data];
    }
    return [one.cloneNode().outerHTML, other.cloneNode().outerHTML];
  };
  return live.isEqualNode(fresh) ? null : differ(live, fresh);
}"""
"""The first difference between this page and one loaded now, apart from tickers, open states and rows loaded later."""


class Chat:
    """One tab. `wrong` collects what no tab may have: uncaught errors, failed scripts, broken policies."""

    def __init__(self, context: BrowserContext, url: str, thread: str) -> None:
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.url = f"{url}/t/{thread}"
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if "taken anew" in said.text else None)
        self.page.add_init_script(WATCH)
        self.page.goto(self.url)

    def check(self) -> None:
        """Nothing went wrong in this tab."""
        assert [*self.wrong, *self.page.evaluate("window.violations")] == []

    # --- what is there -------------------------------------------------------------------------------------------

    @property
    def turns(self) -> Locator:
        """The turns shown, oldest first."""
        return self.page.locator("section.turn")

    @property
    def last(self) -> Locator:
        """The newest turn."""
        return self.turns.last

    @property
    def answer(self) -> Locator:
        """The text of the newest turn's answer."""
        return self.last.locator(".answer > .msg").last

    @property
    def composer(self) -> Locator:
        """Where a person writes."""
        return self.page.get_by_role("textbox", name="Your message")

    @property
    def banner(self) -> Locator:
        """What is said about the connection."""
        return self.page.locator("#banner")

    # --- what is done --------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Write and send a message."""
        self.composer.fill(text)
        self.composer.press("Enter")

    def send_instead(self, text: str) -> None:
        """Write a message and send it instead of what is being answered."""
        self.composer.fill(text)
        self.page.locator("[name=when_busy][value=replace]").check()
        self.composer.press("Enter")

    def until(self, what: Callable[[Page], Any], wanted: object) -> None:
        """Wait until what is read of the page is as wanted."""
        end = monotonic() + WAIT_S
        while (got := what(self.page)) != wanted:
            assert monotonic() < end, f"{got!r}, not {wanted!r}"
            self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def until_live(self) -> None:
        """Wait until the stream is open."""
        self.until(lambda page: page.evaluate("document.documentElement.dataset.stream"), "live")

    def until_same(self) -> None:
        """Wait until this page is what a new one would be (P9)."""
        self.until(lambda page: page.evaluate(SAME), None)
