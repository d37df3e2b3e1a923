"""`turnlog ask` as a real process that is stopped in mid-answer, in every way."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.calling import COMMAND, WAIT_S, Caller, Terminal
from turnlog.cli.ask import WHEN_BUSY
from turnlog.journal.jobs import WhenBusy

QUESTION = "Where is the lamp?"
ANSWER_BEGINS = "`lamp` is"
"""What the demo agent's answer to the question has near its beginning."""


def begin(folder: Path, thread: str = "talk") -> list[str]:
    return ["ask", thread, QUESTION, "--workspace", str(folder)]


def kept_text(call: Caller) -> str:
    """The text of the answer that the log has."""
    messages = call.read("show", "talk")["messages"]
    return "".join(message["text"] for message in messages if message["role"] == "assistant")


@pytest.mark.parametrize(
    ("how", "code", "by"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
    ids=["int", "term", "hup"],
)
def test_a_stopped_question_is_interrupted_honestly(
    call: Caller, folder: Path, how: signal.Signals, code: int, by: str
) -> None:
    """P3, P5: stopped in mid-answer, the turn is cancelled, keeps the text that was shown, and says so."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for(ANSWER_BEGINS)
        if how is signal.SIGINT:
            terminal.press(b"\x03")
        else:
            terminal.send(how)
        assert terminal.wait() == code
        assert "Interrupted (cancelled)" in terminal.seen
        assert "turnlog ask --retry=" in terminal.seen
    document = call.read("show", "talk")
    [turn] = document["turns"]
    assert (turn["state"], turn["reason"], turn["interrupt_requested"]) == ("interrupted", "cancelled", True)
    [answer] = [message for message in document["messages"] if message["role"] == "assistant"]
    assert answer["synthesized"] == "interrupted"
    assert ANSWER_BEGINS in answer["text"]
    assert by in call("show", "talk", turn["turn"]).stdout
    assert call("ask", "talk", "--retry").exit_code == 0
    assert call.read("show", "talk")["turns"][0]["state"] == "completed"


def test_a_question_whose_terminal_goes_away_is_interrupted(call: Caller, folder: Path) -> None:
    """P5, P8: when the terminal is closed in mid-answer, the turn is settled with its text before the process ends."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for(ANSWER_BEGINS)
        assert terminal.hang_up() == 129
    assert call.read("recover") == {"recovered": []}
    [turn] = call.read("show", "talk")["turns"]
    assert (turn["state"], turn["reason"]) == ("interrupted", "cancelled")
    assert ANSWER_BEGINS in kept_text(call)


def test_a_hangup_that_is_ignored_stays_ignored(call: Caller, folder: Path) -> None:
    """What was started under nohup goes on to its answer when the terminal is closed."""
    command = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *COMMAND, *begin(folder)]
    with Terminal(command, {**os.environ, **call.environment}) as it:
        it.wait_for("Listing this folder")
        assert it.hang_up() == 0
    assert call.read("show", "talk")["turns"][0]["state"] == "completed"


def test_an_interrupted_turn_asked_by_its_key_is_told_by_the_exit_code(call: Caller, folder: Path) -> None:
    """P6: asked again with its key, an interrupted turn is shown and the exit code is 1, with --json too."""
    with call.on_terminal(*begin(folder), "--key", "k") as terminal:
        terminal.wait_for("Listing this folder")
        terminal.send(signal.SIGTERM)
        terminal.wait()
    for options in ([], ["--json"]):
        again = call(*begin(folder), "--key", "k", *options)
        assert again.exit_code == 1
        assert "cancelled" in again.stdout
    assert len(call.read("show", "talk")["turns"]) == 1


def test_a_killed_question_is_all_there(call: Caller, folder: Path) -> None:
    """P1, P2, C01: killed in mid-answer, message, text and trace are there, and the turn can be asked again."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for(ANSWER_BEGINS)
        terminal.send(signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL
        shown = terminal.seen
    assert call("doctor").exit_code == 1
    listed = call("threads").stdout
    assert "interrupted" in listed
    assert QUESTION in listed
    document = call.read("show", "talk")
    [turn] = document["turns"]
    assert (turn["state"], turn["reason"]) == ("interrupted", "process_died")
    answer = kept_text(call)
    assert ANSWER_BEGINS in answer
    assert answer.startswith(shown[shown.index(ANSWER_BEGINS) :].rstrip("\n"))
    trace = call("show", "talk", turn["turn"]).stdout
    for line in ("Listing this folder · done", "Interrupted (process_died)", "Your message is safe.", "--retry="):
        assert line in trace
    again = call("ask", "talk", "--retry")
    assert again.exit_code == 0
    assert "Done in" in again.stdout
    after = call.read("show", "talk")
    assert [row["state"] for row in after["turns"]] == ["completed", "interrupted"]
    assert after["turns"][0]["retry_of"] == turn["turn"]
    assert call("ask", "talk", "--retry").stderr.startswith("This is in the log already")


def test_a_call_in_the_air_stays_unknown(call: Caller, folder: Path) -> None:
    """P3, C03: killed while a call was made, its outcome is told as unknown, by the title that was shown."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for("… Searching this folder")
        terminal.send(signal.SIGKILL)
        terminal.wait()
    [recovered] = call.read("recover")["recovered"]
    assert (recovered["thread"], recovered["reason"], len(recovered["unknown_calls"])) == ("talk", "process_died", 1)
    for shown in (call("show", "talk"), call("show", "talk", recovered["turn"])):
        assert "outcome unknown: Searching this folder" in shown.stdout


