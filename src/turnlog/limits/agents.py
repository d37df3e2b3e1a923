"""Bounds of the runner and of agents, each with its reason."""

from __future__ import annotations

from typing import Final

# --- the runner -------------------------------------------------------------------------------------------------

AGENT_IDLE_S: Final = 300.0
"""Seconds without any signal after which an agent is taken for stuck: reasoning models are silent for minutes."""

AGENT_HARD_S: Final = 3_600.0
"""Seconds a turn may last in all: an agent that goes in circles is never silent, so the idle limit misses it."""

AGENT_STOP_S: Final = 5.0
"""Seconds a cancelled agent may clean up before its turn is settled without it."""

# --- Codex ------------------------------------------------------------------------------------------------------

CODEX_LINE_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""Bytes of one line from Codex: a message of 5 MB came as one line of 5 MB; more than ten times that is a defect."""

CODEX_INBOX_BYTES: Final = 8 * 1_024 * 1_024
"""Bytes of messages from Codex that wait for a slow disk before its pipe is left full: Codex then waits, too."""

CODEX_START_S: Final = 20.0
"""Seconds for Codex to start and shake hands: 0.1 s warm; a cold disk has 400 MB of it to read."""

CODEX_REQUEST_S: Final = 60.0
"""Seconds for Codex to answer a request: 50 MB of history took it 2.3 s, and a line it cannot read it never answers."""

CODEX_STOP_S: Final = 2.0
"""Seconds for Codex to end a turn, and again to end itself: 0.1 s when well; both fit into a cancelled agent's time."""

CODEX_PROCESSES_MAX: Final = 16
"""Codex processes alive at once: 110 MB resident each, 20 MB of it their own. More turns than that wait for one."""

CODEX_IDLE_S: Final = 600.0
"""Seconds for which a process without a turn is kept: a person reads an answer and asks on, and the process still has
the thread in memory and the commands that were left running."""

CODEX_STEP_TEXT_BYTES: Final = 16 * 1_024
"""Bytes, as JSON, of a text in a step about Codex's work: what a person reads in a trace, and three of them fit a body.
The raw items beside them hold what the model was told."""

CODEX_OUTPUT_DRAFT_BYTES: Final = 32 * 1_024
"""Bytes of a command's output shown while it runs: more than anybody reads along, and half of what a draft may hold."""
