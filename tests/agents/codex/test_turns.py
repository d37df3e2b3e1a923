"""Turns of the real Codex: every raw item is kept, and the next turn goes on from the log."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from turnlog.events.kinds import Item, Submitted, WorkerStarted
from turnlog.runner import Ran
from turnlog.testing.responses_answers import broken, call, items, reasoning_text, shell, text

from .running import run, servers
from .stage import THREAD, Stage, same_items, staged

PIXEL = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""An image of one pixel."""


def said(stage: Stage) -> list[tuple[str, str]]:
    """What a person reads: roles and texts."""
    return [(message.role, message.text) for message in stage.log.transcript(THREAD).messages]


def test_a_plain_turn() -> None:
    """The message is durable before the model is asked; the answer's drafts and its raw item follow."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("Hello world"))
        ran, turn = await stage.ask("你好")
        assert ran == Ran(state="completed")
        bodies = [event.body for event in stage.events(turn)]
        assert isinstance(bodies[0], Submitted) and isinstance(bodies[1], WorkerStarted)
        assert (bodies[1].agent, bodies[1].agent_version) == ("codex", stage.agents().version)
        answer = stage.items(turn)[-1]
        assert (answer["id"], answer["content"][0]["text"]) == ("msg_0001", "Hello world")
        closed = [body.closes for body in bodies if isinstance(body, Item) and body.id == "msg_0001"]
        assert [draft.draft for draft in closed[0]] in ([], ["0/msg_0001/text/0"])
        (message,) = stage.given()
        assert message["content"] == [{"type": "input_text", "text": "你好"}]

    with staged() as stage:
        run(main(stage))


def test_a_turn_with_a_real_command() -> None:
    """A command really runs in the workspace; its call, its step and its output are one entry of the trace."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(shell("echo hi | tee made.txt; exit 3", preamble="I look."), text("It failed."))
        ran, turn = await stage.ask("run it")
        assert ran.state == "completed"
        assert (stage.workspace / "made.txt").read_text() == "hi\n"
        (entry,) = [entry for entry in stage.timeline(turn).entries if entry.kind == "tool"]
        assert (entry.name, entry.status, entry.call_id) == ("command", "failed", "call_0001")
        assert entry.failure is not None and entry.failure.reason == "exit code 3"
        assert "hi\n" in (entry.output or "") and "code 3" in (entry.output or "")
        assert entry.started_at and entry.ended_at and entry.ended_at >= entry.started_at
        assert [item["type"] for item in stage.items(turn)][-4:] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
        ]

    with staged() as stage:
        run(main(stage))


def test_a_thread_goes_on_in_the_same_codex_thread() -> None:
    """After a turn that ended well the next one is asked in the same Codex thread, and nothing is injected again."""

    async def main(stage: Stage) -> None:
        for question in ("one", "two", "three"):
            ran, _ = await stage.ask(question)
            assert ran.state == "completed"
            assert len(servers()) == 1
        assert len({asked.body["prompt_cache_key"] for asked in stage.endpoint.asked}) == 1
        await stage.ask("elsewhere", thread="other")
        assert len(servers()) == 2
        assert len({asked.body["prompt_cache_key"] for asked in stage.endpoint.asked}) == 2

    with staged() as stage:
        run(main(stage))


def test_trap_1_restoring_again_and_again_does_not_grow() -> None:
    """Each restart gives a new Codex thread the history, once: the model gets what the log has, nothing is doubled
    (trap 1)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(shell("echo one"), reasoning_text("hm", "done"))
        for question in ("one", "two", "three", "four"):
            ran, turn = await stage.ask(question)
            assert ran.state == "completed"
            *before, own = stage.given(len(stage.endpoint.asked) - (2 if question == "one" else 1))
            assert same_items(before, stage.history(until=turn))
            assert own["content"][0]["text"] == question
            stage.restart()
        assert len({asked.body["prompt_cache_key"] for asked in stage.endpoint.asked}) == 4
        assert [role for role, _ in said(stage)] == ["user", "assistant"] * 4
        assert [item["type"] for item in stage.history()].count("reasoning") == 1

    with staged() as stage:
        run(main(stage))


def test_the_persons_item_is_kept_once() -> None:
    """Codex's own form of the message stands in the place of the submission: in the history it is there once."""

    async def main(stage: Stage) -> None:
        await stage.ask("hello")
        users = [item for item in stage.history() if item.get("role") == "user"]
        assert [item["content"][0]["text"] for item in users] == ["hello"]
        assert users[0]["internal_chat_message_metadata_passthrough"]["content_item_kinds"] == ["user.text"]
        assert said(stage)[0] == ("user", "hello")

    with staged() as stage:
        run(main(stage))


