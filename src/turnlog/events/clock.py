"""Time as an argument. Wall time is only shown; leases use the boot-time clock, which nobody sets."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Two readings of time."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970, UTC. May jump in any direction: nothing is ordered by it."""
        ...

    def boot_s(self) -> float:
        """Seconds since the machine started, suspension included; equal for all processes, never set back."""
        ...


# Linux calls it CLOCK_BOOTTIME; on macOS CLOCK_MONOTONIC goes on while the machine sleeps.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000

    def boot_s(self) -> float:
        """See `Clock`."""
        return time.clock_gettime(_BOOT_CLOCK)


_BEGINNING = datetime(1970, 1, 1)


def rfc3339(at_us: int) -> str:
    """A time for people and JSON documents: RFC 3339, UTC, microseconds.

    What is no time of the years 1 to 9999 (nanoseconds, given for microseconds) stays the number it is, as text:
    another time would be invented.
    """
    try:
        return f"{(_BEGINNING + timedelta(microseconds=at_us)).isoformat(timespec='microseconds')}Z"
    except OverflowError:
        return str(at_us)