def test_the_next_question_tells_what_was_recovered(call: Caller, folder: Path) -> None:
    """P8: whoever asks next is told on stderr which turn was settled, and how to ask it again."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for("Listing this folder")
        terminal.send(signal.SIGKILL)
        terminal.wait()
    asked = call("ask", "other", "How many files are there?", "--workspace", str(folder))
    [turn] = call.read("show", "talk")["turns"]
    assert f"Turn {turn['turn']} of talk was interrupted (process_died" in asked.stderr
    assert f"turnlog ask --retry={turn['turn']} talk" in asked.stderr
    assert asked.exit_code == 0


def test_a_thread_that_is_being_answered_is_busy(call: Caller, folder: Path) -> None:
    """C09: asked while the last turn is being answered by another process, it names that turn; exit 1, nothing kept."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for("Listing this folder")
        refused = call("ask", "talk", "And now?", "--workspace", str(folder))
        [turn] = call.read("show", "talk")["turns"]
        assert refused.exit_code == 1
        assert turn["turn"] in refused.stderr
        assert turn["state"] != "interrupted"
        assert "being answered" in call("show", "talk").stdout
    assert len(call.read("show", "talk")["turns"]) == 1


def test_a_question_waits_behind_another_process(call: Caller, folder: Path) -> None:
    """C02: asked with `--when-busy=queue`, it says that it waits and for how many, and is answered after the first."""
    with call.on_terminal(*begin(folder)) as first:
        first.wait_for("Listing this folder")
        with call.on_terminal(*begin(folder), "--when-busy", "queue") as second:
            second.wait_for("waiting behind 1 turn")
            assert first.wait() == 0
            assert second.wait() == 0
            assert ANSWER_BEGINS in second.seen
    assert [turn["state"] for turn in call.read("show", "talk")["turns"]] == ["completed", "completed"]


def test_a_question_replaces_that_of_another_process(call: Caller, folder: Path) -> None:
    """Asked with `--when-busy=replace`, the first one is interrupted and says for which turn, which is answered."""
    with call.on_terminal(*begin(folder)) as first:
        first.wait_for("Listing this folder")
        assert (
            call("ask", "talk", "Where is the door?", "--when-busy=replace", "--workspace", str(folder)).exit_code == 0
        )
        assert first.wait() == 1
    new, old = call.read("show", "talk")["turns"]
    assert (new["state"], old["state"], old["reason"]) == ("completed", "interrupted", "cancelled")
    assert f"replaced by {new['turn']}" in call("show", "talk", old["turn"]).stdout


def test_the_ways_to_be_busy_are_those_of_the_log() -> None:
    """The command line offers each way in which a submission can meet a busy thread, and no other."""
    assert get_args(WhenBusy) == WHEN_BUSY


def test_the_turn_goes_on_when_nobody_reads(call: Caller, folder: Path) -> None:
    """When the reader of the output goes away, before its first line even, the turn goes on and nothing is said."""
    with subprocess.Popen(
        [*COMMAND, *begin(folder)],
        env={**os.environ, **call.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(WAIT_S) == 0
        assert process.stderr.read() == b""
    assert call.read("show", "talk")["turns"][0]["state"] == "completed"


def test_a_second_ctrl_c_stops_an_agent_that_does_not_listen(call: Caller, folder: Path) -> None:
    """P5: pressed twice, Ctrl-C ends the turn as cancelled all the same, once."""
    with call.on_terminal(*begin(folder)) as terminal:
        terminal.wait_for("Listing this folder")
        terminal.press(b"\x03")
        terminal.press(b"\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.seen
    [turn] = call.read("show", "talk")["turns"]
    assert (turn["state"], turn["reason"]) == ("interrupted", "cancelled")


def call_into(where: str, call: Caller, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Call as a real process with its streams redirected as a shell does it."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", *COMMAND, *arguments],
        env={**os.environ, **call.environment},
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("where", [">/dev/full", ">&-", ">&- 2>&-", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_turn_goes_on_when_its_output_cannot_be_written(
    call: Caller, folder: Path, where: str, options: list[str]
) -> None:
    """P5, P8: a full disk or a closed stream under the output ends no turn; the exit code is 1, stderr says it."""
    ran = call_into(where, call, "ask", "talk", "hello", "--workspace", str(folder), *options)
    assert ran.returncode == 1
    assert (b"Standard output could not be written" in ran.stderr) is ("2>" not in where)
    assert b"Traceback" not in ran.stderr
    [turn] = call.read("show", "talk")["turns"]
    assert turn["state"] == "completed"


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_a_lost_output_of_a_reading_command_is_told(call: Caller, folder: Path, where: str) -> None:
    """P4: whatever command it is, an output that could not be written gives exit code 1 and a sentence on stderr."""
    assert call("ask", "talk", "hello", "--workspace", str(folder)).exit_code == 0
    for command in (["threads"], ["show", "talk"], ["tail", "talk"], ["doctor"], ["threads", "--json"]):
        ran = call_into(where, call, *command)
        assert (ran.returncode, b"could not be written" in ran.stderr or b"OutputLost" in ran.stderr) == (1, True)
        assert b"Traceback" not in ran.stderr
