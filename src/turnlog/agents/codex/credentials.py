"""What of Codex's words stays out of the log: a provider's URL may hold a key. Pure."""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(
    r"\b([a-z][a-z0-9+.-]*://)([^\s/?#\"'<>@]*@)?([^\s?#\"'<>)\]]*)(\?[^\s#\"'<>)\]]*)?", re.IGNORECASE
)
"""Scheme, user and password, host and path, query."""


def without_credentials(text: str) -> str:
    """A text whose URLs have lost user, password and query, which say nothing of what went wrong."""
    return _URL.sub(lambda url: f"{url[1]}{url[3]}" + ("?…" if url[4] else ""), text)
