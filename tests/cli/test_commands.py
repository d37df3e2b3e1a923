"""The commands, each with what it promises."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from tests.cli.calling import COMMAND, WAIT_S, Caller
from turnlog.cli.output import Output
from turnlog.cli.store import choose_store
from turnlog.errors import StoreUnavailable
from turnlog.events.kinds import Failure
from turnlog.journal.turn import Turn
from turnlog.limits import TIME_US_MAX

ODD_IDS = [
    "-rf",
    "--json",
    "../x",
    "..",
    "a/b",
    "a\n",
    "\x01\x00",
    "🦉é",
    " ",
    "CON",
    "%2e%2e",
    "$HOME `id`",
    "x" * 1_024,
]


def fill(call: Caller, thread: str, text: str = "hello", answer: str = "Hello to you.") -> str:
    """A finished turn with a failed step; gives its id."""
    with turnlog.open(call.url) as log, log.turn(thread, text, agent="mine", key="k") as turn:
        failure = Failure(reason="No such file.", next_step="Name one that is there.")
        turn.step("s", kind="tool", title="Reading x", status="failed", args={"path": "x"}, failure=failure)
        turn.item({"type": "message", "role": "assistant", "content": answer})
    return turn.id


# --- reading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ODD_IDS, ids=ascii)
def test_any_id_is_an_id(call: Caller, thread: str) -> None:
    """C33: an id of any kind is taken as it is after `--`, listed on one line, and nothing appears beside the store."""
    turn = fill(call, thread)
    for arguments in (["show", "--", thread], ["show", "--", thread, turn], ["tail", "--", thread], ["threads"]):
        result = call(*arguments)
        assert result.exit_code == 0, result.stderr
        assert not set("\x00\x01\x1b") & set(result.stdout)
    assert call("threads").stdout.count("\n") == 1
    assert call.read("threads")["threads"][0]["thread"] == thread
    assert {path.name.removeprefix(call.store.name) for path in call.store.parent.iterdir()} <= {
        "",
        "-wal",
        "-shm",
        ".owners",
    }


@pytest.mark.parametrize("thread", ["", "x" * 1_025])
def test_an_id_that_cannot_be_is_a_usage_error(call: Caller, thread: str) -> None:
    """C33: an empty or too long id is refused by its name with exit code 2."""
    fill(call, "t")
    for arguments in (["show", thread], ["tail", thread], ["ask", thread, "hello"]):
        result = call(*arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("turnlog: thread: ")


def test_an_id_is_never_read_as_a_flag(call: Caller) -> None:
    """C33: without `--`, what begins with a dash is refused instead of guessed at."""
    fill(call, "-rf")
    assert call("show", "-rf").exit_code == 2


def test_documents_of_threads_and_turns(call: Caller) -> None:
    """The JSON documents have the shapes that programs rely on, with times in RFC 3339."""
    turn = fill(call, "t")
    listed = call.read("threads")
    assert listed["next"] is None
    assert {"thread", "title", "epoch", "head", "updated_at", "latest"} <= set(listed["threads"][0])
    shown = call.read("show", "t")
    assert [(message["role"], message["text"]) for message in shown["messages"]] == [
        ("user", "hello"),
        ("assistant", "Hello to you."),
    ]
    assert shown["turns"][0]["turn"] == turn
    trace = call.read("show", "t", turn)
    assert (trace["turn"]["state"], trace["next"]) == ("completed", None)
    entry = next(entry for entry in trace["entries"] if entry["kind"] == "tool")
    assert entry["failure"] == {"reason": "No such file.", "next_step": "Name one that is there."}
    for document in (shown, trace):
        assert document["at"].rpartition(".")[0] == listed["threads"][0]["epoch"]
    for time in (listed["threads"][0]["updated_at"], trace["turn"]["submitted_at"], entry["started_at"]):
        assert len(time) == len("2026-01-01T00:00:00.000000Z")
        assert time.endswith("Z")


def test_lists_go_on_where_they_ended(call: Caller) -> None:
    """P11: a list is a page, says how to go on, and pages follow each other without a gap."""
    for number in range(5):
        fill(call, f"t{number}")
    first = call.read("threads", "--limit", "3")
    second = call.read("threads", "--limit", "3", "--before", first["next"])
    assert [row["thread"] for row in first["threads"] + second["threads"]] == ["t4", "t3", "t2", "t1", "t0"]
    assert second["next"] is None
    assert f"--before={first['next']}" in call("threads", "--limit", "3").stdout


def test_a_trace_shows_what_failed(call: Caller) -> None:
    """A turn is shown with its steps, their arguments, why they failed and what can be done."""
    turn = fill(call, "t")
    shown = call("show", "t", turn).stdout
    for text in (
        "You",
        "hello",
        "Reading x · failed",
        '{"path":"x"}',
        "No such file.",
        "Name one that",
        "Hello to you.",
    ):
        assert text in shown


def test_a_long_output_is_cut_and_says_so(call: Caller) -> None:
    """P4: of a long output the first lines are shown, with how much there is in all."""
    with turnlog.open(call.url) as log, log.turn("t", "hello") as turn:
        output = "\n".join(f"line {number}" for number in range(40))
        turn.step("s", kind="tool", title="Reading x", status="succeeded", output=output)
    shown = call("show", "t", turn.id).stdout
    assert "line 5" in shown
    assert "line 6" not in shown
    assert "34 more lines, 309 bytes in all" in shown


def test_tail_as_json_lines(call: Caller) -> None:
    """P9, P10: tail gives each event as a line with cursor and raw item, and goes on from a cursor."""
    fill(call, "t")
    result = call("tail", "t", "--json")
    lines = [json.loads(line) for line in result.stdout.split("\n")[:-1]]
    assert [line["data"]["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-2]["data"]["body"]["raw"]["content"] == "Hello to you."
    assert result.stderr == f"cursor {lines[-1]['id']}\n"
    rest = call("tail", "t", "--json", "--after", lines[-2]["id"])
    assert [json.loads(line)["id"] for line in rest.stdout.split("\n")[:-1]] == [lines[-1]["id"]]


def test_tail_shows_open_drafts(call: Caller) -> None:
    """P2: text that is still being written is in the tail, whole, with what it targets."""
    with turnlog.open(call.url) as log:
        turn = log.submit("t", "hello").result()
        turn.start().result()
        turn.draft("so far", "msg_1").result()
        draft = json.loads(call("tail", "t", "--json").stdout.split("\n")[-2])
        assert draft["event"] == "draft"
        assert (draft["data"]["item"], draft["data"]["kind"], draft["data"]["text"]) == ("msg_1", "text", "so far")
        assert "so far" in call("tail", "t").stdout


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ("9999", "future"),
        ("feed.1", "epoch"),
        ("x", "malformed"),
        ("9" * 5_000, "malformed"),
        (str(2**64), "malformed"),
    ],
)
def test_a_cursor_of_another_log_is_reset(call: Caller, cursor: str, reason: str) -> None:
    """A cursor that proves nothing here is answered by a reset with the cursor to go on from, and exit code 1."""
    fill(call, "t")
    result = call("tail", "t", "--json", "--after", cursor)
    assert result.exit_code == 1
    reset = json.loads(result.stdout)
    assert (reset["event"], reset["data"]["reason"]) == ("reset", reason)
    assert call("tail", "t", "--json", "--after", reset["data"]["head"]).exit_code == 0


def test_tail_follows(call: Caller) -> None:
    """P2: tail --follow shows what another process writes, and ends quietly at Ctrl-C with exit code 130."""
    with turnlog.open(call.url) as log, call.on_terminal("tail", "t", "--follow") as terminal:
        terminal.wait_for("There is no thread t yet")
        turn = log.submit("t", "what is new?").result()
        terminal.wait_for("what is new?")
        turn.start().result()
        turn.draft("this is", "m").result()
        terminal.wait_for("this is")
        terminal.press(b"\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.seen


def test_json_is_one_line_for_every_reader(call: Caller) -> None:
    """C17: no output for programs has U+0085, U+2028 or U+2029, which split lines elsewhere; the values have them."""
    ends = "a\u0085b\u2028c\u2029d"
    with turnlog.open(call.url) as log:
        with log.turn(ends, ends, key=ends, agent=ends) as turn:
            turn.step(ends, kind="tool", title=ends, output=ends, args={ends: ends})
            turn.item({"type": "message", "role": "assistant", "content": ends})
        log.append_message(ends, json.dumps({"role": "user", "content": ends}, ensure_ascii=False).encode()).result()
        waiting = log.submit(ends, ends).result()
        waiting.start().result()
        waiting.draft(ends).result()
        shown = [
            call(*arguments, "--json")
            for arguments in (["threads"], ["show", ends], ["show", ends, turn.id], ["tail", ends], ["doctor"])
        ]
    shown += [call("show", "--json", f"no {ends}"), call("ask", ends, ends, "--key", ends, "--json")]
    for result in shown:
        for stream in (result.stdout, result.stderr):
            assert not set("\u0085\u2028\u2029") & set(stream)
        lines = [json.loads(line) for line in (result.stdout or result.stderr).split("\n")[:-1] if line[0] == "{"]
        assert ends in json.dumps(lines, ensure_ascii=False)


def test_a_time_that_is_none_is_told_as_its_number(call: Caller) -> None:
    """P3: a step whose time is none of the calendar is shown, by every command, with the number that was given."""
    us, ns = 1_700_000_000_000_000, 1_700_000_000_000_000_000
    with turnlog.open(call.url) as log, log.turn("t", "hello") as turn:
        turn.step("s", kind="tool", title="Reading x", started_at=us, ended_at=TIME_US_MAX)
    with sqlite3.connect(call.store) as db:  # as something that does not look would have written it
        body = f"CAST(replace(CAST(body AS TEXT), '{us}', '{ns}') AS BLOB)"
        db.execute(f"UPDATE event SET at = {ns}, body = {body}")
        db.execute(f"UPDATE thread SET updated_at = {-ns}")
    db.close()
    row = call.read("show", "t", turn.id)["entries"][0]
    assert (row["started_at"], row["ended_at"]) == (str(ns), "9999-12-31T23:59:59.999999Z")
    assert call.read("threads")["threads"][0]["updated_at"] == str(-ns)
    for arguments in (["threads"], ["show", "t"], ["show", "t", turn.id], ["tail", "t"], ["tail", "t", "--json"]):
        assert call(*arguments).exit_code == 0


def test_a_row_that_cannot_be_read_is_told(call: Caller) -> None:
    """P4: threads and turns whose rows cannot be read are listed all the same, and said to be damaged."""
    turn = fill(call, "t")
    fill(call, "u")
    with sqlite3.connect(call.store) as db:
        db.execute("UPDATE turn SET fold = x'00'")
        db.execute("UPDATE thread SET fold = x'00'")
    db.close()
    assert [row["damaged"] for row in call.read("threads")["threads"]] == [True, True]
    assert [(row["turn"], row["damaged"]) for row in call.read("show", "t")["turns"]] == [(turn, True)]
    for arguments, told in ((["threads"], 2), (["show", "t"], 1), (["show", "t", turn], 0), (["tail", "t"], 0)):
        result = call(*arguments)
        assert (result.exit_code, result.stdout.count("could not be read")) == (0, told)


# --- the store -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["threads"], ["show", "t"], ["tail", "t"], ["recover"], ["doctor"]], ids=str)
def test_looking_creates_nothing(call: Caller, arguments: list[str]) -> None:
    """A command that only reads says that there is no store, with exit code 3, and leaves none behind."""
    result = call(*arguments)
    assert result.exit_code == 3
    assert "There is no store" in result.output
    assert not call.store.parent.exists()


def test_a_store_of_something_else_is_not_touched(call: Caller, tmp_path: Path) -> None:
    """A file that is no store is refused with exit code 3, one sentence and no traceback, and stays as it is."""
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n" * 100, "utf-8")
    for arguments in (["threads"], ["ask", "t", "hello"], ["doctor"]):
        result = call(*arguments, "--store", f"sqlite:///{file}")
        assert result.exit_code == 3
        assert "not a turnlog store" in result.output
    assert file.read_text("utf-8") == "my notes\n" * 100


def test_a_wrong_url_is_a_usage_error(call: Caller) -> None:
    """A URL that names no kind of store is refused with exit code 2."""
    assert call("threads", "--store", "mysql://x").exit_code == 2
    assert call("--store", "mysql://x", "threads").exit_code == 2


def test_errors_are_objects_for_programs(call: Caller) -> None:
    """With --json an error is one JSON object on stderr with its name, its sentence and its facts."""
    fill(call, "t")
    result = call("show", "--json", "nobody")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(result.stderr) == {
        "error": "UnknownThread",
        "message": "There is no such thread.",
        "thread": "nobody",
    }


def test_the_default_store_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Caller, folder: Path
) -> None:
    """Without a store named, it is a file in the user's data folder that only the user can read, its folder too."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    asked = call("ask", "t", "hello", "--workspace", str(folder), environment={"TURNLOG_STORE": ""})
    assert asked.exit_code == 0, asked.stderr
    monkeypatch.setenv("TURNLOG_STORE", "")
    path = choose_store(None).path
    assert path is not None
    assert path.is_relative_to(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_doctor_names_open_turns_and_settles_none(call: Caller) -> None:
    """P7: doctor lists an open turn with its owner, who is alive, and changes nothing."""
    with turnlog.open(call.url) as log:
        turn = log.submit("t", "hello").result()
        report = call.read("doctor")
        assert [(row["turn"], row["owner_alive"]) for row in report["open_turns"]] == [(turn.id, True)]
        assert report["findings"] == []
        assert call.read("doctor")["open_turns"] == report["open_turns"]
        assert (report["schema"], report["permissions"], report["durable"]) == (2, "0600", True)
    assert turn.id not in call("doctor").stdout


def test_recover_lists_nothing_twice(call: Caller) -> None:
    """P8: with nothing to recover it says so, and exits with 0."""
    fill(call, "t")
    assert call.read("recover") == {"recovered": []}
    assert "Nothing to recover" in call("recover").stdout


# --- asking ----------------------------------------------------------------------------------------------------


def test_asking_prints_steps_and_answer(call: Caller, folder: Path) -> None:
    """A question is answered with titled steps, sub-agents under their own heading, the answer, and the turn's end."""
    result = call("ask", "t", "Where is the lamp?", "--workspace", str(folder))
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    heading = next(index for index, line in enumerate(lines) if line.startswith("  ▸ Looking through docs/"))
    assert lines[heading + 1].startswith("    Searching docs/")
    document = call.read("show", "t")
    assert document["messages"][-1]["text"].rstrip("\n") in result.stdout
    assert lines[-2].startswith("Done in ")
    assert document["turns"][0]["turn"] in lines[-2]


def test_the_same_key_is_answered_once(call: Caller, folder: Path) -> None:
    """P6: asked again with the same key, the turn that is there is shown and not run; other content is refused."""
    arguments = ["ask", "t", "How many files are there?", "--key", "k", "--workspace", str(folder)]
    first = call(*arguments)
    again = call(*arguments)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "not run again" in again.stderr
    assert call.read("show", "t")["messages"][-1]["text"] in again.stdout
    assert len(call.read("show", "t")["turns"]) == 1
    refused = call("ask", "t", "Another question", "--key", "k")
    assert refused.exit_code == 1
    assert "other content" in refused.stderr


def test_asking_as_json_lines(call: Caller, folder: Path) -> None:
    """P2: with --json a question gives the turn's events and drafts as lines, and its row at the end."""
    result = call("ask", "t", "How many files?", "--json", "--workspace", str(folder))
    lines = [json.loads(line) for line in result.stdout.split("\n")[:-1]]
    assert {line["event"] for line in lines} == {"event", "draft", "turn"}
    kinds = [line["data"]["kind"] for line in lines if line["event"] == "event"]
    assert (kinds[0], kinds[-1]) == ("submitted", "completed")
    assert lines[-1]["event"] == "turn"
    assert (lines[-1]["data"]["state"], lines[-1]["data"]["duplicate"]) == ("completed", False)


def test_a_message_may_come_from_a_pipe(call: Caller, folder: Path) -> None:
    """The text `-` is standard input, without the end of its last line; what is no text, or empty, is refused."""
    assert call("ask", "t", "-", "--workspace", str(folder), given="hello\nyou\n").exit_code == 0
    assert call.read("show", "t")["messages"][0]["text"] == "hello\nyou"
    for bad in (b"\xff\xfe", b"", b" \n", b"x" * 70_000):
        assert call("ask", "t", "-", given=bad).exit_code == 2
    for empty in ("", " \n"):
        refused = call("ask", "t", empty)
        assert (refused.exit_code, refused.stderr.endswith("TEXT holds no message.\n")) == (2, True)
    assert len(call.read("show", "t")["turns"]) == 1


def test_a_store_that_fails_is_told_in_one_line(call: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: when the store fails under a running turn, one line says so with the turn, and the exit code is 3."""

    async def fail(turn: Turn, *_: object, **__: object) -> None:
        await turn.start()
        raise StoreUnavailable(detail="disk full", thread="t", turn=turn.id)

    monkeypatch.setattr("turnlog.cli.asking.run_turn", fail)
    failed = call("ask", "t", "hello", "--workspace", str(folder))
    [turn] = call.read("show", "t")["turns"]
    assert failed.exit_code == 3
    assert failed.stderr.startswith("turnlog: The disk or database refused a write;")
    assert failed.stderr.endswith(f"disk full (turn {turn['turn']})\n")
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["t"], ["t", "hello", "--retry=x"], ["t", "--retry", "--key", "k"], ["t", "hello", "--workspace", "not-there"]],
    ids=str,
)
def test_a_question_that_makes_no_sense_is_refused(call: Caller, arguments: list[str]) -> None:
    """Wrong usage has exit code 2, and nothing is stored."""
    assert call("ask", *arguments).exit_code == 2
    assert not call.store.exists()


def test_only_an_interrupted_turn_is_asked_again(call: Caller) -> None:
    """`--retry` of a thread whose turns were all answered is refused, with the state of the newest."""
    turn = fill(call, "t")
    refused = call("ask", "t", "--retry")
    assert refused.exit_code == 1
    assert f"Turn {turn} is completed" in refused.stderr


# --- the terminal ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("environment", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_is_for_terminals_that_want_it(call: Caller, environment: dict[str, str], colour: bool) -> None:
    """Colour is used on a terminal, unless NO_COLOR or a dumb terminal forbids it, and never in a pipe."""
    fill(call, "t")
    with call.on_terminal("show", "t", environment=environment) as terminal:
        assert terminal.wait() == 0
        assert ("\x1b[" in terminal.seen) is colour
        assert "Hello to you." in terminal.seen
    assert b"\x1b" not in call.process("show", "t").stdout


def test_a_pipe_that_closes_early_is_fine(call: Caller) -> None:
    """`turnlog tail t | head -1` ends quietly with exit code 0."""
    fill(call, "t", text="x" * 50_000, answer="y" * 50_000)
    line = " ".join([*COMMAND, "tail", "t", "--json"])
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} | head -c 1"],
        env={**os.environ, **call.environment},
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, b"{")
    assert b"Traceback" not in ran.stderr
    assert b"BrokenPipe" not in ran.stderr


def test_a_terminal_without_the_characters(call: Caller) -> None:
    """Where the locale lacks characters, plain forms or escapes are printed instead; JSON is UTF-8 all the same."""
    fill(call, "Vögel 🦉")
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    shown = call.process("threads", environment=plain)
    assert shown.returncode == 0
    assert b"V\\xf6gel \\U0001f989" in shown.stdout
    listed = call.process("threads", "--json", environment=plain)
    assert json.loads(listed.stdout.decode("utf-8"))["threads"][0]["thread"] == "Vögel 🦉"


def test_an_id_of_bytes_that_are_no_text(call: Caller, folder: Path) -> None:
    """C33: an argument that is not UTF-8 is one id, found again by the same bytes, and not the id of other bytes."""
    asked = call.process("ask", b"caf\xe9", "hello", "--workspace", str(folder), environment={"PYTHONUTF8": "1"})
    assert asked.returncode == 0, asked.stderr
    assert call.process("show", b"caf\xe9", environment={"PYTHONUTF8": "1"}).returncode == 0
    assert call.process("show", "café", environment={"PYTHONUTF8": "1"}).returncode == 1


def test_help_needs_no_engine(call: Caller) -> None:
    """`turnlog --help` starts without the database, the event loop or the agents, and names the exit codes."""
    script = (
        "import sys\nfrom turnlog.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert not {'apsw', 'asyncio', 'msgspec'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Exit codes" in ran.stdout


def test_text_that_a_model_wrote_is_harmless_everywhere(call: Caller) -> None:
    """No command prints an escape sequence that is in a message, a title, an output or a reason."""
    evil = "\x1b]0;owned\x07\x1b[2J\rgone\x9b"
    with turnlog.open(call.url) as log, log.turn("t", evil) as turn:
        turn.step("s", kind="tool", title=evil, status="failed", args=evil, output=evil, failure=Failure(reason=evil))
        turn.item({"type": "message", "role": "assistant", "content": evil})
    for arguments in (["threads"], ["show", "t"], ["show", "t", turn.id], ["tail", "t"]):
        assert not set("\x1b\x07\r\x9b") & set(call(*arguments).stdout)


def test_json_commands_no_terminal(call: Caller) -> None:
    """P10: JSON for programs has U+007F to U+009F as escapes, on both streams, and the very same values."""
    evil = "".join(map(chr, range(0x7F, 0xA2))) + "é\U0001f600"
    with turnlog.open(call.url) as log, log.turn(evil, evil):
        pass
    for arguments in (["threads"], ["show", evil], ["tail", evil], ["show", "no" + evil]):
        result = call(*arguments, "--json")
        said = result.stdout or result.stderr
        assert not set(evil[:33]) & set(said)
        assert json.dumps(evil[:-1], ensure_ascii=False)[1:-1] in json.dumps(
            [json.loads(line) for line in said.split("\n")[:-1] if line[0] == "{"], ensure_ascii=False
        )


def test_output_is_lenient_about_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """Text with a lone surrogate that reaches the output is printed as an escape instead of failing."""
    out = Output()
    out.line("a\ud800b")
    assert capsys.readouterr().out == "a\\ud800b\n"
