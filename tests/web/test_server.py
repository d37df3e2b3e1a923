"""The server as a process: how it begins, whom it lets in, how it ends."""

from __future__ import annotations

from pathlib import Path

import httpx

from .serving import Serving


def test_server_begins_and_ends(tmp_path: Path) -> None:
    """A server at any free port tells its address once it answers there, and ends well when it is told to."""
    with Serving(tmp_path) as server:
        answer = httpx.get(f"{server.url}/healthz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        assert server.terminate() == 0, server.last_words()
