"""Every end that is not the agent's own: what was shown stays, the turn says why, and the next one goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any

import pytest

from turnlog.agents.protocol import ItemSignal
from turnlog.journal.turn import Turn
from turnlog.runner import run_turn
from turnlog.testing.responses_answers import (
    Answer,
    broken,
    call,
    failed,
    half_call,
    hang,
    http,
    incomplete,
    shell,
    text,
)
from turnlog.testing.scripted_agent import ScriptedAgent

from .running import processes_of, run, servers, until
from .stage import THREAD, Stage, same_items, staged

CUT = "stream disconnected before completion"
DONE = {"type": "message", "id": "msg_d", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def shown(stage: Stage) -> list[tuple[str, str, str | None]]:
    """What a person reads: role, text, and whether it was made of a draft."""
    messages = stage.log.transcript(THREAD).messages
    return [(message.role, message.text, message.synthesized) for message in messages]


async def goes_on(stage: Stage) -> None:
    """The next turn works, in a new Codex thread that was given all of the history: every earlier turn, once."""
    keys = {asked.body["prompt_cache_key"] for asked in stage.endpoint.asked}
    stage.endpoint.forget_script()
    ran, turn = await stage.ask("go on")
    assert ran.state == "completed", ran
    asked = stage.endpoint.asked[-1]
    assert asked.body["prompt_cache_key"] not in keys
    *given, own = stage.given()
    assert same_items(given, stage.history(until=turn))
    assert own["content"][0]["text"] == "go on"


# --- the model's side ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem", "kept"),
    [
        (broken("half", "reset"), CUT, [("half", "interrupted")]),
        (broken("half", "end"), "stream closed before response.completed", [("half", "interrupted")]),
        (broken("half", "hang"), "idle timeout waiting for SSE", [("half", "interrupted")]),
        (hang(headers=True), "idle timeout waiting for SSE", []),
        (broken("half", "reset", finished=[DONE]), CUT, [("done", None), ("half", "interrupted")]),
        (failed("server_error", "the provider's words"), "the provider's words", []),
        (failed("x", "words", finished=[DONE]), "words", [("done", None)]),
        (failed("context_length_exceeded", "too long"), "contextWindowExceeded", []),
        (incomplete("cut short"), "max_output_tokens", [("cut short", None)]),
        (http(400, "bad request's words"), "bad request's words", []),
        (http(401), "401", []),
        (http(429), "429", []),
        (http(500), "internalServerError", []),
        (http(503), "503", []),
    ],
)
def test_a_model_that_fails_ends_the_turn(answer: Answer, problem: str, kept: list[tuple[str, str | None]]) -> None:
    """The turn is interrupted with Codex's own words, what was shown is kept as such, and the next turn has it."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(answer)
        ran, _ = await stage.ask("hello")
        assert (ran.state, ran.reason) == ("interrupted", "failed")
        assert problem in (ran.detail or "")
        assert shown(stage) == [("user", "hello", None), *(("assistant", *one) for one in kept)]
        await goes_on(stage)

    with staged(idle_ms=300) as stage:
        run(main(stage))


def test_c28_half_a_call_is_no_call() -> None:
    """Arguments that were cut leave no item, and nothing has run (C28)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(half_call("exec_command", '{"cmd": "touch ma'))
        ran, turn = await stage.ask("hello")
        assert ran.reason == "failed"
        assert [item["type"] for item in stage.items(turn)] == ["message"]
        assert list(stage.workspace.iterdir()) == []
        await goes_on(stage)

    with staged() as stage:
        run(main(stage))


def test_c42_a_call_that_ran_before_the_cut_is_kept_with_its_output() -> None:
    """A finished call runs although its stream is cut right after it: both are in the log, and run once (C42)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(call("exec_command", {"cmd": "echo ran >> ledger"}, end="reset"))
        ran, turn = await stage.ask("hello")
        assert ran.reason == "failed"
        assert [item["type"] for item in stage.items(turn)][1:] == ["function_call", "function_call_output"]
        await goes_on(stage)
        assert (stage.workspace / "ledger").read_text() == "ran\n"

    with staged() as stage:
        run(main(stage))


