"""The demo agent as a whole: real folders, real answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.demo.asking import Told, agent, ask, no_wait, task, user, write
from turnlog.agents.demo.bounds import ANSWER_CHARS_MAX, SUBAGENTS_MAX
from turnlog.agents.protocol import DraftSignal, ItemSignal, Signal, StepSignal
from turnlog.errors import StartFailed
from turnlog.events.codec import accept_raw, encode_json
from turnlog.limits import BODY_BYTES_MAX, DRAFT_BYTES_MAX


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a hidden folder and a binary file."""
    write(
        tmp_path,
        README_md="# Acme\n\nAcme keeps leases for boats.\nIt is small.\n\n## Use\n\nRun it.\n",
        docs__lease_md="# Lease\n\nA lease runs for 30 seconds.\n\nIt is renewed by its owner.\n",
        docs__boat_md="# Boat\n\nA boat floats.\n",
        src__acme__lease_py='"""Leases of boats."""\n\n\ndef renew_lease(boat):\n    return boat\n\n\nLEASE_S = 30\n',
        src__acme__app_py='"""The app."""\nfrom acme.lease import renew_lease\n\nrenew_lease(1)\n',
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "lease").write_text("lease")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\0\0lease")
    return tmp_path


def quotes(text: str) -> list[tuple[str, int]]:
    return [(path, int(line)) for path, line in re.findall(r"`([^`\s]+):(\d+)`", text)]


@pytest.mark.parametrize(
    "question",
    ["What is a lease?", "Where is renew_lease defined?", "What is this about?", "What is in docs/lease.md?", "boats"],
)
def test_every_quoted_place_is_real(project: Path, question: str) -> None:
    """P3: each `path:line` of an answer is a line of that file, and the first one is about the question."""
    found = quotes(ask(project, question).text)
    assert found
    for path, line in found:
        assert (project / path).read_text().split("\n")[line - 1].strip()


def test_a_definition_is_found_and_quoted(project: Path) -> None:
    """The answer to "where is it defined" begins with the place and quotes the lines."""
    text = ask(project, "Where is renew_lease defined?").text
    assert text.startswith("`renew_lease` is defined in `src/acme/lease.py:4`")
    assert "```python\ndef renew_lease(boat):\n    return boat" in text


def test_an_overview_is_the_folders_own_words_and_numbers(project: Path) -> None:
    """The answer to "what is this about" has the front page's words, the counts and each folder."""
    text = ask(project, "What is this project about?").text
    assert text.startswith("Acme says about itself (`README.md:3`):\n\n> Acme keeps leases for boats.")
    assert "3 Markdown, 2 Python and 1 other file in 3 folders" in text
    assert "- `docs/`: 2 Markdown files." in text
    assert "- `src/`: 2 Python files. For example `acme/app.py` and `acme/lease.py`." in text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many files are there?", "There are 6 files"),
        ("How many Python files?", "There are 2 files: 2 Python files."),
        ("How many folders?", "There are 3 folders"),
        ("How many lines in docs/?", "There are 8 lines in 2 files."),
        ("How many times does renew_lease come up?", "`renew_lease` comes up in 3 lines of 2 files"),
        ("list files in docs", "There are 2 Markdown files in `docs/`"),
        ("What is in missing.md?", "There is no `missing.md` here."),
        ("What is in docs/boats.md?", "Similar: `docs/boat.md`."),
        ("hello", "I answer questions about the files in"),
    ],
)
def test_plain_questions_get_plain_answers(project: Path, question: str, answer: str) -> None:
    """Counts, lists, missing files and greetings are answered as such."""
    assert answer in ask(project, question).text


def test_what_was_read_and_left_out_is_said(project: Path) -> None:
    """P4: an answer that finds nothing names what was looked for, what was searched, and what was left out and why."""
    text = ask(project, "zeppelin?").text
    assert "I found nothing about `zeppelin`." in text
    assert "I searched 5 files in 3 folders" in text
    assert "`picture.png` (binary)" in text
    assert "`.git` (hidden)" in text


