"""Frames of server-sent events."""

from __future__ import annotations

from turnlog.events.codec import json_line


def frame(event: str, data: bytes, *, id: str | None = None) -> bytes:
    """One event of a stream. Lines end with LF alone, since some clients know no other end.

    `data` is text whose line ends may be written in any way: JSON, where they are white space.
    """
    head = f"event: {event}\n" if id is None else f"id: {id}\nevent: {event}\n"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return head.encode() + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def reset(reason: str, head: str) -> bytes:
    """Tells a client that it cannot go on from where it is: to fetch what it shows again, and to go on from `head`."""
    return frame("reset", json_line({"reason": reason, "head": head}))
