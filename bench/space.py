"""Bytes on disk for each byte of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import turnlog
from bench.table import Line

TURNS = (300, 3_000)
SAID = "Compare the two offers in the folder. " * 11
"""Half of a turn's 800 bytes of text: the other half is the answer."""

TEXT_BYTES = 800
BAR = 5.0


def run(folder: Path) -> Iterator[Line]:
    """Whole turns in one thread, each asked, begun, answered and completed; sizes after the log is closed."""
    said = SAID[: TEXT_BYTES // 2]
    for turns in TURNS:
        place = folder / f"space-{turns}"
        place.mkdir()
        with turnlog.open(f"sqlite:///{place}/chat.db") as log:
            for _ in range(turns):
                with log.turn("one", said) as turn:
                    content = [{"type": "output_text", "text": said}]
                    turn.item({"type": "message", "role": "assistant", "content": content})
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        ratio = size / (turns * TEXT_BYTES)
        what = f"disk for {turns:,} turns of {TEXT_BYTES} bytes of text"
        text = f"{turns * TEXT_BYTES / 1024:,.0f} KiB of text"
        yield Line(what, f"{size / 1024:,.0f} KiB", text, f"{ratio:.2f}x", f"< {BAR:.0f}x", ratio < BAR)
