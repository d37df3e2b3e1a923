"""The real Codex as an agent: `codex app-server` over a pipe, with every raw item kept."""

from turnlog.agents.codex.agent import CodexAgent, codex_agents
from turnlog.agents.codex.process import Program

__all__ = ["CodexAgent", "Program", "codex_agents"]
