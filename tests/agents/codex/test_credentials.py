"""What of Codex's words stays out of the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agents.codex.credentials import without_credentials

SECRETS = st.text("ÄÖÜß:/?#@&=%'()[]{},;.!$*+-_~\\|^`", min_size=1, max_size=12).map(lambda text: f"Ä{text}Ä")
"""Whatever stands in a URL, with letters that nothing else has."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("401, url: https://me:pw@host.x/v1/r?api-key=K, id 1", "401, url: https://…@host.x/v1/r?…, id 1"),
        ("https://me:p/w@host.x/v1", "https://…@host.x/v1"),
        ("https://me:p?w#@host.x/v1", "https://…"),
        ("https://me:p@w@host.x/v1", "https://…@host.x/v1"),
        ("(http://[::1]:80/v1?key=K)", "(http://[::1]:80/v1?…)"),
        ("https://host.x/v1?a=b)c'&key=K", "https://host.x/v1?…"),
        ("https://host.x/v1#token=K.", "https://host.x/v1#…."),
        ("https://host.x/v1?to=me@x.org&key=K", "https://…"),
        ('{"url":"http://a:b@h/x","by":"me@x.org"}', '{"url":"http://…@h/x","by":"me@x.org"}'),
        ("http://h/x 'wss://me:k@g'", "http://h/x 'wss://…@g'"),
        ("a?b by me@x.org", "a?b by me@x.org"),
    ],
)
def test_urls_lose_what_may_be_a_key(text: str, shown: str) -> None:
    """User, password, query and fragment of a URL are cut off, the rest of the text stays."""
    assert without_credentials(text) == shown


@given(user=SECRETS, password=SECRETS, query=SECRETS, fragment=SECRETS)
def test_no_character_of_a_secret_is_left(user: str, password: str, query: str, fragment: str) -> None:
    """Whatever a login, a query and a fragment are made of, nothing of them stays, and the words around them do."""
    for url in (
        f"https://{user}:{password}@host.x/v1",
        f"https://{user}@host.x/v1",
        f"https://host.x/v1?{query}",
        f"https://host.x/v1#{fragment}",
        f"https://{user}:{password}@host.x/v1?{query}#{fragment}",
    ):
        said = without_credentials(f"before ({url}) <{url}> after")
        assert not set("ÄÖÜß") & set(said), said
        assert said.startswith("before (https://") and said.endswith("> after")