def test_a_follow_up_goes_on_with_the_subject(project: Path) -> None:
    """A question without a subject is about the one before it, and the answer says so."""
    text = ask(project, "and where is it defined?", [user("What is renew_lease?")]).text
    assert text.startswith("About what you asked before: `renew_lease` is defined in `src/acme/lease.py:4`")


def test_a_question_can_come_in_parts(project: Path) -> None:
    """Content in Responses parts is read for its text."""
    told = Told()

    async def emit(signal: Signal) -> None:
        told.signals.append(signal)

    parts: list[Any] = [{"type": "input_image"}, {"type": "input_text", "text": "What is a lease?"}]
    asyncio.run(agent().run(task(project, parts), emit))
    assert "`docs/lease.md:1`" in told.text


def test_work_is_shown_as_steps_and_items(project: Path) -> None:
    """Each call has one output after it and one step that begins before and settles after; names and titles tell."""
    told = ask(project, "What is a lease?")
    calls = [item["call_id"] for item in told.items if item["type"] == "function_call"]
    assert calls == [item["call_id"] for item in told.items if item["type"] == "function_call_output"]
    assert len(set(calls)) == len(calls)
    for call in calls:
        begin, end = (step for step in told.steps if step.id == call)
        assert (begin.step, begin.status, begin.call_id) == ("tool", "running", call)
        assert (end.status, end.ended_at) == ("succeeded", 1_000_000)
    titles = [step.title for step in told.steps if step.title]
    assert "Searching docs/ for lease" in titles
    assert {item["name"] for item in told.items if "name" in item} == {"list_files", "search_files", "read_file"}
    assert all(json.loads(item["arguments"])["path"] for item in told.items if "arguments" in item)


def test_each_subfolder_has_a_subagent(project: Path) -> None:
    """A sub-agent a subfolder, each with its tools nested under it and a report that was streamed."""
    told = ask(project, "What is a lease?")
    begun = [step for step in told.steps if step.step == "subagent"]
    assert [step.title for step in begun] == ["Looking through docs/", "Looking through src/"]
    for step in begun:
        assert any(other.parent == step.id and other.step == "tool" for other in told.steps)
        (end,) = (other for other in told.steps if other.id == step.id and other.status == "succeeded")
        assert end.text
        assert told.drafts(step.id) == end.text


def test_subagents_are_bounded(tmp_path: Path) -> None:
    """P11: however many subfolders there are, sub-agents stay within their bound and all folders are searched."""
    for number in range(SUBAGENTS_MAX * 2):
        write(tmp_path, **{f"f{number:02d}__a_txt": "needle\n"})
    told = ask(tmp_path, "needle")
    assert sum(step.step == "subagent" for step in told.steps) == SUBAGENTS_MAX
    assert f"in {SUBAGENTS_MAX * 2} lines of {SUBAGENTS_MAX * 2} files" in told.text


def test_the_answer_is_the_text_that_was_streamed(project: Path) -> None:
    """P2: the final item carries the id the drafts were written for, and exactly their text, in many pieces."""
    told = ask(project, "What is a lease?")
    final = told.items[-1]
    assert told.drafts(final["id"]) == told.text
    assert sum(isinstance(s, DraftSignal) and s.target == final["id"] for s in told.signals) > 20
    (thought,) = (item for item in told.items if item["type"] == "reasoning")
    assert told.drafts(thought["id"]) == thought["summary"][0]["text"]


def test_no_work_is_done_before_its_intent_is_durable(project: Path) -> None:
    """P1: nothing of the folder is opened unless the call that opens it has been emitted and its emit has returned."""
    told: list[str] = []

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        told.append("open")
        return os.open(path, flags, mode, dir_fd=dir_fd)

    async def emit(signal: Signal) -> None:
        await asyncio.sleep(0.001)  # Work that did not wait for the signal would overtake it here.
        if isinstance(signal, ItemSignal) and not isinstance(signal.raw, bytes):
            told.append(str(signal.raw["type"]))

    asyncio.run(agent(opener).run(task(project, "What is a lease?"), emit))
    assert told.count("open") > 10
    state = "function_call_output"
    for mark in told:
        if mark == "open":
            assert state == "function_call"
        else:
            state = mark