def test_an_unreachable_model_ends_the_turn() -> None:
    """When nobody listens and Codex does not retry for ever, the turn fails at once."""

    async def main(stage: Stage) -> None:
        config = stage.folder / "home" / "config.toml"
        config.write_text(config.read_text().replace(stage.endpoint.url, "http://127.0.0.1:9/v1"))
        ran, _ = await stage.ask("hello")
        assert ran.reason == "failed"
        assert "Connection failed" in (ran.detail or "")

    with staged() as stage:
        run(main(stage))


# --- limits ----------------------------------------------------------------------------------------------------


def test_trap_6_a_model_that_never_answers_meets_the_idle_limit() -> None:
    """Codex itself would wait for ever for the headers of an answer: our idle limit ends the turn, and says so
    (trap 6)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(hang(headers=False))
        ran, _ = await stage.ask("hello", idle_s=0.5)
        assert (ran.reason, ran.detail) == ("timed_out", "the agent was silent for the idle limit of 0.5 s")
        await goes_on(stage)

    with staged() as stage:
        run(main(stage))


def test_trap_6_endless_reconnecting_meets_the_idle_limit() -> None:
    """A Codex that tries to connect for ever says so again and again; that is silence, and ends at the idle limit
    (trap 6)."""

    async def main(stage: Stage) -> None:
        config = stage.folder / "home" / "config.toml"
        config.write_text(config.read_text().replace(stage.endpoint.url, "http://127.0.0.1:9/v1"))
        ran, _ = await stage.ask("hello", idle_s=2, hard_s=20)
        assert ran.reason == "timed_out" and "idle limit" in (ran.detail or "")

    with staged(unbounded=True) as stage:
        run(main(stage))


def test_the_hard_limit_ends_a_turn_that_is_never_silent() -> None:
    """A turn that takes too long is ended by its hard limit, with what it has shown."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("a b c", chunks=5, gate=threading.Event()))
        ran, _ = await stage.ask("hello", hard_s=1.5)
        assert ran.reason == "timed_out" and "hard limit" in (ran.detail or "")
        assert shown(stage)[1:] == [("assistant", "a b ", "interrupted")]
        await goes_on(stage)

    with staged() as stage:
        run(main(stage))


# --- somebody stops it -----------------------------------------------------------------------------------------


def test_trap_4_and_7_a_stopped_answer_stays_and_the_next_turn_knows_it() -> None:
    """Stopped in mid-answer: the text stays as the answer's beginning, Codex's own mark of the abort is no item, and
    the next turn's model is given the text, which Codex itself has forgotten (traps 4 and 7)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("never ends", chunks=2, gate=threading.Event()))
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: seen == "never")
            await stage.log.request(THREAD, turn.id, by="a test")
            ran = await running
        assert (ran.reason, ran.detail) == ("cancelled", "interrupted by a test")
        assert shown(stage) == [("user", "hello", None), ("assistant", "never", "interrupted")]
        assert "turn_aborted" not in json.dumps(stage.items(turn))
        await goes_on(stage)
        assert "never" in json.dumps(stage.given())

    with staged() as stage:
        run(main(stage))


async def stopped_at_once(stage: Stage, question: str, *, asked: bool) -> None:
    """A turn that is stopped as it begins, or once the model was asked; that never answers."""
    stage.endpoint.script(hang(headers=False))
    before = len(stage.endpoint.asked)
    async with stage.asking(question) as (turn, running):
        await stage.shown(turn, lambda seen: '"agent_version"' in seen)
        if asked:
            await until(lambda: len(stage.endpoint.asked) > before)
        await stage.log.request(THREAD, turn.id)
        assert (await running).reason == "cancelled"
    stage.endpoint.forget_script()


def test_trap_2_a_turn_that_is_stopped_at_once_has_its_message_once() -> None:
    """Stopped as early as can be, again and again, before or after Codex has given the message back: each message is in
    the history once, and the next turn is given them all (trap 2)."""

    async def main(stage: Stage) -> None:
        for number in range(6):
            await stopped_at_once(stage, f"question {number}", asked=number % 2 == 1)
        await goes_on(stage)
        asked = [item["content"][0]["text"] for item in stage.history() if item.get("role") == "user"]
        assert asked == [*(f"question {number}" for number in range(6)), "go on"]

    with staged() as stage:
        run(main(stage))


def test_a_stopped_command_is_ended_and_tells_what_it_did() -> None:
    """Stopped while a command runs: its aborted output is kept, and no process of it is left before the next turn."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(shell("echo begun > begun; echo out; exec sleep 1000", yield_time_ms=60_000))
        async with stage.asking("hello") as (turn, running):
            await until((stage.workspace / "begun").exists)
            await stage.shown(turn, lambda seen: "sleep 1000" in seen and '"running"' in seen)
            await stage.log.request(THREAD, turn.id)
            ran = await running
        assert ran.reason == "cancelled"
        output = stage.items(turn)[-1]
        assert output["type"] == "function_call_output" and "aborted by user" in output["output"]
        assert not stage.events(turn)[-1].body.unknown_calls  # type: ignore[union-attr]
        await goes_on(stage)
        assert not sleeping(stage)

    with staged(sandbox="danger-full-access") as stage:
        run(main(stage))


