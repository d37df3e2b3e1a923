"""The demo agent: offline, without a key, it answers questions about a folder by really looking into it."""

from turnlog.agents.demo.agent import DemoAgent
from turnlog.agents.demo.work import Pace

__all__ = ["DemoAgent", "Pace"]
