"""Folders for a real Codex: a home that knows only the loopback endpoint, and a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turnlog.testing.responses_endpoint import ResponsesEndpoint

QUIET: Final = """
include_permissions_instructions = false
include_environment_context = false
include_apps_instructions = false
include_collaboration_mode_instructions = false
project_doc_max_bytes = 0
[skills]
include_instructions = false
[skills.bundled]
enabled = false
"""
"""Without the context that Codex adds of its own."""

_CONFIG: Final = """
model = "stub-model"
model_provider = "stub"
approval_policy = "{approval}"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false
{top}
{quiet}
[analytics]
enabled = false
[model_providers.stub]
name = "Loopback"
base_url = "{url}"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = {retries}
stream_idle_timeout_ms = {idle_ms}
supports_websockets = false
[features]
plugins = false
shell_snapshot = false
unbounded_connection_retries = {unbounded}
"""


def write_home(
    folder: Path,
    endpoint: ResponsesEndpoint,
    *,
    context: bool = False,
    approval: str = "never",
    sandbox: str = "workspace-write",
    retries: int = 0,
    idle_ms: int = 20_000,
    unbounded: bool = False,
    top: Mapping[str, Any] | None = None,
) -> Path:
    """A `CODEX_HOME` in `folder` whose model is the endpoint. `top` are further settings."""
    home = folder / "home"
    home.mkdir()
    config = _CONFIG.format(
        url=endpoint.url,
        approval=approval,
        sandbox=sandbox,
        retries=retries,
        idle_ms=idle_ms,
        unbounded=str(unbounded).lower(),
        quiet="" if context else QUIET,
        top="\n".join(f"{name} = {value!r}" for name, value in (top or {}).items()),
    )
    (home / "config.toml").write_text(config)
    return home
