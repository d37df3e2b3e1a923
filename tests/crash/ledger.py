"""The ledger: a file that stands for the world, where what was done cannot be taken back."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Final

from ..proof.scripts import Effect, Script
from ..proof.stored import Stored

LEDGER: Final = "ledger"


def note(folder: Path, script: Script, done: Effect) -> None:
    """Do it: one line more."""
    line = f"{json.dumps([script.thread, script.turn, done.call])}\n".encode()
    ledger = os.open(folder / LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(ledger, line)
    os.close(ledger)


def wrong_ledger(folder: Path, stored: Stored) -> list[str]:
    """C42: what was done was meant before, is done once, and is known or called unknown, never done again."""
    if not (folder / LEDGER).exists():
        return []
    found = []
    for line, count in Counter((folder / LEDGER).read_text().split("\n")[:-1]).items():
        thread, turn, call = json.loads(line)
        *items, end = [event for event in stored.threads[thread].of(turn) if event.kind in ("item", "interrupted")]
        known = [(item.fields["type"], item.fields.get("call_id")) for item in [*items, end] if item.kind == "item"]
        if count != 1:
            found.append(f"{line} was done {count} times")
        if ("function_call", call) not in known:
            found.append(f"{line} was done, and the log did not know of it before")
        unknown = end.kind == "interrupted" and ("function_call_output", call) not in known
        if unknown and call not in end.fields.get("unknown_calls", ()):
            found.append(f"{line} was done, and its outcome is not called unknown")
    return found