def test_an_unreadable_file_is_a_failed_step(project: Path) -> None:
    """A file that cannot be read fails a step of its own with reason and next step; the answer names it and goes on."""

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "lease.md":
            raise PermissionError(13, "Permission denied")
        return os.open(path, flags, mode, dir_fd=dir_fd)

    told = ask(project, "What is a lease?", opener=opener)
    (failed,) = told.failed
    assert (failed.title, failed.step) == ("Reading docs/lease.md", "tool")
    assert failed.parent in {step.id for step in told.steps if step.step == "subagent"}
    assert failed.failure is not None
    assert failed.failure.reason == "permission denied"
    assert failed.failure.next_step
    assert "I could not read `docs/lease.md` (permission denied)." in told.text
    assert "src/acme/lease.py" in told.text


def test_a_file_that_fails_at_the_last_moment_is_a_failed_call(project: Path) -> None:
    """A file that was searched and cannot be read again fails its call, and the answer goes without the quote."""
    seen: list[str] = []

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "lease.md" and path in seen:
            raise OSError(5, "Input/output error")
        seen.append(str(path))
        return os.open(path, flags, mode, dir_fd=dir_fd)

    told = ask(project, "30 seconds", opener=opener)
    (failed,) = told.failed
    assert failed.failure is not None
    assert failed.failure.reason == "the disk cannot read it"
    assert "failed: the disk cannot read it" in told.outputs
    assert "`docs/lease.md:3`" in told.text


def test_an_unreadable_folder_is_a_failed_step(project: Path) -> None:
    """A subfolder that cannot be listed fails a step, and the rest of the folder is still answered from."""

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "docs":
            raise PermissionError(13, "Permission denied")
        return os.open(path, flags, mode, dir_fd=dir_fd)

    told = ask(project, "What is a lease?", opener=opener)
    assert [step.title for step in told.failed] == ["Reading docs"]
    assert "I could not read `docs` (permission denied)." in told.text


def test_an_empty_folder_has_an_answer(tmp_path: Path) -> None:
    """Every kind of question about an empty folder gets an answer that says that nothing is there."""
    assert "holds no files" in ask(tmp_path, "What is this folder about?").text
    assert "There are no files here." in ask(tmp_path, "list files").text
    assert "I searched 0 files" in ask(tmp_path, "lease?").text


@pytest.mark.parametrize("kind", ["none", "missing", "file"])
def test_without_a_folder_the_turn_fails_as_such(tmp_path: Path, kind: str) -> None:
    """A workspace that is not named, not there or no folder raises StartFailed with reason workspace_failed."""
    (tmp_path / "file").write_text("x")

    async def emit(signal: Signal) -> None:
        return

    with pytest.raises(StartFailed) as caught:
        asyncio.run(agent().run(task(None if kind == "none" else tmp_path / kind, "lease?"), emit))
    assert caught.value.reason == "workspace_failed"
    assert caught.value.detail


def test_the_same_question_gets_the_same_answer(project: Path) -> None:
    """Two runs over one folder say and do the same, signal by signal."""
    assert ask(project, "What is a lease?").signals == ask(project, "What is a lease?").signals


def test_ids_differ_between_turns(project: Path) -> None:
    """No id of one turn is used in another, so that calls of two turns are never taken for each other."""
    ids = []
    for turn in ("turn-1", "turn-2"):
        told = Told()

        async def emit(signal: Signal, told: Told = told) -> None:
            told.signals.append(signal)

        asyncio.run(agent().run(task(project, "What is a lease?", turn=turn), emit))
        ids.append({step.id for step in told.steps} | {item.get("id") for item in told.items} - {None})
    assert not ids[0] & ids[1]
    assert all(len(str(id_)) <= 64 for id_ in ids[0])


