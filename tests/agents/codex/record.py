"""Records what the real Codex says in typical turns: `PYTHONPATH=src python -m tests.agents.codex.record`."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from turnlog.agents.codex.binary import find_binary
from turnlog.agents.codex.jsonrpc import Asked, Told
from turnlog.agents.codex.process import CodexProcess
from turnlog.testing.responses_answers import Answer, broken, call, items, reasoning_text, shell, text
from turnlog.testing.responses_endpoint import ResponsesEndpoint

from .homes import write_home
from .running import program

FOLDER: Final = Path(__file__).with_name("transcripts")
GATE: Final = threading.Event()


def said(role: str, words: str) -> dict[str, Any]:
    part = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": part, "text": words}]}


PATCH: Final = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\nEOF"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One recorded turn."""

    answers: tuple[Answer, ...]
    home: dict[str, Any] = field(default_factory=dict)
    injected: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False


SCENES: Final = {
    "plain": Scene(answers=(text("Hello 你好 world", chunks=4),)),
    "tool": Scene(answers=(shell("echo hi; exit 3", preamble="I look."), text("It says hi."))),
    "patch": Scene(answers=(shell(PATCH), text("Written."))),
    "reasoning": Scene(answers=(reasoning_text("I think of it.", "So it is."),)),
    "unknown_tool": Scene(answers=(call("nothing", {"a": 1}), text("There is none."))),
    "restored": Scene(answers=(text("Again."),), injected=[said("user", "one"), said("assistant", "two")]),
    "cut": Scene(answers=(broken("half an answer", "reset"),)),
    "call_then_cut": Scene(answers=(call("exec_command", {"cmd": "echo run"}, end="reset"),)),
    "retried": Scene(answers=(broken("half an answer", "reset"), text("A whole one.")), home={"retries": 2}),
    "interrupted": Scene(answers=(text("never ends", chunks=3, gate=GATE),), interrupted=True),
    "context": Scene(answers=(text("With context."),), home={"context": True}),
    "compacted": Scene(
        answers=(shell("echo hi", tokens=5_000), text("The summary of it all."), text("After it.")),
        home={"top": {"model_context_window": 4_000, "model_auto_compact_token_limit": 1_000}},
    ),
    "approved": Scene(
        answers=(shell("touch out.txt", sandbox_permissions="require_escalated", justification="need it"), text("ok")),
        home={"approval": "on-request"},
    ),
    "subagent": Scene(
        answers=(
            call("spawn_agent", {"message": "look into it"}, namespace="multi_agent_v1"),
            text("Found."),
            text("Found too."),
            text("Done."),
        )
    ),
    "odd_items": Scene(
        answers=(
            items(
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
                {"type": "of_next_year", "id": "x_1"},
                {**said("assistant", "The answer."), "id": "msg_9", "phase": "final_answer"},
            ),
        )
    ),
}


async def record(name: str, scene: Scene, folder: Path) -> None:
    """Play one scene, and write what Codex said."""
    workspace, transcript, wrapper = folder / "ws", folder / "said", folder / "codex"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("Be kind.\n")
    wrapper.write_text(f'#!/bin/sh\n"{find_binary({})}" "$@" | tee "{transcript}"\n')
    wrapper.chmod(stat.S_IRWXU)
    with ResponsesEndpoint() as endpoint:
        endpoint.script(*scene.answers)
        home = write_home(folder, endpoint, **scene.home)
        process = await CodexProcess.start(program(home, CODEX_BIN=str(wrapper)))
        thread = await ask(process, "thread/start", ephemeral=True, experimentalRawEvents=True, cwd=str(workspace))
        names = {"threadId": thread["thread"]["id"]}
        if scene.injected:
            await ask(process, "thread/inject_items", **names, items=scene.injected)
        words = [{"type": "text", "text": "a question"}]
        turn = await ask(process, "turn/start", **names, input=words, clientUserMessageId="client-1")
        await follow(process, scene, {**names, "turnId": turn["turn"]["id"]})
        await process.close()
    lines = transcript.read_bytes().replace(str(folder).encode(), b"/srv")
    (FOLDER / f"{name}.jsonl").write_bytes(lines)


async def ask(process: CodexProcess, method: str, **params: Any) -> dict[str, Any]:
    reply = await process.connection.request(method, params)
    assert reply.error is None, reply.error
    result: dict[str, Any] = json.loads(bytes(reply.result))
    return result


async def follow(process: CodexProcess, scene: Scene, names: dict[str, str]) -> None:
    deltas = 0
    while message := await process.connection.next():
        if isinstance(message, Asked):
            await process.connection.answer(message.id, {"decision": "accept"})
        elif isinstance(message, Told) and message.method == "item/agentMessage/delta":
            deltas += 1
            if scene.interrupted and deltas == 2:
                await ask(process, "turn/interrupt", **names)
        elif isinstance(message, Told) and message.method == "turn/completed" and ended(message, names["turnId"]):
            return


def ended(told: Told, turn: str) -> bool:
    return bool(json.loads(bytes(told.params))["turn"]["id"] == turn)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCENES:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
            asyncio.run(asyncio.wait_for(record(name, SCENES[name], Path(folder)), 30))


if __name__ == "__main__":
    main()
