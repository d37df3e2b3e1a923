"""The methods of a `Log` that write to a thread as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from turnlog.errors import InvalidInput, TooLarge
from turnlog.events.codec import accept_body
from turnlog.events.ids import check_name, check_thread_id, check_turn_id
from turnlog.events.kinds import ThreadItem
from turnlog.events.thread_kinds import ThreadCompacted, ThreadRenamed, ThreadSettings, TruncateWhy
from turnlog.folds.thread import Source
from turnlog.journal.fork_job import ForkJob, is_same, settled_point
from turnlog.journal.jobs import ThreadItemJob
from turnlog.journal.parts import LogParts
from turnlog.journal.reading import ThreadView
from turnlog.journal.receipt import Receipt
from turnlog.journal.records import thread_fold
from turnlog.journal.thread_jobs import CompactJob, PinJob, RenameJob, Truncated, TruncateJob
from turnlog.journal.turn import item_fields
from turnlog.limits import SUBMISSION_BYTES_MAX, TITLE_GIVEN_CHARS_MAX


class ThreadOperations(LogParts):
    """See `Log`. `by` says who did it, for people. All raise `UnknownThread` where there is no such thread."""

    def append_message(
        self,
        thread: str,
        raw: bytes | Mapping[str, Any],
        *,
        format: str = "responses",
    ) -> Receipt[int]:
        """Append a raw item that belongs to no turn; gives its seq. Raises `NotJson` or `TooLarge` at once."""
        body = ThreadItem(**item_fields(raw, format)[0])
        return self._writer.put(ThreadItemJob(thread=check_thread_id(thread), body=body, size_bytes=len(body.raw)))

    def rename(self, thread: str, title: str, *, by: str | None = None) -> Receipt[int]:
        """Give a thread a title; gives the seq, or the head if it has it. "" gives the title back to the first message.

        Raises `InvalidInput` or `TooLarge` at once unless it is one line of at most `TITLE_GIVEN_CHARS_MAX` characters.
        """
        body = ThreadRenamed(title=_title(title), by=_who(by))
        return self._writer.put(RenameJob(thread=check_thread_id(thread), body=body))

    def pin(self, thread: str, pinned: bool = True, *, by: str | None = None) -> Receipt[int]:
        """Let a thread stand before those that are not pinned, or no longer; gives the seq, or the head if it does."""
        if not isinstance(pinned, bool):
            raise InvalidInput(field="pinned", problem="must be true or false")
        body = ThreadSettings(pinned=pinned, by=_who(by))
        return self._writer.put(PinJob(thread=check_thread_id(thread), body=body))

    def truncate(
        self, thread: str, turn: str, *, why: TruncateWhy = "undo", by: str | None = None
    ) -> Receipt[Truncated]:
        """Take a turn and everything begun after it out of the conversation. It all stays, and can be read.

        Attempts at the same message that were made directly before it go with it. Raises `UnknownTurn`, `TurnHidden`
        when it is out already, `Busy` while a turn that would go is open, `TooLarge` after `TRUNCATIONS_MAX` of them.
        """
        if why not in get_args(TruncateWhy):
            raise InvalidInput(field="why", problem=f"must be one of {', '.join(get_args(TruncateWhy))}")
        job = TruncateJob(thread=check_thread_id(thread), turn=check_turn_id(turn), why=why, by=_who(by))
        return self._writer.put(job)

    def compact(self, thread: str, summary: str, *, until: str | None = None, by: str | None = None) -> Receipt[int]:
        """Let `summary` stand for the beginning of a thread in what an agent is given; gives the seq.

        `until` is the last turn it tells of, by default the newest that has ended with all before it. Raises
        `UnknownTurn`, `TurnHidden`, or `Busy` while a turn that it tells of is open.
        """
        given: Any = summary  # callers without a type checker pass anything
        if not isinstance(given, str) or not given.strip():
            raise InvalidInput(field="summary", problem="must be text that says something")
        size = len(accept_body(ThreadCompacted(summary=summary, until=0, by=_who(by))))
        if size > SUBMISSION_BYTES_MAX:
            limit = "SUBMISSION_BYTES_MAX"
            raise TooLarge(field="summary", limit=limit, limit_value=SUBMISSION_BYTES_MAX, given=size)
        until = None if until is None else check_turn_id(until)
        job = CompactJob(thread=check_thread_id(thread), summary=summary, until=until, by=by, size_bytes=size)
        return self._writer.put(job)

    def fork(self, thread: str, to: str | None = None, *, turn: str | None = None) -> Receipt[ThreadView]:
        """Copy a thread up to the end of `turn`, by default all of it that has settled, into the new thread `to`.

        The copy has the same events under the same seqs, and is in no list before it is whole. Turns that overlapped
        with `turn` are copied and hidden. The same call again gives the fork that is there, or goes on with one that
        was broken off. Raises `ThreadExists` when `to` is another thread, `UnknownTurn`, `Busy` when no end of the turn
        is settled yet, or `TurnHidden` when it was hidden before that.
        """
        self._writer.check()
        of = self._reading.thread(thread).thread
        name = self._ids.turn_id(self._clock.now_us()) if to is None else check_thread_id(to)
        if name == of:
            raise InvalidInput(field="to", problem="must be another thread")
        asked = Source(of=of, epoch=self._engine.epoch, seq=0, turn=None if turn is None else check_turn_id(turn))
        rows = self._engine.threads(thread=name, limit=1).rows
        begun = thread_fold(self._engine, rows[0]).source if rows else None
        if begun is None or not is_same(begun, asked):
            begun = Source(of=of, epoch=asked.epoch, seq=settled_point(self._engine, of, turn), turn=asked.turn)
        return self._writer.put(ForkJob(thread=name, source=begun, finish=self._reading.thread))


def _who(by: str | None) -> str | None:
    return None if by is None else check_name("by", by)


_LINE_ENDS: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def _title(title: str) -> str:
    given: Any = title  # as above
    if not isinstance(given, str) or _LINE_ENDS.search(given):
        raise InvalidInput(field="title", problem="must be one line of text")
    title = title.strip()
    if len(title) > TITLE_GIVEN_CHARS_MAX:
        limit = "TITLE_GIVEN_CHARS_MAX"
        raise TooLarge(field="title", limit=limit, limit_value=TITLE_GIVEN_CHARS_MAX, given=len(title))
    return title