def sleeping(stage: Stage) -> list[int]:
    """The `sleep` commands of this stage's Codex that are alive."""
    return [pid for pid, line in processes_of(stage.folder / "home").items() if line.startswith("sleep ")]


def test_no_command_outlives_a_killed_codex() -> None:
    """When Codex itself is killed in the middle of a command, the command is ended, though it has a session of its own
    and heeds no hang-up. (In a sandbox there is nothing to do: that ends its commands with Codex.)"""

    async def main(stage: Stage) -> None:
        deaf = "setsid sh -c \"trap '' HUP TERM; echo begun > begun; sleep 1000\" >/dev/null 2>&1 </dev/null & wait"
        stage.endpoint.script(shell(deaf, yield_time_ms=60_000))
        async with stage.asking("hello") as (_, running):
            await until((stage.workspace / "begun").exists)
            await until(lambda: bool(sleeping(stage)))
            (server,) = servers()
            os.kill(server, signal.SIGKILL)
            ran = await running
        assert (ran.state, ran.reason) == ("interrupted", "transport_closed")
        assert "SIGKILL" in (ran.detail or "")
        await goes_on(stage)
        await until(lambda: not sleeping(stage))

    with staged(sandbox="danger-full-access") as stage:
        try:
            run(main(stage))
        finally:
            for pid in sleeping(stage):
                os.kill(pid, signal.SIGKILL)


async def killed_in_a_command(stage: Stage) -> Turn:
    """A turn whose Codex is killed while its command runs."""
    os.mkfifo(stage.workspace / "fifo")
    stage.endpoint.script(shell("echo ran >> ledger; cat fifo", yield_time_ms=60_000))
    async with stage.asking("hello") as (turn, running):
        await stage.shown(turn, lambda seen: '"running"' in seen)
        await until((stage.workspace / "ledger").exists)
        (server,) = servers()
        os.kill(server, signal.SIGKILL)
        ran = await running
    assert (ran.state, ran.reason) == ("interrupted", "transport_closed")
    return turn


def test_c26_a_call_without_its_output_leaves_a_valid_history() -> None:
    """Codex killed between a call and its output: the next turn's model is given the history, whose call has one
    neutral output right behind it; no stored item is that output (C26)."""

    async def main(stage: Stage) -> None:
        turn = await killed_in_a_command(stage)
        assert stage.items(turn)[-1]["type"] == "function_call"
        await goes_on(stage)
        *_, call, output, own = stage.given()
        assert (call["type"], output["type"], own["role"]) == ("function_call", "function_call_output", "user")
        assert output["call_id"] == call["call_id"] and "outcome unknown" in output["output"]
        history, raw = stage.log.history(THREAD), stage.log.history(THREAD, "raw")
        (added,) = history.added
        assert history.items[: added.at] + history.items[added.at + 1 :] == raw.items

    with staged() as stage:
        run(main(stage))


