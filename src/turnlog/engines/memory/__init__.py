"""The memory engine."""

from turnlog.engines.memory.engine import MemoryEngine
from turnlog.engines.memory.store import MemoryStore

__all__ = ["MemoryEngine", "MemoryStore"]
