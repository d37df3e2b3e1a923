"""Which store a command uses, and opening it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnlog.cli.words import command
from turnlog.errors import StoreMissing

if TYPE_CHECKING:
    from turnlog.engines.protocol import Engine
    from turnlog.journal.log import Log

VARIABLE: Final = "TURNLOG_STORE"
_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True)
class Store:
    """The store of one call. `named` tells that it was given by `--store`, so that advice must repeat it."""

    url: str
    named: bool

    @property
    def path(self) -> Path | None:
        """The database file; None for a store that is not a file."""
        return Path(self.url.removeprefix(_SQLITE)).absolute() if self.url.startswith(_SQLITE) else None

    def command(self, name: str, *ids: str, options: tuple[str, ...] = ()) -> str:
        """A command line for this store, to be shown as advice."""
        return command(name, *ids, options=(*options, f"--store={self.url}") if self.named else options)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Log]:
        """The log, closed at the end. Raises `StoreMissing` unless there is a store or one is to be created."""
        from turnlog.journal.log import open_log

        if not create:
            self.check_there()
        with open_log(self.url) as log:
            yield log

    @contextmanager
    def unsettled(self) -> Iterator[Engine]:
        """The store without a log on it: a log settles the turns of dead processes when it opens."""
        from turnlog.engines.open import open_engine
        from turnlog.events.clock import SystemClock

        self.check_there()
        with closing(open_engine(self.url, SystemClock())) as engine:
            yield engine

    def check_there(self) -> None:
        """Raise `StoreMissing` when there is no such file: reading must not leave an empty store behind."""
        if self.path is not None and not self.path.exists():
            raise StoreMissing(detail=str(self.path))


def choose_store(given: str | None) -> Store:
    """The store named by `--store`, else by the environment, else the one in the user's data folder."""
    if given is not None:
        return Store(given, named=True)
    return Store(os.environ.get(VARIABLE) or f"{_SQLITE}{data_folder() / 'turnlog.db'}", named=False)


def data_folder() -> Path:
    """Where this user's data is kept on this system."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "turnlog"
    base = os.environ.get("XDG_DATA_HOME", "")
    # The specification: a relative path is to be ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share") / "turnlog"
