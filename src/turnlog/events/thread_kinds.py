"""What can happen to a thread as a whole: kinds that add to its log, and never rewrite it. See `kinds`."""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.body import Body, DroppedText

TruncateWhy = Literal["undo", "edit"]


class ThreadRenamed(Body, frozen=True, kw_only=True):
    """The thread has another title. An empty one gives the title back to the first message."""

    kind: ClassVar[str] = "thread_renamed"
    title: str
    by: str | None = None


class ThreadSettings(Body, frozen=True, kw_only=True):
    """What a person set of the thread; what is absent stays as it was."""

    kind: ClassVar[str] = "thread_settings"
    pinned: bool | None = None
    by: str | None = None


class ThreadTruncated(Body, frozen=True, kw_only=True):
    """What was begun behind the seq `after`, up to this event, is no part of the conversation any more. It all stays.

    `turn` is the first turn it hides, `latest` the newest one it leaves, and `earlier` the seq of the newest truncation
    before it that is not hidden by it: from one to the next all of a thread's are found.
    """

    kind: ClassVar[str] = "thread_truncated"
    after: int
    turn: str | None = None
    latest: str | None = None
    earlier: int | None = None
    why: TruncateWhy
    by: str | None = None


class ThreadForked(Body, frozen=True, kw_only=True):
    """Everything before this event was copied from the thread `of` of the store `epoch`, byte for byte, its events 1 to
    `seq` under the same seqs. `turn` was asked to be the last turn that stays."""

    kind: ClassVar[str] = "thread_forked"
    of: str
    epoch: str
    seq: int
    turn: str | None = None


class ThreadCompacted(Body, frozen=True, kw_only=True):
    """A history for an agent has `summary` in the place of what was begun up to the seq `until`."""

    kind: ClassVar[str] = "thread_compacted"
    summary: str
    until: int
    by: str | None = None


class ThreadRepaired(Body, frozen=True, kw_only=True):
    """A person had a finding of the audit repaired: the events `seqs` are as they were, and are no finding any more.

    `finding` is its kind, `turn` the turn it is of. `dropped` is the text of drafts that were left behind, which this
    event carries from now on.
    """

    kind: ClassVar[str] = "thread_repaired"
    finding: str
    turn: str | None = None
    seqs: list[int] = []
    dropped: list[DroppedText] = []
    detail: str | None = None
    by: str | None = None


class ThreadRepairUndone(Body, frozen=True, kw_only=True):
    """The repair at the seq `repair` holds no longer: what it was about is a finding again."""

    kind: ClassVar[str] = "thread_repair_undone"
    repair: int
    by: str | None = None
