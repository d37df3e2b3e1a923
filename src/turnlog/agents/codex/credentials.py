"""What of Codex's words stays out of the log: a provider's URL may hold a key. Pure."""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(r"://([^\s\"<>]+)")
"""What follows a scheme. People write passwords as they are, so all that may stand in a URL may stand in one."""

_CLOSING: Final = ")]}'.,;:"
"""Characters that end a sentence around a URL rather than the URL."""

_QUERY: Final = re.compile(r"([?#]).*")


def without_credentials(text: str) -> str:
    """A text whose URLs have lost user, password, query and fragment, which say nothing of what went wrong.

    Give it the whole of a text, and cut afterwards: half a URL hides what belongs to a password. Where an `@` comes
    after a `?` or `#`, nobody can tell a password from a query: nothing of that URL is left but its scheme.
    """
    return _URL.sub(_shown, text)


def _shown(url: re.Match[str]) -> str:
    whole = url[1].rstrip(_CLOSING)
    login, at, place = whole.rpartition("@")
    shown = "…" if _QUERY.search(login) else _QUERY.sub(r"\1…", f"{'…@' if at else ''}{place}")
    return f"://{shown}{url[1][len(whole) :]}"
