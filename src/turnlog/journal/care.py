"""The methods of a `Log` that look after the store."""

from __future__ import annotations

from turnlog.journal.parts import LogParts
from turnlog.journal.recovery import Recovered
from turnlog.limits import LEASE_S


class Care(LogParts):
    """See `Log`."""

    def recover(self) -> list[Recovered]:
        """Settle the turns of dead writers now. It happens by itself at opening and when a lease ends."""
        return self._writer.call(self._writer.recover).result()

    def check(self) -> None:
        """Return when the store takes writes, as far as this log's last one tells; else raise `StoreError`.

        After a write that failed this makes one of its own to find out, and waits for it.
        """
        self._writer.check()
        self._writer.health.check_hung()
        if self._writer.health.failing is not None:
            self._writer.call(self._probe).result()

    def _probe(self) -> None:
        """Write what changes nothing: our lease. In the writer's thread, as everything that is written."""
        with self._writer.health.writing():
            self._engine.lease(self.owner, LEASE_S)
