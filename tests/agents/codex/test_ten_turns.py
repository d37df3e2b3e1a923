"""Ten turns with real commands, the process killed in three of them: nothing is lost, doubled or made up."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import turnlog
from turnlog.events.kinds import Event
from turnlog.journal.log import Log
from turnlog.protocols.codex_context import context_kind
from turnlog.testing.killing import Child
from turnlog.testing.responses_answers import Answer, reasoning_text, shell, text
from turnlog.testing.responses_endpoint import AskedModel, ResponsesEndpoint

from .homes import write_home
from .running import processes_of, run, until
from .stage import same_items
from .talking import THREAD, question

ROOT: Final = Path(__file__).parents[3]
SCRIPT: Final = Path(__file__).with_name("talking.py")
TURNS: Final = 10
IN_ANSWER: Final = (3, 9)
IN_COMMAND: Final = 6


def answers(number: int, gate: threading.Event) -> list[Answer]:
    """What the model does in a turn: it notes the turn in a ledger, looks at it, and says so."""
    note = shell(f"echo {number} >> ledger; cat ledger", preamble="I note it.")
    if number == IN_COMMAND:
        return [shell(f"echo {number} >> ledger; cat fifo", preamble="I wait.", yield_time_ms=60_000)]
    if number in IN_ANSWER:
        return [note, text(said(number), chunks=4, gate=gate)]
    return [note, reasoning_text("I think of it.", said(number))]


def said(number: int) -> str:
    return f"In turn {number} the ledger has grown."


class Conversation:
    """The store, the endpoint, and all that the killed processes had reported."""

    def __init__(self, folder: Path, endpoint: ResponsesEndpoint) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.home = write_home(folder, endpoint, context=True, sandbox="danger-full-access")
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        (self.workspace / "AGENTS.md").write_text("HOST CONTEXT: be kind.\n")
        os.mkfifo(self.workspace / "fifo")
        self.reported: list[Any] = []

    @contextmanager
    def talking(self, first: int, last: int) -> Iterator[Child]:
        """A process that asks from one question to another; it is dead at the end."""
        environment = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "CODEX_HOME": str(self.home),
            "HOME": str(self.home),
            "CODEX_BIN": os.environ.get("CODEX_BIN", ""),
        }
        arguments = [str(self.folder), str(first), str(last)]
        with Child(SCRIPT, arguments, folder=self.folder, environment=environment) as child:
            yield child
        self.reported += child.lines

    def kill_in(self, first: int, number: int) -> None:
        """Let a process talk from one question on, and kill it in the middle of another one."""
        gate = threading.Event()
        for earlier in range(first, number + 1):
            self.endpoint.script(*answers(earlier, gate))
        with self.talking(first, number) as child:
            child.wait_for(lambda lines: any(self._in_the_middle(line, number) for line in lines[-50:]))
            child.kill()
        gate.set()
        self.endpoint.forget_script()
        run(until(lambda: not processes_of(self.home)))

    def _in_the_middle(self, line: Any, number: int) -> bool:
        if number == IN_COMMAND:
            data = base64.b64decode(line[2]) if line[0] == "event" else b""
            return b"cat fifo" in data and b'"running"' in data
        return line[0] == "draft" and str(line[3]).startswith("In turn ")


def test_ten_turns_and_three_kills() -> None:
    """Whatever was shown is there, each command ran once, no host context is chat, and at every turn the model was
    given what the log's history says (P2, P3, C42)."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="codex-") as folder, ResponsesEndpoint() as endpoint:
        conversation = Conversation(Path(folder), endpoint)
        first = 1
        for number in sorted((*IN_ANSWER, IN_COMMAND)):
            conversation.kill_in(first, number)
            first = number + 1
        endpoint.script(*answers(TURNS, threading.Event()))
        with conversation.talking(first, TURNS) as child:
            assert child.reap() == 0
        log = turnlog.open(f"sqlite:///{folder}/chat.db")
        try:
            nothing_lost(log, conversation.reported)
            nothing_doubled(log, conversation.workspace)
            no_context(log)
            given_is_stored(log, endpoint)
        finally:
            log.close()
        run(until(lambda: not processes_of(conversation.home)))


def nothing_lost(log: Log, reported: list[Any]) -> None:
    """Every event that was shown is in the log, and every text stands at the beginning of what replaced its draft."""
    events = {event.seq: event for event in log.events(THREAD)}
    replaced = {(event.turn, closed.draft): event for event in events.values() for closed in _closes(event)}
    drafts = 0
    for line in reported:
        if line[0] == "event":
            assert events[line[1]].data == base64.b64decode(line[2])
        elif line[0] == "draft":
            drafts += 1
            event = replaced[line[1], line[2]]
            assert json.dumps(line[3])[1:-1].encode() in event.data, (line, event)
    assert drafts >= len(IN_ANSWER)


def _closes(event: Event) -> list[Any]:
    return list(getattr(event.body, "closes", ()))


def nothing_doubled(log: Log, workspace: Path) -> None:
    """Each question and each command is there once; what was killed in mid-answer has the answer's beginning."""
    assert (workspace / "ledger").read_text().split() == [str(number) for number in range(1, TURNS + 1)]
    messages = [message for message in log.transcript(THREAD).messages if message.role == "user"]
    assert [message.text for message in messages] == [question(number) for number in range(1, TURNS + 1)]
    ids = Counter(json.loads(item)["id"] for item in log.history(THREAD, "raw").items if b'"id"' in item)
    assert set(ids.values()) == {1}
    states = {view.preview: (view.state, view.reason) for view in log.turns(THREAD).rows}
    assert {number for number in range(1, TURNS + 1) if states[question(number)][0] == "interrupted"} == {3, 6, 9}
    answered = [message for message in log.transcript(THREAD).messages if message.text.startswith("In turn ")]
    assert len(answered) == TURNS - 1
    assert [
        said(number).startswith(message.text)
        for message, number in zip(answered, (1, 2, 3, 4, 5, 7, 8, 9, 10), strict=True)
    ]
    assert sum(message.synthesized == "interrupted" for message in answered) == len(IN_ANSWER)


def no_context(log: Log) -> None:
    """Nothing that Codex's host said stands in an item or a message."""
    kept = b"".join(log.history(THREAD, "raw").items)
    for host in (b"HOST CONTEXT", b"<environment_context>", b"<skills_instructions>", b"turn_aborted"):
        assert host not in kept


def given_is_stored(log: Log, endpoint: ResponsesEndpoint) -> None:
    """At every turn the model was given the history, which is what is stored and what was added to it."""
    first: dict[str, AskedModel] = {}
    for asked in endpoint.asked:
        first.setdefault(json.dumps(asked.input[-1].get("content")), asked)
    for view in log.turns(THREAD).rows:
        asked = first[json.dumps([{"type": "input_text", "text": view.preview}])]
        *given, _ = [item for item in asked.input[1:] if context_kind(json.dumps(item).encode()) is None]
        history = log.history(THREAD, until=view.turn)
        assert same_items(given, [json.loads(item) for item in history.items]), view.preview
    history, raw = log.history(THREAD), log.history(THREAD, "raw")
    added = {added.at for added in history.added}
    assert len(added) == 1 and not history.omitted
    assert [item for at, item in enumerate(history.items) if at not in added] == list(raw.items)
