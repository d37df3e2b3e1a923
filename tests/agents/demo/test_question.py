"""How the demo agent understands questions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agents.demo.bounds import TERMS_MAX
from turnlog.agents.demo.question import ask, parse
from turnlog.agents.demo.words import Term, name_parts, stem


@pytest.mark.parametrize(
    ("text", "want", "terms"),
    [
        ("", "help", []),
        ("hello!", "help", []),
        ("What can you do?", "help", []),
        ("What is this project about?", "overview", []),
        ("Give me an overview of this folder", "overview", []),
        ("summarise this", "overview", []),
        ("list files", "list", []),
        ("Which files are in this folder?", "list", []),
        ("What is in README.md?", "file", []),
        ("show me src/app.py", "file", []),
        ("How many Python files are there?", "count", []),
        ("How many lines of code?", "count", []),
        ("how many times does fence come up", "count", ["fence"]),
        ("Where is DraftName defined?", "define", ["DraftName"]),
        ("Where is the lease?", "define", ["lease"]),
        ("Where is the lease renewed?", "search", ["lease", "renewed"]),
        ("where is draft_name used?", "search", ["draft_name"]),
        ("How does a writer keep its lease?", "search", ["writer", "lease"]),
        ('what does "owner lock" mean', "search", ["owner lock"]),
        ("what does README.md say about leases?", "search", ["leases"]),
        ("租约是什么", "search", ["租约", "约是", "是什", "什么"]),
    ],
)
def test_a_question_is_understood(text: str, want: str, terms: list[str]) -> None:
    """What is wanted, and the words to look for without those that only ask."""
    question = parse(text)
    assert (question.want, [term.text for term in question.terms]) == (want, terms)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("what is in README.md?", ("README.md",)),
        ("what is in `src/app.py`?", ("src/app.py",)),
        ("what is in docs/?", ("docs/",)),
        ("compare a.md and b/c.md.", ("a.md", "b/c.md")),
        ("Is it 3.5 or 4?", ()),
    ],
)
def test_names_of_files_are_found(text: str, paths: tuple[str, ...]) -> None:
    """Paths in a question are taken as paths, without the marks around them."""
    assert parse(text).paths == paths


def user(content: object) -> bytes:
    return json.dumps({"type": "message", "role": "user", "content": content}).encode()


def test_a_follow_up_is_about_what_was_asked_before() -> None:
    """A message without a subject takes that of the last message of the person that has one."""
    history = [
        user("What is a lease?"),
        user("What is a fence?"),
        b'{"type":"message","role":"assistant","content":"It is a number."}',
        user([{"type": "input_text", "text": "thanks"}]),
        b"not json",
    ]
    question = ask("and where is it defined?", history)
    assert (question.want, question.terms, question.carried) == ("define", (Term("fence"),), True)


def test_a_message_with_a_subject_of_its_own_is_no_follow_up() -> None:
    """A new subject leaves the old one behind."""
    assert ask("What is a lease?", [user("What is a fence?")]).terms == (Term("lease"),)


@given(st.text())
def test_any_text_is_a_question(text: str) -> None:
    """No text fails to be understood, and none gives more words than the bound."""
    assert len(parse(text).terms) <= TERMS_MAX


@pytest.mark.parametrize("forms", ["settle settles settled settling", "run running", "entry entries", "lease leases"])
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    """English endings do not matter."""
    assert len({stem(form) for form in forms.split()}) == 1


def test_names_have_parts() -> None:
    """Names of code are words joined by underscores or capitals."""
    assert name_parts("open_turnsMax HTTPServer2") == ["open", "turns", "Max", "HTTP", "Server", "2"]
