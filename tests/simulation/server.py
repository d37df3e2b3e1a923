"""A child of a random mix: what `turnlog serve` does, with the scripted agent and a clock that hurries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.http.speaking import Speaker
from tests.simulation.plan import HurriedClock
from tests.simulation.telling import Voice
from tests.web.serving import serve_agents
from turnlog.journal.log import Log, open_log


class Speaking:
    """The agents of the log that is open."""

    def __init__(self) -> None:
        self._voice: Voice | None = None

    @contextmanager
    def opened(self, url: str) -> Iterator[Log]:
        """Open the log."""
        with open_log(url, clock=HurriedClock()) as log:
            self._voice = Voice(log, Path(os.environ["FOLDER"]))
            yield log

    def __call__(self) -> Speaker:
        """A speaker for one turn."""
        assert self._voice is not None
        return self._voice()


if __name__ == "__main__":
    speaking = Speaking()
    serve_agents({"speaker": speaking}, opened=speaking.opened)
