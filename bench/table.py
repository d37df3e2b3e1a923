"""The table of results: what was measured, the figures of both sides, their ratio, and the bar it is held to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One result. `held` is None for what is only information."""

    what: str
    figure: str
    beside: str = ""
    ratio: str = ""
    bar: str = ""
    held: bool | None = None


HEAD = Line("what", "turnlog", "beside", "ratio", "bar")


def formatted(lines: Iterable[Line]) -> str:
    """The lines as text in columns."""
    rows = [_cells(line) for line in [HEAD, *lines]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cells(line: Line) -> tuple[str, ...]:
    verdict = "" if line.held is None else "held" if line.held else "MISSED"
    return line.what, line.figure, line.beside, line.ratio, line.bar, verdict
