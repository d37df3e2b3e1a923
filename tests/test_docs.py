"""The documents are true: their examples run, and they name all there is and nothing that is not."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import apsw
import click
import msgspec
import pytest

from tests.mutants.mutant import load
from turnlog import errors, limits
from turnlog.agents.protocol import DraftSignal, Finish, ItemSignal, Signal, Task
from turnlog.cli.main import main
from turnlog.events import kinds
from turnlog.events.body import DroppedText

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MIGRATIONS = ROOT / "src" / "turnlog" / "engines" / "sqlite" / "migrations"
DECISION_LINES_MAX = 70
"""A page."""

# fmt: off
WORDS = {
    "Thread", "Turn", "Event", "Seq", "Epoch", "Log", "Item", "Step", "Draft", "Fold", "Timeline", "Snapshot",
    "Transcript", "History", "Engine", "Journal", "Owner", "Lease", "Fence", "Agent", "Runner", "Mirror", "Cursor",
    "Key", "Digest", "Receipt", "Claim", "Phase", "Chunk", "Place", "Settle", "Seal",
}
# fmt: on


def document(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def sections(text: str, level: int) -> dict[str, str]:
    """The text under each heading of a level, up to the next one of that level or above, by heading."""
    parts = re.split(rf"^(#{{1,{level}}}) (.+)\n", text, flags=re.MULTILINE)
    return {title: body for hashes, title, body in zip(*[iter(parts[1:])] * 3, strict=True) if len(hashes) == level}


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without heads and rules."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
    rules = {at for at, row in enumerate(found) if set("".join(row)) <= {"-"} and row[0]}
    return [row for at, row in enumerate(found) if at not in rules and at + 1 not in rules]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def fence(text: str, language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert match, f"no {language} example"
    return match[1]


# --- examples --------------------------------------------------------------------------------------------------


def test_readme_example_prints_what_it_says(tmp_path: Path) -> None:
    """The README's library example runs as it stands and prints what stands below it."""
    text = document("README.md")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", fence(text, "python")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == (fence(text, "text"), "")


def test_readme_example_is_short() -> None:
    """The README's example can be taken in at a glance."""
    lines = [line for line in fence(document("README.md"), "python").split("\n") if line.strip()]
    assert len(lines) <= 15


async def no_requests() -> AsyncIterator[kinds.Requested]:
    for request in list[kinds.Requested]():
        yield request


def test_agent_example_speaks() -> None:
    """The example of adding-an-agent.md streams its answer and ends with the item that replaces the drafts."""
    scope: dict[str, Any] = {}
    exec(compile(fence(document("docs/adding-an-agent.md"), "python"), "adding-an-agent.md", "exec"), scope)
    said: list[Signal] = []

    async def emit(signal: Signal) -> None:
        said.append(signal)

    task = Task(thread="t", turn="u", content="hello", history=(), workspace=None, model=None, requests=no_requests())
    finish = asyncio.run(scope["Echo"]().run(task, emit))
    *drafts, last = said
    assert isinstance(finish, Finish)
    assert isinstance(last, ItemSignal)
    assert isinstance(last.raw, Mapping)
    assert "".join(draft.text for draft in drafts if isinstance(draft, DraftSignal)).strip() == "You said: hello"
    assert {draft.target for draft in drafts if isinstance(draft, DraftSignal)} == {last.raw["id"]}


# --- the format ------------------------------------------------------------------------------------------------


def format_sections() -> dict[str, str]:
    """The text of format.md about each kind."""
    text = document("docs/format.md")
    threads = re.findall(r"^- \*\*(\w+)\*\*: (.+?)(?=^- |^\n|^#)", text, re.MULTILINE | re.DOTALL)
    return sections(text, 3) | dict(threads)


