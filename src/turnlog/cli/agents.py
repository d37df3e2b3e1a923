"""The agents that commands can run, by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # an agent is loaded when it is run, not to print help
    from turnlog.agents.protocol import AgentFactory

AGENTS: Final = ("demo", "codex")


def agent_factory(name: str) -> AgentFactory:
    """Makes agents of this name. Raises `StartFailed` when it cannot be run here at all."""
    if name == "codex":
        from turnlog.agents.codex import Program, codex_agents
        from turnlog.events.clock import SystemClock

        return codex_agents(Program(environment=dict(os.environ), clock=SystemClock()))
    from turnlog.agents.demo import DemoAgent

    return DemoAgent


def codex_words() -> str:
    """Which Codex would be run, or why none would."""
    from turnlog.agents.codex.binary import find_binary, installed_version
    from turnlog.errors import StartFailed

    try:
        binary = find_binary(os.environ)
        return f"{installed_version(binary, os.environ)} ({binary})"
    except StartFailed as error:
        return f"none: {error.detail}"
