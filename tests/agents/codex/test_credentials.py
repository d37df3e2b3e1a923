"""What of Codex's words stays out of the log."""

from __future__ import annotations

from turnlog.agents.codex.credentials import without_credentials


def test_urls_lose_what_may_be_a_key() -> None:
    """User, password and query of a URL are cut off, the rest of the text stays."""
    assert (
        without_credentials("401, url: https://me:pw@host.x/v1/r?api-key=K, id 1")
        == "401, url: https://host.x/v1/r?… id 1"
    )
    assert without_credentials("a?b by me@x.org") == "a?b by me@x.org"
