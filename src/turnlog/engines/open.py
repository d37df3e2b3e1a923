"""Engines by URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from turnlog.engines.memory import MemoryEngine, MemoryStore
from turnlog.engines.protocol import Engine
from turnlog.engines.sqlite.engine import SqliteEngine
from turnlog.errors import InvalidInput
from turnlog.events.clock import Clock

_SQLITE: Final = "sqlite:///"
_MEMORY: Final = "memory://"

_named_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()


def open_engine(url: str, clock: Clock) -> Engine:
    """Open the store that `url` names, creating it if it is not there.

    `sqlite:///chat.db` is a file relative to the working folder, `sqlite:////var/chat.db` an absolute one. `memory://`
    is a new store that ends with its engine, `memory://name` one that the engines of this process share by its name,
    while any of them exists. Raises `InvalidInput` for anything else, and `StoreError` when it cannot be opened.
    """
    _check_text(url)
    if url.startswith(_MEMORY):
        name = url.removeprefix(_MEMORY)
        store = _named_stores.setdefault(name, MemoryStore()) if name else MemoryStore()
        return MemoryEngine(store, clock)
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return SqliteEngine(Path(url.removeprefix(_SQLITE)), clock)
    raise InvalidInput(field="url", problem="must be sqlite:///FILE, memory:// or memory://NAME")


def _check_text(url: object) -> None:
    if not isinstance(url, str):
        raise InvalidInput(field="url", problem=f"must be a text such as sqlite:///FILE, not {type(url).__name__}")
    if "\0" in url or any("\ud800" <= char <= "\udfff" for char in url):
        raise InvalidInput(field="url", problem="must have no NUL and no half of a character")
