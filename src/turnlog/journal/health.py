"""Whether the store takes writes, as far as the writes of one log tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from turnlog.errors import StoreBusy, StoreError
from turnlog.events.clock import Clock
from turnlog.limits import STORE_BUSY_WAIT_S


class Health:
    """Told of every write by the writer's thread, asked by any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self.failing: StoreError | None = None
        """Why the last write failed; None when it did not."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Watch a write."""
        self._since = self._clock.boot_s()
        try:
            yield
        except StoreError as error:
            self.failing = error
            raise
        finally:
            self._since = None
        self.failing = None

    def check_hung(self) -> None:
        """Raise `StoreBusy` when a write has waited for longer than any write of a working store."""
        since = self._since
        if since is not None and (waited := self._clock.boot_s() - since) > STORE_BUSY_WAIT_S:
            raise StoreBusy(detail=f"a write has waited {waited:.0f} s for the disk")
