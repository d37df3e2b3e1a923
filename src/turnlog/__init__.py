"""turnlog: a flight recorder for AI agents. `turnlog.open(...)` gives the log of a store."""

from turnlog.errors import TurnlogError
from turnlog.journal.log import Log
from turnlog.journal.log import open_log as open  # `turnlog.open`, as in `gzip.open`
from turnlog.journal.receipt import Receipt
from turnlog.journal.turn import Turn

__all__ = ["Log", "Receipt", "Turn", "TurnlogError", "open"]