def test_format_names_every_kind() -> None:
    """format.md has a section for each kind of event, and for no other."""
    assert set(format_sections()) == set(kinds.KINDS)


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_format_names_every_field(kind: str) -> None:
    """The section of a kind names each of its fields as it is stored, and its tables name no other."""
    section = format_sections()[kind]
    fields = set(kinds.KINDS[kind].__struct_encode_fields__)
    if kind == "thread_item":
        section += "`raw`"
    if kind == "item":
        section += "`raw`"
    assert fields <= quoted(section)
    assert {name for row in rows(section) for name in quoted(row[0])} <= fields


@pytest.mark.parametrize(
    "struct", [kinds.Event, kinds.Draft, kinds.Closed, kinds.Attachment, kinds.Failure, DroppedText]
)
def test_format_names_what_stands_inside(struct: type[msgspec.Struct]) -> None:
    """format.md names each field of the envelope, of a chunk and of the parts of a body."""
    text = document("docs/format.md")
    words = quoted(text) | set(re.findall(r'"(\w+)":', text))
    assert set(struct.__struct_encode_fields__) - {"data"} <= words


@pytest.mark.parametrize(
    "choice",
    [
        kinds.Reason,
        kinds.StepKind,
        kinds.StepStatus,
        kinds.DraftKind,
        kinds.RequestWhat,
        kinds.Synthesized,
        kinds.Purpose,
    ],
)
def test_format_names_every_choice(choice: Any) -> None:
    """format.md names each value of a field that has only some."""
    assert set(get_args(choice)) <= quoted(document("docs/format.md"))


def test_format_names_every_table_and_column() -> None:
    """format.md names all tables and columns that the SQLite migrations make, and no other column."""
    scripts = sorted(MIGRATIONS.glob("*.sql"))
    assert scripts
    connection = apsw.Connection(":memory:")
    for script in scripts:
        connection.execute(script.read_text("utf-8"))
    stored = {
        table: {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '[a-z]*'")
        if not table.startswith("sqlite_")
    }
    named = {
        title.strip("`"): {name for row in rows(body) for name in quoted(row[0])}
        for title, body in sections(document("docs/format.md"), 4).items()
    }
    assert named == stored


# --- lists that are complete -----------------------------------------------------------------------------------


def test_errors_are_all_documented() -> None:
    """errors.md names each error class, and no other."""
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    named = {word for word in quoted(document("docs/errors.md")) if re.fullmatch(r"([A-Z][a-z]+)+", word)}
    assert named == classes


def test_limits_are_all_documented() -> None:
    """limits.md names each limit with its value, and no other."""
    real = {name: float(value) for name, value in vars(limits).items() if name.isupper()}
    named = {}
    for row in rows(document("docs/limits.md")):
        number = re.match(r"[\d,.]+", row[1])
        assert number, row
        named[row[0].strip("`")] = float(number[0].replace(",", ""))
    assert named == real


def test_commands_are_all_documented() -> None:
    """operating.md names each command and each of its options, and no other command (C33)."""
    commands = sections(document("docs/operating.md"), 2)["Commands"]
    named = {row[0].strip("`").split()[1]: quoted(row[1]) for row in rows(commands) if row[0].startswith("`turnlog")}
    real = {
        name: {max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)}
        for name, command in main.commands.items()
    }
    assert {"--store", "--json"} <= quoted(commands)
    assert {name: {word for word in words if word.startswith("--")} for name, words in named.items()} == {
        name: options - {"--store", "--json"} for name, options in real.items()
    }


def test_glossary_has_every_word() -> None:
    """The glossary explains each word of the design, once."""
    terms = [
        word
        for term in re.findall(r"^\*\*(.+?)\.\*\*", document("docs/glossary.md"), re.MULTILINE)
        for word in term.split(", ")
    ]
    assert len(terms) == len(set(terms))
    assert set(terms) >= WORDS


# --- promises and cases ----------------------------------------------------------------------------------------