def test_c27_an_output_without_its_call_is_left_out_of_the_history() -> None:
    """An output whose call was lost is in the log as it was; the next turn's model is given the history without it, and
    the history says so (C27)."""
    lost = {"type": "function_call_output", "call_id": "call_lost", "output": "of what?"}

    async def main(stage: Stage) -> None:
        turn = await stage.log.submit(THREAD, "hello")
        await run_turn(turn, lambda: ScriptedAgent(ItemSignal(raw=lost), ItemSignal(raw=DONE)), log=stage.log)
        assert lost in stage.items(turn)
        _, next_turn = await stage.ask("one")
        assert same_items(stage.given()[:-1], stage.history(until=next_turn))
        stage.restart()
        await goes_on(stage)
        assert "call_lost" not in json.dumps([asked.input for asked in stage.endpoint.asked])
        (omitted,) = stage.log.history(THREAD).omitted
        assert "call" in omitted.why and lost == json.loads(stage.log.item(THREAD, omitted.seq))

    with staged() as stage:
        run(main(stage))


def test_c42_a_command_whose_end_nobody_saw_is_run_by_nobody_again() -> None:
    """Codex killed in the middle of a command: the turn names the call as unknown, the next turn's Codex is told so,
    and the command has run once (C42)."""

    async def main(stage: Stage) -> None:
        turn = await killed_in_a_command(stage)
        assert stage.events(turn)[-1].body.unknown_calls == ["call_0001"]  # type: ignore[union-attr]
        await goes_on(stage)
        assert "outcome unknown" in json.dumps(stage.given())
        assert (stage.workspace / "ledger").read_text() == "ran\n"

    with staged() as stage:
        run(main(stage))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_codex_that_ends_in_mid_answer_ends_the_turn(number: signal.Signals) -> None:
    """The end of the pipe is the end of the turn, whatever the exit code: what was shown stays for the next turn."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("half of it", chunks=2, gate=threading.Event()))
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: seen == "half ")
            (server,) = servers()
            os.kill(server, number)
            ran = await running
        assert (ran.state, ran.reason) == ("interrupted", "transport_closed")
        assert shown(stage)[1:] == [("assistant", "half ", "interrupted")]
        await goes_on(stage)

    with staged() as stage:
        run(main(stage))


def test_a_resting_codex_that_dies_is_replaced() -> None:
    """When a process dies between two turns, the next turn starts another one and gives it the history."""

    async def main(stage: Stage) -> None:
        await stage.ask("hello")
        (server,) = servers()
        os.kill(server, signal.SIGKILL)
        await until(lambda: not servers())
        await goes_on(stage)

    with staged() as stage:
        run(main(stage))


def test_an_answer_larger_than_the_log_takes_ends_the_turn_by_name() -> None:
    """An answer far above the limit, which comes as one line, is refused by the limit's name and not cut (P4)."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(text("x" * 500_000, chunks=20))
        ran, _ = await stage.ask("hello")
        assert ran.reason == "too_large" and "_BYTES_MAX" in (ran.detail or "")
        (*_, (_, kept, how)) = shown(stage)
        assert how == "interrupted" and set(kept) == {"x"} and len(kept) < 500_000

    with staged() as stage:
        run(main(stage))


def test_what_comes_after_the_turn_is_kept_as_late() -> None:
    """A command that outlives its turn tells its end after it: the log keeps that as late, and shows it so (P5)."""

    async def main(stage: Stage) -> None:
        go_on: Any = stage.workspace / "go-on"
        os.mkfifo(go_on)
        stage.endpoint.script(shell("cat go-on; exit 7", yield_time_ms=1), text("It still runs."))
        ran, turn = await stage.ask("hello")
        assert ran.state == "completed"
        go_on.write_text("so\n")
        await until(lambda: any(event.kind == "thread_late" for event in stage.log.events(THREAD)))
        late = [entry for entry in stage.timeline(turn).entries if entry.mark == "late"]
        assert any("exit code 7" in (entry.failure.reason if entry.failure else "") for entry in late)

    with staged() as stage:
        run(main(stage))
