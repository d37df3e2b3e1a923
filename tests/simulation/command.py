"""A child of a random mix: one call of `turnlog`, with the scripted agent and a clock that hurries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tests.crash.http.speaking import Speaker
from tests.simulation.plan import HurriedClock
from tests.simulation.telling import Voice
from turnlog.agents.protocol import AgentFactory
from turnlog.cli import asking
from turnlog.cli.main import main
from turnlog.journal import log as logs
from turnlog.journal.log import Log, open_log


class Opening:
    """Opens logs as commands do, and has the agents of the one that is open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log: Log | None = None

    def open_log(self, url: str) -> Log:
        """See `turnlog.journal.log.open_log`."""
        self._log = open_log(url, clock=HurriedClock())
        return self._log

    def agent_factory(self, name: str) -> AgentFactory:
        """See `turnlog.cli.agents.agent_factory`."""
        return self._speaker

    def _speaker(self) -> Speaker:
        assert self._log is not None
        return Voice(self._log, self._folder)()


def command(run: Callable[[], object]) -> None:
    """Run a command, with what is scripted in the place of what is real."""
    opening = Opening(Path(os.environ["FOLDER"]))
    with patch.object(logs, "open_log", opening.open_log), patch.object(asking, "agent_factory", opening.agent_factory):
        run()


if __name__ == "__main__":
    sys.argv[0] = "turnlog"
    command(main)
