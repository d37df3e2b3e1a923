"""What does not change is sent once."""

from __future__ import annotations

import pytest

import turnlog
from turnlog.web.app import create_app

from .sites import GUARD, asked, site_of


@pytest.mark.parametrize("path", ["/static/turnlog.css", "/openapi.json"])
def test_who_has_it_is_told_so(path: str) -> None:
    """A file and a document are known again by their tag, weak or strong, among others, and by `*`; not by another."""
    with turnlog.open("memory://") as log:
        app = create_app(site_of(log), guard=GUARD)
        first = asked(app, "GET", path)
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = asked(app, "GET", path, headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            assert again.headers["cache-control"] == first.headers["cache-control"]
        other = asked(app, "GET", path, headers={"if-none-match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content)
