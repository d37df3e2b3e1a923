"""A page of a transcript: some turns, each whole, and what stands between them.

Turns may overlap: one that was submitted earlier may still be written to when the next one waits. So a page is cut by
turns and not by seq: it takes all events of its own turns and none of the others', and every event is in one page.
"""

from __future__ import annotations

from turnlog.events.kinds import Draft, Event, Submitted, ThreadLate
from turnlog.folds.transcript import Transcript, TranscriptView


class PageFold:
    """The transcript of `turns`. What belongs to no turn is of the page where it stands: before the seq `end`.

    Without `end` it is the newest page: turns that are submitted while it is read belong to it too.
    """

    def __init__(self, turns: set[str], end: int | None) -> None:
        self._turns, self._end = turns, end
        self._fold = Transcript()

    def event(self, event: Event) -> None:
        """Take one event; those of other pages are let pass."""
        if self._end is None and event.kind == Submitted.kind and event.turn is not None:
            self._turns.add(event.turn)
        if self._is_ours(event):
            self._fold.event(event)

    def _is_ours(self, event: Event) -> bool:
        if event.turn is not None:
            return event.turn in self._turns
        if isinstance(event.body, ThreadLate):
            return event.body.of in self._turns
        return self._end is None or event.seq < self._end

    def draft(self, chunk: Draft) -> None:
        """Take one chunk of an open draft."""
        self._fold.draft(chunk)

    def retried(self, turn: str, child: str) -> None:
        """A turn of this page was asked again, by a turn of another one."""
        self._fold.retried(turn, child)

    def view(self) -> TranscriptView:
        """The page as it stands."""
        return self._fold.view()
