"""A clock that only moves when told."""

from __future__ import annotations

import threading
from typing import Final

START_US: Final = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""


class ManualClock:
    """See `Clock`. Both readings are set independently, as wall time may jump while boot time does not."""

    def __init__(self, now_us: int = START_US, boot_s: float = 1_000.0) -> None:
        self._now_us = now_us
        self._boot_s = boot_s
        self._guard = threading.Lock()

    def now_us(self) -> int:
        """See `Clock`."""
        with self._guard:
            return self._now_us

    def boot_s(self) -> float:
        """See `Clock`."""
        with self._guard:
            return self._boot_s

    def advance(self, seconds: float) -> None:
        """Let both pass."""
        with self._guard:
            self._now_us += round(seconds * 1_000_000)
            self._boot_s += seconds

    def set(self, *, now_us: int | None = None, boot_s: float | None = None) -> None:
        """Set either reading, backwards too."""
        with self._guard:
            self._now_us = self._now_us if now_us is None else now_us
            self._boot_s = self._boot_s if boot_s is None else boot_s
