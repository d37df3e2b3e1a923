"""One submitter: how long one durable submission takes, beside the raw disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import turnlog
from bench.measure import TEXT, Rounds, percentile, times_us
from bench.rivals import LineJournal, RawFile, ZeroedFile
from bench.table import Line
from turnlog.journal.log import Log

ROUNDS = 20
CALLS = 60
"""A round: so many calls of each side, one side after the other."""

BAR = 2.0


def run(folder: Path) -> Iterator[Line]:
    """Submit into new threads and into one that goes on, and write the same bytes raw."""
    with turnlog.open(f"sqlite:///{folder}/alone.db") as log:
        record = _stored_bytes(log)
        raw, zeroed = RawFile(folder / "raw"), ZeroedFile(folder / "zeroed", 4 << 20)
        journal = LineJournal(folder / "lines")
        event = {"event": "submitted", "role": "user", "content": TEXT, "turn_id": "20260101T000000Z-0f3a9c1b77de"}
        rounds, every = Rounds(), list[float]()
        for number in range(ROUNDS):
            names = [f"{number}-{call}" for call in range(CALLS)]
            rounds.add("raw", median(times_us(lambda: raw.write(record) for _ in names)))
            new = times_us(lambda name=name: _submit(log, name) for name in names)  # type: ignore[misc]
            every += new
            rounds.add("new", median(new))
            rounds.add("raw again", median(times_us(lambda: raw.write(record) for _ in names)))
            rounds.add("going on", median(_going_on(log, names)))
            rounds.add("zeroed", median(times_us(lambda: zeroed.write(record) for _ in names)))
            rounds.add("lines", median(times_us(lambda: journal.append("one", event) for _ in names)))
    yield _line("submit alone, new thread, p50", rounds, "new", "raw")
    yield _line("submit alone, next turn of a thread, p50", rounds, "going on", "raw again")
    yield Line("  the same, new thread, p99", f"{percentile(every, 99):.0f} us")
    yield Line(
        "  the first ancestor's way, p50", "", f"{rounds.of('lines'):.0f} us", f"{rounds.ratio('new', 'lines'):.2f}x"
    )
    yield Line("  raw overwrite of a zeroed file, p50", "", f"{rounds.of('zeroed'):.0f} us")


def _line(what: str, rounds: Rounds, side: str, floor: str) -> Line:
    ratio = rounds.ratio(side, floor)
    beside = f"{rounds.of(floor):.0f} us raw append + fdatasync"
    return Line(what, f"{rounds.of(side):.0f} us", beside, f"{ratio:.2f}x", f"<= {BAR:.0f}x", ratio <= BAR)


def _submit(log: Log, thread: str) -> None:
    log.submit(thread, TEXT, key="first").result()


def _going_on(log: Log, names: list[str]) -> list[float]:
    """Times of submissions to one thread; what ends each turn is not in them."""
    times = []
    for name in names:
        times += times_us([lambda name=name: log.submit("going on", TEXT, key=name).result()])  # type: ignore[misc]
        log.submit("going on", TEXT, key=name).result().interrupt("cancelled").result()
    return times


def _stored_bytes(log: Log) -> bytes:
    _submit(log, "the bytes of one")
    return b"".join(event.data for event in log.events("the bytes of one"))
