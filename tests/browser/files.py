"""The client's files served to a page without a server, under the security policy of the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from playwright.sync_api import Page, Route

import turnlog.web.page

STATIC: Final = Path(turnlog.web.page.__file__).parent / "static"
ORIGIN: Final = "http://turnlog.test"
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types turnlog"
)


class Files:
    """Answers `ORIGIN/` with `html` and `ORIGIN/<name>` with the client's file of that name."""

    def __init__(self, page: Page, html: str = "<!doctype html><title>bare</title><body></body>") -> None:
        self._page = page
        self._html = html

    def open(self) -> None:
        """Open the page."""
        self._page.route(f"{ORIGIN}/**", self._answer)
        self._page.goto(f"{ORIGIN}/")

    def _answer(self, route: Route) -> None:
        path = STATIC / route.request.url.rpartition("/")[2]
        if path.is_file():
            route.fulfill(body=path.read_bytes(), content_type=TYPES[path.suffix])
        else:
            headers = {"content-security-policy": POLICY, "content-type": "text/html; charset=utf-8"}
            route.fulfill(body=self._html, headers=headers)
