"""What a subscriber knows: only what it was given, put together by the documented rule."""

from __future__ import annotations

from turnlog.events.kinds import Draft, Event


class Seen:
    """Events in the order they came, and the text of each draft no event has closed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.drafts: dict[str, str] = {}
        self.frames: list[Event | Draft] = []

    def take(self, frame: Event | Draft) -> None:
        self.frames.append(frame)
        if isinstance(frame, Draft):
            assert frame.offset <= len(self.drafts.get(frame.draft, "")), "a chunk is missing"
            self.drafts[frame.draft] = self.drafts.get(frame.draft, "")[: frame.offset] + frame.text
            return
        self.events.append(frame)
        for closed in getattr(frame.body, "closes", ()):
            self.drafts.pop(closed.draft, None)

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]
