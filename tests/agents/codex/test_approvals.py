"""What Codex asks a person: shown as a step that waits, decided once, by anybody, and closed honestly."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import msgspec
import pytest

from turnlog.agents.codex.approvals import Approval, approval_of
from turnlog.agents.codex.jsonrpc import Asked
from turnlog.errors import AlreadyDecided
from turnlog.folds.entries import Entry
from turnlog.journal.turn import Turn
from turnlog.runner import Ran
from turnlog.testing.responses_answers import shell, text

from .running import run, servers
from .stage import THREAD, Stage, staged

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
QUESTIONS = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"


def asked(method: str, **params: Any) -> Asked:
    return Asked(7, method, msgspec.Raw(json.dumps({"itemId": "call_1", **params}).encode()))


def approval(method: str, **params: Any) -> Approval:
    made = approval_of(asked(method, **params), 1)
    assert made is not None
    return made


# --- pure ------------------------------------------------------------------------------------------------------


def test_a_request_is_a_step_that_waits() -> None:
    """The step names the command, its folder, the reason and what may be decided, below the call it is about."""
    offered = ["accept", {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}}, "cancel"]
    step = approval(COMMAND, command="ls", cwd="/srv", reason="need it", availableDecisions=offered).waiting()
    assert (step.id, step.parent, step.step, step.status) == ("approval-1", "call_1", "approval", "waiting")
    assert step.title == "May this command run? ls"
    assert step.args == {"command": "ls", "cwd": "/srv", "reason": "need it", "decisions": [*offered, "decline"]}


AMENDED = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}}
OTHER_RULE = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["rm"]}}


@pytest.mark.parametrize(
    ("method", "params", "value", "answer"),
    [
        (COMMAND, {}, "accept", {"decision": "accept"}),
        (COMMAND, {}, True, {"decision": "accept"}),
        (COMMAND, {}, "approve", {"decision": "accept"}),
        (COMMAND, {}, "acceptForSession", {"decision": "acceptForSession"}),
        (COMMAND, {}, "decline", {"decision": "decline"}),
        (COMMAND, {}, False, {"decision": "decline"}),
        (COMMAND, {}, "cancel", {"decision": "cancel"}),
        (COMMAND, {"availableDecisions": [AMENDED, "cancel"]}, AMENDED, {"decision": AMENDED}),
        (COMMAND, {"availableDecisions": [AMENDED, "cancel"]}, OTHER_RULE, {"decision": "decline"}),
        (COMMAND, {"availableDecisions": [AMENDED]}, "acceptWithExecpolicyAmendment", {"decision": "decline"}),
        (COMMAND, {"availableDecisions": [AMENDED]}, {**AMENDED, "accept": {}}, {"decision": "decline"}),
        (COMMAND, {}, {"accept": {"of": "next year"}}, {"decision": "decline"}),
        (FILES, {"availableDecisions": [AMENDED]}, AMENDED, {"decision": "decline"}),
        (COMMAND, {"availableDecisions": ["accept", "cancel"]}, "acceptForSession", {"decision": "decline"}),
        (COMMAND, {}, AMENDED, {"decision": "decline"}),
        (COMMAND, {"availableDecisions": [7, None, ["x"]]}, "accept", {"decision": "accept"}),
        (COMMAND, {}, "perhaps", {"decision": "decline"}),
        (COMMAND, {}, None, {"decision": "decline"}),
        (COMMAND, {}, ["accept"], {"decision": "decline"}),
        (FILES, {}, "accept", {"decision": "accept"}),
        (FILES, {}, "decline", {"decision": "decline"}),
        (
            PERMISSIONS,
            {"permissions": {"network": {"enabled": True}, "fileSystem": None}},
            "accept",
            {"permissions": {"network": {"enabled": True}}, "scope": "turn"},
        ),
        (PERMISSIONS, {"permissions": {"network": {}}}, "decline", {"permissions": {}, "scope": "turn"}),
        (PERMISSIONS, {"permissions": 7}, "accept", {"permissions": {}, "scope": "turn"}),
        (
            QUESTIONS,
            {},
            {"q1": "yes", "q2": ["a", 2]},
            {"answers": {"q1": {"answers": ["yes"]}, "q2": {"answers": ["a", "2"]}}},
        ),
        (QUESTIONS, {}, "decline", {"answers": {}}),
        (ELICITATION, {}, "accept", {"action": "accept", "content": None, "_meta": None}),
        (
            ELICITATION,
            {},
            {"accept": {"content": {"name": "x"}}},
            {"action": "accept", "content": {"name": "x"}, "_meta": None},
        ),
        (ELICITATION, {}, {"accept": 7}, {"action": "decline", "content": None, "_meta": None}),
        (QUESTIONS, {}, {"\ud800": "half \udc00"}, {"answers": {"\ufffd": {"answers": ["half \ufffd"]}}}),
        (COMMAND, {}, {"q": "\ud800"}, {"decision": "decline"}),
        (ELICITATION, {}, False, {"action": "decline", "content": None, "_meta": None}),
    ],
)
def test_a_decision_becomes_codexs_answer(method: str, params: dict[str, Any], value: Any, answer: Any) -> None:
    """Each kind of request is answered in its own shape; what is not understood, or not offered, is a refusal."""
    given, step = approval(method, **params).decided(value)
    assert given == answer
    assert (step.id, step.status) == ("approval-1", "succeeded")


def test_a_decision_that_is_not_understood_says_so() -> None:
    """The step tells that the decision counted as a refusal."""
    assert "not understood" in (approval(COMMAND).decided("perhaps")[1].detail or "")
    assert approval(COMMAND).decided("accept")[1].detail is None
    offered = [AMENDED]
    assert "not understood" in (approval(COMMAND, availableDecisions=offered).decided(OTHER_RULE)[1].detail or "")
    assert approval(COMMAND, availableDecisions=offered).decided(AMENDED)[1].detail is None


@pytest.mark.parametrize(
    "other",
    [
        asked("item/tool/call", tool="x"),
        asked("of/next/year"),
        asked(QUESTIONS, questions=[{"id": "q", "isSecret": True}]),
        Asked(1, COMMAND, msgspec.Raw(b"[1]")),
        Asked(1, COMMAND, msgspec.Raw(b"x")),
    ],
)
def test_what_asks_no_person_is_no_approval(other: Asked) -> None:
    """Requests of other kinds are refused, and so is a question for a secret, which would stay in the log."""
    assert approval_of(other, 1) is None


# --- the real one ----------------------------------------------------------------------------------------------

ESCALATED = shell("touch out.txt", sandbox_permissions="require_escalated", justification="need it")


def step_of(stage: Stage, turn: Turn) -> Entry:
    (entry,) = [entry for entry in stage.timeline(turn).entries if entry.kind == "approval"]
    return entry


async def decided(stage: Stage, value: Any) -> tuple[Ran, Turn]:
    """Ask, wait for the request, decide, and wait for the end."""
    stage.endpoint.script(ESCALATED, text("Well."))
    async with stage.asking("hello") as (turn, running):
        await stage.shown(turn, lambda seen: '"waiting"' in seen)
        assert step_of(stage, turn).status == "waiting"
        await stage.log.request(THREAD, turn.id, "decide", approval="approval-1", value=value, by="a test")
        ran = await running
    return ran, turn


@pytest.mark.parametrize(("value", "made"), [("accept", True), ("decline", False)])
def test_a_decision_is_carried_out(value: str, made: bool) -> None:
    """An accepted command runs and a declined one does not; the turn goes on either way, and the trace tells."""

    async def main(stage: Stage) -> None:
        ran, turn = await decided(stage, value)
        assert ran.state == "completed"
        assert (stage.workspace / "out.txt").exists() is made
        entry = step_of(stage, turn)
        assert (entry.status, entry.output) == ("succeeded", value)
        assert "touch out.txt" in (entry.title or "")

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_rule_that_was_not_offered_is_written_nowhere() -> None:
    """A decision with another rule than Codex offered is a refusal: nothing runs, and its home gets no rule."""

    async def main(stage: Stage) -> None:
        ran, turn = await decided(stage, OTHER_RULE)
        assert ran.state == "completed"
        assert not (stage.workspace / "out.txt").exists()
        assert not list((stage.folder / "home").rglob("*.rules"))
        assert "not understood" in (step_of(stage, turn).detail or "")

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_decision_that_has_no_utf_8_is_answered() -> None:
    """Half a surrogate pair in a decision leaves nobody waiting: it counts as a refusal, and the turn goes on."""

    async def main(stage: Stage) -> None:
        ran, turn = await decided(stage, {"q": "\ud800"})
        assert ran.state == "completed"
        assert (step_of(stage, turn).status, step_of(stage, turn).output) == ("succeeded", '{"q":"\ufffd"}')

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_decision_that_cannot_be_passed_on_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with a decision, Codex is answered no, and the step tells why."""

    def broken(_: Approval, value: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr(Approval, "decided", broken)

    async def main(stage: Stage) -> None:
        ran, turn = await decided(stage, "accept")
        assert ran.state == "completed"
        assert not (stage.workspace / "out.txt").exists()
        assert "could not be passed on" in (step_of(stage, turn).detail or "")

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_one_decision_wins() -> None:
    """A second decision is refused, and changes nothing."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(ESCALATED)
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: '"waiting"' in seen)
            first = stage.log.request(THREAD, turn.id, "decide", approval="approval-1", value="decline")
            with pytest.raises(AlreadyDecided):
                await stage.log.request(THREAD, turn.id, "decide", approval="approval-1", value="accept")
            await first
            await running
        assert not (stage.workspace / "out.txt").exists()

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_cancelling_an_approval_ends_the_turn() -> None:
    """`cancel` is Codex's word for: no, and stop."""

    async def main(stage: Stage) -> None:
        ran, _ = await decided(stage, "cancel")
        assert (ran.state, ran.reason) == ("interrupted", "cancelled")

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_decision_made_before_it_was_asked_is_a_refusal() -> None:
    """Who decides without having seen what it is about has not agreed to it."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(ESCALATED, text("Well."))
        turn = await stage.log.submit(THREAD, "hello")
        await stage.log.request(THREAD, turn.id, "decide", approval="approval-1", value="accept")
        ran = await stage.take(turn)
        assert ran.state == "completed"
        assert not (stage.workspace / "out.txt").exists()

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_person_who_thinks_is_no_silent_agent() -> None:
    """While a person is asked the idle limit stands still; the hard limit ends the turn, and the request with it."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(ESCALATED)
        ran, turn = await stage.ask("hello", idle_s=2, hard_s=5)
        assert ran.reason == "timed_out" and "hard limit" in (ran.detail or "")
        entry = step_of(stage, turn)
        assert entry.status == "interrupted" and entry.failure is not None

    with staged(approval="on-request") as stage:
        run(main(stage))


def test_a_request_that_dies_with_its_process_is_closed() -> None:
    """When Codex dies while it waits, the request is interrupted and says that nobody decided."""

    async def main(stage: Stage) -> None:
        stage.endpoint.script(ESCALATED)
        async with stage.asking("hello") as (turn, running):
            await stage.shown(turn, lambda seen: '"waiting"' in seen)
            (server,) = servers()
            os.kill(server, signal.SIGKILL)
            ran = await running
        assert ran.reason == "transport_closed"
        entry = step_of(stage, turn)
        assert (entry.status, entry.failure and entry.failure.reason) == (
            "interrupted",
            "the turn ended before anybody decided",
        )

    with staged(approval="on-request") as stage:
        run(main(stage))
