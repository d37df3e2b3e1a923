"""What streams carry is what the OpenAPI document says, frame by frame, from a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.web.calling import check_value, operation_of
from tests.web.serving import Serving

SCHEMAS = {
    "event": "EventFrame",
    "draft": "DraftFrame",
    "reset": "ResetFrame",
    "bye": "ByeFrame",
    "change": "ChangeFrame",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "notes.md").write_text("Ship it on Friday.\n")
    with Serving(tmp_path) as serving:
        yield serving


def frames(server: Serving, path: str) -> Iterator[dict[str, Any]]:
    """The frames of a stream, each as the document describes it, and of the kinds that it names for the path."""
    content = operation_of("GET", path.partition("?")[0])["responses"]["200"]["content"]  # type: ignore[index]
    stream = content["text/event-stream"]["schema"]["$ref"].rpartition("/")[2]
    with httpx.stream("GET", server.url + path, headers={"accept": "text/event-stream"}, timeout=30) as response:
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        lines: list[str] = []
        for line in response.iter_lines():
            if line:
                lines.append(line)
                continue
            frame: dict[str, Any] = {}
            for field in lines:
                name, _, value = field.partition(": ")
                if name in ("event", "id"):
                    frame[name] = value
                elif name == "data":
                    frame["data"] = json.loads(value)
            lines = []
            if "event" in frame:
                check_value(SCHEMAS[frame["event"]], frame)
                check_value(stream, [frame])
                yield frame


def submit(server: Serving) -> Any:
    message = {"content": "When do we ship?"}
    return httpx.post(f"{server.url}/api/threads/t/turns", json=message, timeout=30).json()


def test_a_thread_s_stream_is_as_described(server: Serving) -> None:
    """Events with their cursors, drafts without, and a bye when the server stops: each frame is of its schema; a
    `limit` is for pages, and ends no stream."""
    submit(server)
    seen = []
    for frame in frames(server, "/api/threads/t/events?after=0&limit=1"):
        seen.append(frame["event"])
        if frame["event"] == "event" and frame["data"]["kind"] == "completed":
            server.terminate()
    assert (seen[0], seen[-1], set(seen)) == ("event", "bye", {"event", "draft", "bye"})


def test_a_stream_after_a_cursor_of_elsewhere_is_reset(server: Serving) -> None:
    """A cursor that proves nothing is answered by a reset, which names the head (C40)."""
    submit(server)
    first = next(frames(server, "/api/threads/t/events?after=0000.7"))
    assert (first["event"], first["data"]["reason"]) == ("reset", "epoch")


def test_the_stream_of_changes_is_as_described(server: Serving) -> None:
    """It begins with a reset, then has the rows of threads that change."""
    changes = frames(server, "/api/changes")
    assert next(changes)["event"] == "reset"
    submit(server)
    change = next(frame for frame in changes if frame["event"] != "reset")
    assert [row["thread"] for row in change["data"]["threads"]] == ["t"]
    changes.close()  # type: ignore[attr-defined]