def cited() -> Iterator[tuple[str, str, str]]:
    """(file, test, docstring) of every test, those of the shipped conformance suite among them."""
    suites = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src" / "turnlog" / "testing").rglob("*.py")]
    for path in sorted(suites):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield path.relative_to(ROOT).as_posix(), node.name, ast.get_docstring(node) or ""


def test_every_test_says_what_it_proves() -> None:
    """Each test has a sentence as its docstring."""
    assert not [f"{path}::{name}" for path, name, text in cited() if not text.rstrip().endswith((".", ")"))]


def test_every_promise_has_a_test() -> None:
    """Each promise is in guarantees.md, and a test cites it unless it is not there yet."""
    promises = sections(document("docs/guarantees.md"), 2)
    there = {title.split()[0]: not text.strip().startswith("Not there yet") for title, text in promises.items()}
    there.pop("What")
    assert list(there) == [f"P{number}" for number in range(1, 13)]
    guarded = {promise for _, _, text in cited() for promise in re.findall(r"\bP\d+\b", text)}
    assert {promise for promise, real in there.items() if real} <= guarded


def proofs() -> dict[str, list[str]]:
    """The tests that guarantees.md names under each promise, as file::name."""
    promises = sections(document("docs/guarantees.md"), 2)
    return {
        title.split()[0]: re.findall(r"`((?:tests|src)/[\w/]+\.py::\w+)`", text)
        for title, text in promises.items()
        if re.match(r"P\d+ ", title) and not text.strip().startswith("Not there yet")
    }


@pytest.mark.parametrize(("promise", "named"), proofs().items(), ids=proofs())
def test_tests_named_as_proof_guard_their_promise(promise: str, named: list[str]) -> None:
    """Of each promise, guarantees.md names one to eight tests: they exist, cite it, and stand where its mutants die."""
    assert 1 <= len(named) <= 8
    guarding = {f"{path}::{name}" for path, name, text in cited() if re.search(rf"\b{promise}\b", text)}
    assert not set(named) - guarding, "not there, or citing another promise"
    deadly = {test for mutant in load() if mutant.promise == promise for test in mutant.tests}
    for test in named:
        path = test.partition("::")[0]
        # The shipped conformance suite runs where it is given its engines.
        where = path if path.startswith("tests/") else "tests/engines/test_conformance.py"
        assert deadly & {test, where, *map(str, Path(where).parents)}, f"{test}: no mutant of {promise} is tried on it"


def test_cases_are_the_ones_tested() -> None:
    """cases.md lists as tested exactly the cases that a test cites, and as later no other."""
    text = sections(document("docs/cases.md"), 2)
    tested = {row[0] for row in rows(text["Tested"])}
    later = {case for row in rows(text["Later"]) for case in row[0].split(", ")}
    real = {case for _, _, words in cited() for case in re.findall(r"\bC\d\d\b", words)}
    assert sorted(tested - real) == [], "listed as tested, and cited by no test"
    assert sorted(real - tested) == [], "cited by a test, and not listed as tested"
    assert sorted([*tested, *later]) == [f"C{number:02}" for number in range(1, 43)]


# --- the documents themselves ----------------------------------------------------------------------------------


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link of a document leads to a file that exists."""
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("record", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda record: record.stem)
def test_decision_has_its_form(record: Path) -> None:
    """A decision record has context, choice and consequences, fits a page, and is in the list."""
    text = record.read_text("utf-8")
    assert list(sections(text, 2)) == ["Context", "Choice", "Consequences"]
    assert text.startswith(f"# {record.stem[:4]} ")
    assert text.count("\n") <= DECISION_LINES_MAX
    assert record.name in document("docs/decisions/README.md")


def test_package_documents_every_room() -> None:
    """Each room says in its docstring what it is."""
    for init in sorted((ROOT / "src" / "turnlog").glob("*/__init__.py")):
        module = importlib.import_module(f"turnlog.{init.parent.name}")
        assert module.__doc__, init
