"""turnlog: a flight recorder for AI agents. `turnlog.open(...)` gives the log of a store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlog.errors import TurnlogError
    from turnlog.journal.log import Log
    from turnlog.journal.log import open_log as open  # `turnlog.open`, as in `gzip.open`
    from turnlog.journal.receipt import Receipt
    from turnlog.journal.turn import Turn

__all__ = ["Log", "Receipt", "Turn", "TurnlogError", "open"]

_PLACES = {
    "Log": ("turnlog.journal.log", "Log"),
    "Receipt": ("turnlog.journal.receipt", "Receipt"),
    "Turn": ("turnlog.journal.turn", "Turn"),
    "TurnlogError": ("turnlog.errors", "TurnlogError"),
    "open": ("turnlog.journal.log", "open_log"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a command that only prints its help needs no engine and no event loop."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return globals().setdefault(name, getattr(import_module(module), attribute))
