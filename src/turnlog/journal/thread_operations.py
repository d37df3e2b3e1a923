"""The methods of a `Log` that write to a thread as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnlog.events.ids import check_thread_id
from turnlog.events.kinds import ThreadItem
from turnlog.journal.jobs import ThreadItemJob
from turnlog.journal.parts import LogParts
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import item_fields


class ThreadOperations(LogParts):
    """See `Log`."""

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
