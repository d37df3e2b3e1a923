"""Server-sent events as a client reads them, in any pieces, with no code of the server's."""

from __future__ import annotations

from typing import NamedTuple


class Frame(NamedTuple):
    """One event of a stream. `id` is None where the frame has none."""

    event: str
    id: str | None
    data: str


class FrameReader:
    """Reads frames from pieces of a stream. Raises `ValueError` for what is no frame as turnlog promises them."""

    def __init__(self) -> None:
        self._rest = b""
        self.retry_ms: int | None = None
        self.comments: list[str] = []

    def feed(self, piece: bytes) -> list[Frame]:
        """Take a piece; the frames that are whole now."""
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        return [frame for block in blocks if (frame := self._frame(block.decode("utf-8"))) is not None]

    def _frame(self, block: str) -> Frame | None:
        event, id_, data = "", None, list[str]()
        for line in block.split("\n"):
            if "\r" in line:
                raise ValueError(f"a CR in a stream: {line!r}")
            name, colon, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "event":
                    event = value
                case "id":
                    id_ = value
                case "data":
                    data.append(value)
                case "retry":
                    self.retry_ms = int(value)
                case "":
                    self.comments.append(value)
                case _:
                    colon = ""
            if not colon:
                raise ValueError(f"no line of a frame: {line!r}")
        return Frame(event, id_, "\n".join(data)) if event else None