def test_everything_fits_an_event(tmp_path: Path) -> None:
    """P11: in a folder of the longest names and widest characters every signal stays well within one event's body."""
    root = os.fsencode(tmp_path)
    for number in range(200):
        name = b"needle%03d" % number + b"\xff\n`" * 80
        fd = os.open(root + b"/" + name[:255], os.O_WRONLY | os.O_CREAT)
        os.write(fd, ("\x1b needle 😀`\x00".replace("\x00", "") * 2_000 + "\n").encode() * 3)
        os.close(fd)
    for question in ("needle", "list files", "what is this about?", "how many times does needle come up?"):
        told = ask(tmp_path, question)
        for signal in told.signals:
            if isinstance(signal, ItemSignal):
                assert len(accept_raw(signal.raw)[0]) < BODY_BYTES_MAX * 0.9
            elif isinstance(signal, StepSignal):
                assert len(encode_json([signal.title, signal.text])) < BODY_BYTES_MAX / 4
        assert len(encode_json(told.text)) < DRAFT_BYTES_MAX
        assert "\x1b" not in told.text
        assert told.text.encode("utf-8")


@given(
    st.dictionaries(st.from_regex(r"[a-z.#-]{1,8}", fullmatch=True), st.binary(max_size=300), max_size=5),
    st.one_of(st.text(max_size=60), st.sampled_from(["what is this about?", "list files", "how many lines?", "a"])),
)
@settings(max_examples=60)
def test_every_folder_and_question_has_an_answer(contents: dict[str, bytes], question: str) -> None:
    """Whatever bytes the files hold and whatever is asked, there is an answer of sound text within its bound."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in contents.items():
            if name.strip("."):
                Path(folder, name).write_bytes(data)
        told = ask(Path(folder), question)
    assert told.text.strip()
    assert len(told.text) <= ANSWER_CHARS_MAX
    assert told.text.replace("\n", "").isprintable()


def test_the_event_loop_is_never_held_up(project: Path) -> None:
    """File work that hangs lets the loop go on: here only the loop itself can end the hang."""
    go_on = threading.Event()
    waited = threading.Event()

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        waited.set()
        assert go_on.wait(30)
        return os.open(path, flags, mode, dir_fd=dir_fd)

    async def emit(signal: Signal) -> None:
        return

    async def main() -> None:
        running = asyncio.create_task(agent(opener).run(task(project, "What is a lease?"), emit))
        while not waited.is_set():
            await asyncio.sleep(0)
        go_on.set()
        await running

    asyncio.run(asyncio.wait_for(main(), 30))


def test_cancelling_ends_the_work_at_the_next_file(project: Path) -> None:
    """A cancelled agent ends at once, says nothing more, and its thread stops before the next file."""
    hanging, go_on = threading.Event(), threading.Event()
    opened: list[str] = []
    told = Told()

    def opener(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(str(path))
        if path == "boat.md":
            hanging.set()
            assert go_on.wait(30)
        return os.open(path, flags, mode, dir_fd=dir_fd)

    async def emit(signal: Signal) -> None:
        told.signals.append(signal)

    async def main() -> None:
        running = asyncio.create_task(agent(opener).run(task(project, "What is a lease?"), emit))
        while not hanging.is_set():
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        go_on.set()

    asyncio.run(main())  # Waits for the thread too.
    assert opened[-1] == "boat.md"
    assert "lease.md" not in opened
    assert isinstance(told.signals[-1], ItemSignal)


def test_the_pace_is_that_of_a_reader(project: Path) -> None:
    """By default words come one by one with a pause each, some 50 a second, and steps with a visible one."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await no_wait(seconds)

    async def emit(signal: Signal) -> None:
        return

    asyncio.run(agent(sleep=sleep).run(task(project, "What is a lease?"), emit))
    assert 1 < sum(pauses) < 30
    assert set(pauses) == {0.02, 0.15}