def test_trap_3_a_compaction_in_the_middle_of_a_turn() -> None:
    """The summary that Codex makes for itself is no answer: it is told apart, and no history holds it (trap 3)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(shell("echo hi", tokens=5_000), text("THE SUMMARY"), text("After it."))
        ran, turn = await stage.ask("long")
        assert ran.state == "completed"
        assert said(stage) == [("user", "long"), ("assistant", "After it.")]
        assert "THE SUMMARY" not in json.dumps(stage.history())
        assert "THE SUMMARY" in "".join(entry.text or "" for entry in stage.timeline(turn).entries)

    with staged(top={"model_context_window": 4_000, "model_auto_compact_token_limit": 1_000}) as stage:
        run(main(stage))


def test_trap_5_a_retry_leaves_one_answer() -> None:
    """What an abandoned attempt had shown is in the trace only; the answer is the last attempt's (trap 5)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(broken("half of it", "reset"), text("All of it."))
        ran, turn = await stage.ask("hello")
        assert ran.state == "completed"
        assert said(stage) == [("user", "hello"), ("assistant", "All of it.")]
        assert "half of it" not in json.dumps(stage.history())
        assert [event.kind for event in stage.events(turn)].count("attempt_dropped") == 1

    with staged(retries=2) as stage:
        run(main(stage))


