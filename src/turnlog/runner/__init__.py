"""One agent, one turn."""

from turnlog.runner.runner import Ran, run_turn

__all__ = ["Ran", "run_turn"]
