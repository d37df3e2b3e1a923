"""Frames of server-sent events."""

from __future__ import annotations


def frame(event: str, data: bytes, *, id: str | None = None) -> bytes:
    """One event of a stream. Lines end with LF alone, since some clients know no other end.

    `data` is text whose line ends may be written in any way: JSON, where they are white space.
    """
    head = f"event: {event}\n" if id is None else f"id: {id}\nevent: {event}\n"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return head.encode() + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
