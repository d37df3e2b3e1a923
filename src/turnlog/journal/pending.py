"""Draft text on its way to the writer: chunks wait a moment for more, so that a token costs no sync of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.errors import Overloaded
from turnlog.events.ids import text_bytes
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn_jobs import DraftPart, FlushJob, TurnJob
from turnlog.limits import DRAFT_CHUNK_BYTES, DRAFT_DELAY_S, DRAFT_PENDING_BYTES_MAX

Key = tuple[str, str, int]
"""(thread, turn, fence)."""


@dataclass(slots=True)
class _Waiting:
    since_s: float
    parts: list[DraftPart] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def due_s(self) -> float:
        return self.since_s if self.size_bytes >= DRAFT_CHUNK_BYTES else self.since_s + DRAFT_DELAY_S


class PendingDrafts:
    """What waits, by turn. A turn has at most one flush under way: while the disk is slow, text gathers here."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting] = {}
        self._flushing: set[Key] = set()

    def add(self, thread: str, turn: str, fence: int, part: DraftPart, now_s: float) -> bool:
        """Take a part, and tell whether the writer must be woken for it. Raises `Overloaded`, having taken nothing."""
        key = (thread, turn, fence)
        waiting = self._waiting.get(key)
        size = len(part.text) if part.text.isascii() else len(text_bytes(part.text))
        if waiting is not None and waiting.size_bytes + size > DRAFT_PENDING_BYTES_MAX:
            raise Overloaded(
                thread=thread, turn=turn, limit="DRAFT_PENDING_BYTES_MAX", limit_value=DRAFT_PENDING_BYTES_MAX
            )
        new = waiting is None
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(now_s)
        was_due = waiting.due_s <= now_s
        waiting.parts.append(part)
        waiting.size_bytes += size
        return new or (waiting.due_s <= now_s and not was_due)

    def take(self, thread: str, turn: str, fence: int) -> list[DraftPart]:
        """What waits for a turn: it goes along with the job that comes now."""
        waiting = self._waiting.pop((thread, turn, fence), None)
        return [] if waiting is None else waiting.parts

    def put_back(self, job: TurnJob, at_s: float) -> None:
        """Take a failed job's parts back, in front of what came later, to be flushed from `at_s` on.

        Without parts it is the turn's earlier text, already with the writer, that is to be flushed then.
        """
        waiting = self._waiting.setdefault((job.thread, job.turn, job.fence), _Waiting(at_s))
        waiting.parts = job.parts + waiting.parts
        waiting.size_bytes += sum(len(part.text) for part in job.parts)
        waiting.since_s = max(waiting.since_s, at_s)

    def receipts(self) -> list[Receipt[None]]:
        """The receipts of all that waits."""
        return [part.receipt for waiting in self._waiting.values() for part in waiting.parts]

    def due(self, now_s: float, *, all_of_them: bool) -> list[FlushJob]:
        """Jobs for what has waited long enough."""
        jobs = []
        for key, waiting in list(self._waiting.items()):
            if key not in self._flushing and (all_of_them or waiting.due_s <= now_s):
                thread, turn, fence = key
                jobs.append(FlushJob(thread=thread, turn=turn, fence=fence, parts=waiting.parts))
                del self._waiting[key]
                self._flushing.add(key)
        return jobs

    def due_s(self, now_s: float) -> float:
        """Seconds until something is due; infinite when nothing waits."""
        due = (waiting.due_s for key, waiting in self._waiting.items() if key not in self._flushing)
        return min(due, default=float("inf")) - now_s

    def flushed(self, job: FlushJob) -> None:
        """A flush is over, however it went."""
        self._flushing.discard((job.thread, job.turn, job.fence))