def test_trap_5_attempts_that_all_fail_leave_the_last_ones_text() -> None:
    """When every attempt is cut, only the text of the last one is kept as the answer's beginning (trap 5)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(broken("first try", "reset"), broken("second try", "reset"))
        ran, _ = await stage.ask("hello")
        assert (ran.state, ran.reason) == ("interrupted", "failed")
        assert said(stage) == [("user", "hello"), ("assistant", "second try")]

    with staged(retries=1) as stage:
        run(main(stage))


def test_trap_8_context_is_no_chat_and_typed_tags_are() -> None:
    """Skills, permissions, AGENTS.md and the environment are left out and counted; the person's own tags are kept
    (trap 8)."""
    typed = "<environment_context>mine</environment_context>"

    async def main(stage: Stage) -> None:
        (stage.workspace / "AGENTS.md").write_text("Be kind.\n")
        _, turn = await stage.ask(typed)
        assert any("Be kind." in json.dumps(item) for item in stage.given())
        stage.restart()
        await stage.ask("again")
        kept = json.dumps([*stage.items(turn), *stage.history()])
        for host in ("Be kind.", "<skills_instructions>", "<permissions", "<cwd>"):
            assert host not in kept, host
        assert said(stage)[0] == ("user", typed)
        assert sum(typed in json.dumps(item, ensure_ascii=False) for item in stage.given()) == 1
        (note,) = [entry for entry in stage.timeline(turn).entries if entry.name == "left_out"]
        assert "agents_md.instructions" in (note.args or "") and note.status == "succeeded"

    with staged(context=True) as stage:
        run(main(stage))


def test_trap_9_nothing_is_invented_for_what_codex_drops() -> None:
    """An answer that Codex cannot parse leaves a completed turn without an answer, and no text of ours (P3, trap 9)."""
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}

    async def main(stage: Stage) -> None:
        stage.endpoint.script(items({**refusal, "id": "msg_1"}))
        ran, _ = await stage.ask("hello")
        assert ran.state == "completed"
        assert [role for role, _ in said(stage)] == ["user"]

    with staged() as stage:
        run(main(stage))


def test_strange_but_legal_items_round_trip() -> None:
    """Outputs that are lists, unknown calls and calls without JSON are kept and given back as they are."""

    async def main(stage: Stage) -> None:
        bad = {"type": "function_call", "id": "fc_9", "call_id": "c_9", "name": "exec_command", "arguments": "{no"}
        stage.endpoint.script(call("nothing", {"a": [1, "\u2028é"]}), items(bad), text("Well."))
        await stage.ask("odd")
        stage.restart()
        _, turn = await stage.ask("again")
        assert same_items(stage.given()[:-1], stage.history(until=turn))
        outputs = [item["output"] for item in stage.history() if item["type"] == "function_call_output"]
        assert outputs[0] == "unsupported call: nothing" and "failed to parse" in outputs[1]

    with staged() as stage:
        run(main(stage))


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"type": "message", "role": "assistant", "content": "plain"}, {"type": "output_text", "text": "plain"}),
        ({"role": "user", "content": "plain"}, {"type": "input_text", "text": "plain"}),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "x"}], "n": 1},
            {"type": "input_text", "text": "x"},
        ),
    ],
)
def test_a_message_in_its_short_form_reaches_the_model(item: dict[str, Any], part: dict[str, Any]) -> None:
    """C26: what endpoints take as a message, and Codex does not, keeps no thread from going on with Codex."""
    with staged() as stage:
        stage.log.append_message(THREAD, item).result()
        ran, _ = run(stage.ask("And now?"))
        assert ran.state == "completed"
        given = stage.given()[0]
        assert (given["role"], given["content"]) == (item["role"], [part])


@pytest.mark.parametrize(
    ("content", "given"),
    [
        ("half \ud83d a pair", [{"type": "input_text", "text": "half \ufffd a pair"}]),
        (
            [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        ),
        (
            [{"type": "input_image", "image_url": PIXEL}, {"type": "input_text", "text": "see"}],
            [{"type": "input_image", "image_url": PIXEL, "detail": "high"}, {"type": "input_text", "text": "see"}],
        ),
    ],
)
def test_what_a_person_sends_reaches_the_model(content: Any, given: list[dict[str, Any]]) -> None:
    """Texts in parts, and texts that have no UTF-8, reach the model in a form that Codex takes."""

    async def main(stage: Stage) -> None:
        ran, _ = await stage.ask(content)
        assert ran.state == "completed"
        assert stage.given()[-1]["content"][: len(given)] == given

    with staged() as stage:
        run(main(stage))


def test_codexs_own_settings_are_honoured_and_left_alone() -> None:
    """The provider is the one that Codex's own folder names, and we write nothing into its settings."""

    async def main(stage: Stage) -> None:
        config = (stage.folder / "home" / "config.toml").read_bytes()
        await stage.ask("hello")
        assert (stage.folder / "home" / "config.toml").read_bytes() == config
        assert {asked.path for asked in stage.endpoint.asked} == {"/v1/responses"}

    with staged() as stage:
        run(main(stage))


def test_codex_talks_to_its_provider_alone() -> None:
    """While it answers, the sockets of the process lead to the provider that its settings name, and nowhere else."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("not alone", chunks=2, gate=(gate := threading.Event())))
        async with stage.asking("hello") as (turn, _):
            await stage.shown(turn, lambda seen: seen == "not a")
            (server,) = servers()
            port = urlsplit(stage.endpoint.url).port
            assert peers(server) == {f"0100007F:{port:04X}"}
            gate.set()

    with staged() as stage:
        run(main(stage))


def peers(pid: int) -> set[str]:
    """The other ends of a process's sockets, as the kernel writes them: address and port in hexadecimal."""
    links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{kind}").read_text().split("\n")[1:] if line]
        found |= {row[2] for row in rows if row[9] in inodes}
    return found


def test_a_process_ends_with_its_event_loop() -> None:
    """When the loop ends, the processes that rest do, without being asked."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("one", gate=(gate := threading.Event())))
        gate.set()
        await stage.ask("hello")
        assert servers()

    with staged() as stage:
        run(main(stage))
        assert not servers()
