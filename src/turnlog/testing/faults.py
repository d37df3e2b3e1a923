"""An engine with fail-points: to see what the journal does when a verb fails, hangs, or is the last one called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from turnlog.engines.protocol import (
    Caps,
    Damage,
    Engine,
    Outcome,
    OwnerId,
    Page,
    Record,
    SnapshotPage,
    Tail,
    ThreadId,
    ThreadRow,
    TurnRow,
    Write,
)
from turnlog.errors import StoreError
from turnlog.testing.traps import Hold, Trap, Traps, raising


class FaultEngine:
    """An `Engine` that passes every verb on to `engine`, reaching the places `<verb>.before` and `<verb>.after`.

    A trap at `commit.before` that raises leaves nothing stored; one at `commit.after` raises although all is durable:
    the two outcomes that a raise leaves open (promise 3). Places after a verb are reached only when it returned.
    """

    def __init__(self, engine: Engine, traps: Traps | None = None) -> None:
        self.traps: Final = Traps() if traps is None else traps
        self._engine = engine

    # --- what tests set -----------------------------------------------------------------------------------------

    def fail(self, place: str, error: Callable[[], StoreError], *, k: int = 1, forever: bool = False) -> Trap:
        """Raise what `error` makes at the k-th reach of `place` from now, once or `forever` (until `heal`)."""
        return self.traps.set(place, raising(error), k=k, forever=forever)

    def hold(self, place: str, *, k: int = 1) -> Hold:
        """Block the k-th reach of `place` from now until the hold is released."""
        return self.traps.hold(place, k=k)

    def heal(self) -> None:
        """Remove all traps, and release who is held."""
        self.traps.heal()

    @contextmanager
    def _around(self, verb: str) -> Iterator[None]:
        self.traps.reach(f"{verb}.before")
        yield
        self.traps.reach(f"{verb}.after")

    # --- Engine -------------------------------------------------------------------------------------------------

    @property
    def caps(self) -> Caps:
        """See `Engine`."""
        return self._engine.caps

    @property
    def epoch(self) -> str:
        """See `Engine`."""
        return self._engine.epoch

    def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """See `Engine`."""
        with self._around("commit"):
            return self._engine.commit(writes)

    def lease(self, owner: OwnerId, seconds: float) -> None:
        """See `Engine`."""
        with self._around("lease"):
            self._engine.lease(owner, seconds)

    def dead_owners(self, *, limit: int) -> list[OwnerId]:
        """See `Engine`."""
        with self._around("dead_owners"):
            return self._engine.dead_owners(limit=limit)

    def lease_end(self) -> float | None:
        """See `Engine`."""
        with self._around("lease_end"):
            return self._engine.lease_end()

    def tail(self, thread: ThreadId, *, after: int, rev: int, limit: int) -> Tail:
        """See `Engine`."""
        with self._around("tail"):
            return self._engine.tail(thread, after=after, rev=rev, limit=limit)

    def read(
        self,
        thread: ThreadId,
        *,
        after: int = 0,
        before: int | None = None,
        turn: str | None = None,
        kinds: Collection[str] | None = None,
        reverse: bool = False,
        limit: int,
        bytes_max: int,
    ) -> Page[Record]:
        """See `Engine`."""
        with self._around("read"):
            return self._engine.read(
                thread,
                after=after,
                before=before,
                turn=turn,
                kinds=kinds,
                reverse=reverse,
                limit=limit,
                bytes_max=bytes_max,
            )

    def turns(
        self,
        *,
        thread: ThreadId | None = None,
        turn: str | None = None,
        key: str | None = None,
        owner: OwnerId | None = None,
        retry_of: str | None = None,
        open_only: bool = False,
        latest_each: bool = False,
        before: bytes | None = None,
        limit: int,
    ) -> Page[TurnRow]:
        """See `Engine`."""
        with self._around("turns"):
            return self._engine.turns(
                thread=thread,
                turn=turn,
                key=key,
                owner=owner,
                retry_of=retry_of,
                open_only=open_only,
                latest_each=latest_each,
                before=before,
                limit=limit,
            )

    def threads(
        self, *, thread: ThreadId | None = None, importing: bool = False, before: bytes | None = None, limit: int
    ) -> Page[ThreadRow]:
        """See `Engine`."""
        with self._around("threads"):
            return self._engine.threads(thread=thread, importing=importing, before=before, limit=limit)

    def snapshot(self, thread: ThreadId, turn: str, *, page: int = 0) -> SnapshotPage | None:
        """See `Engine`."""
        with self._around("snapshot"):
            return self._engine.snapshot(thread, turn, page=page)

    def check(self, thread: ThreadId | None = None) -> Iterator[Damage]:
        """See `Engine`. The places lie before and after the call that begins the search."""
        with self._around("check"):
            return self._engine.check(thread)

    def reindex(self) -> None:
        """See `Engine`."""
        with self._around("reindex"):
            self._engine.reindex()

    def changes(self, position: bytes, timeout: float) -> tuple[list[ThreadId], bytes]:
        """See `Engine`."""
        with self._around("changes"):
            return self._engine.changes(position, timeout)

    def rest(self) -> None:
        """See `Engine`."""
        with self._around("rest"):
            self._engine.rest()

    def close(self) -> None:
        """See `Engine`."""
        with self._around("close"):
            self._engine.close()
