"""Errors over HTTP: a status for each, the facts, and nothing of this machine."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from turnlog import errors
from turnlog.limits import SUBMISSION_BYTES_MAX
from turnlog.web.http_problems import http_problem_document
from turnlog.web.page.refusals import refusal
from turnlog.web.problems import STATUSES, problem_document, turnlog_problem

from .sites import app_of, asked

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TurnlogError)]
FORM = "application/x-www-form-urlencoded"
SECRET = "/srv/somewhere/chat.db"


def made(kind: type[errors.TurnlogError]) -> errors.TurnlogError:
    """An error of that class with a value for each fact."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name == "detail":
            given[name] = SECRET
        elif "int" in str(parameter.annotation):
            given[name] = 7
        else:
            given[name] = f"some {name}"
    return kind(**given)


def test_every_error_has_a_status() -> None:
    """Each error of turnlog has a row in the table of statuses, and nothing else has."""
    assert set(STATUSES) == set(ERRORS)


@pytest.mark.parametrize("kind", ERRORS)
def test_problem_has_the_facts_and_no_path(kind: type[errors.TurnlogError]) -> None:
    """A problem document names the error and its facts, but not what a store says of the machine's files."""
    error = made(kind)
    document = problem_document(error)
    json.dumps(document)
    assert document["status"] == STATUSES[kind]
    assert document["title"] == (kind.__doc__ or "").partition("\n")[0]
    assert document["type"].startswith("urn:turnlog:problem:")
    assert {name for name in error.facts if name != "detail"} <= set(document)
    assert SECRET not in json.dumps(document)


def test_problem_types_differ() -> None:
    """Each error has a type of its own, so that a program can tell them apart."""
    assert len({problem_document(made(kind))["type"] for kind in ERRORS}) == len(ERRORS)


def test_key_conflict_names_both_digests() -> None:
    """C04: a client is told both digests of a key that names other content."""
    error = errors.KeyConflict(thread="t", turn="u", key="k", stored_digest="aa", given_digest="bb")
    document = problem_document(error)
    assert (document["status"], document["stored_digest"], document["given_digest"]) == (409, "aa", "bb")


def test_malformed_cursor_is_bad_input() -> None:
    """A cursor that is none is the client's mistake; one of another log conflicts with what is here, and says where to
    go on."""
    malformed = errors.CursorUnprovable(thread="t", reason="malformed", head="e.3")
    foreign = errors.CursorUnprovable(thread="t", reason="epoch", head="e.3")
    assert [problem_document(error)["status"] for error in (malformed, foreign)] == [400, 409]
    assert problem_document(foreign)["head"] == "e.3"


def raising(error: Exception, path: str = "/") -> Any:
    async def route(_request: Request) -> Response:
        raise error

    return app_of(route, path=path, methods=("GET", "POST") if path != "/" else ("GET",))


def test_store_that_fails_asks_to_come_back() -> None:
    """A failing store is a 503 with Retry-After that carries turn and key, and is counted (P1)."""
    error = errors.StoreUnavailable(thread="t", turn="u", key="k", detail=SECRET)
    app = raising(error)
    answer = asked(app, "GET", "/")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["content-type"] == "application/problem+json"
    assert {answer.json()[name] for name in ("thread", "turn", "key")} == {"t", "u", "k"}
    assert app.state.site.counts.store_errors == {"StoreUnavailable": 1}


def test_defect_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """An error that is a defect is a 500 without a word of what it is; the log has it."""
    answer = asked(raising(ZeroDivisionError(SECRET)), "GET", "/")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert SECRET not in answer.text
    assert SECRET in caplog.text


def test_problem_for_people_is_a_page() -> None:
    """A browser that asked for a page is told in HTML, once and in plain words; a program is told in JSON."""
    app = raising(errors.InvalidInput(field="<script>", problem="\ud800 & co"))
    page = asked(app, "GET", "/", headers={"accept": "text/html,*/*"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.status_code == 400
    assert "<script>" not in page.text
    assert page.text.count("is not one that this server has made.</h1>") == 1
    assert "load the page again" in page.text
    assert asked(app, "GET", "/").json()["field"] == "<script>"


@pytest.mark.parametrize("kind", ERRORS)
def test_people_are_not_told_the_names_of_things(kind: type[errors.TurnlogError]) -> None:
    """No refusal that a person reads, on a page or beside a form, has the name of a field, a limit or an id in it."""
    app = raising(made(kind), "/{any:path}")
    for path, accept in (("/t", "application/json"), ("/t/x", "application/json"), ("/t/x", "text/html")):
        answer = asked(app, "POST", path, headers={"accept": accept, "content-type": FORM})
        told = answer.json()["detail"] if accept == "application/json" else answer.text.partition("<main")[2]
        assert "some" not in told
        assert "_MAX" not in told
        assert SECRET not in answer.text


@pytest.mark.parametrize("kind", ERRORS)
def test_people_are_told_what_to_do(kind: type[errors.TurnlogError]) -> None:
    """Whatever error a person meets on a page, it is said in words of its own, and what can be done about it."""
    sentence, advice = refusal({**problem_document(made(kind)), "detail": "for programs"})
    assert sentence != "for programs"
    assert sentence.endswith(".")
    assert advice.endswith(".")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 413, 415, 421, 500, 503])
def test_people_are_told_what_to_do_about_http(status: int) -> None:
    """Whatever the guard and the routes refuse is said to a person in plain words, with what can be done about it."""
    sentence, advice = refusal(http_problem_document(status, "for programs"))
    assert sentence != "for programs"
    assert advice.endswith(".")


@pytest.mark.parametrize(
    ("limit", "path", "words"),
    [
        ("SUBMISSION_BYTES_MAX", "/t/t/turns", "Your message is too long"),
        ("TITLE_GIVEN_CHARS_MAX", "/t/t/title", "This title is too long: at most 200 characters"),
        ("TRUNCATIONS_MAX", "/t/t/turns/u/undo", "were taken back 1,000 times"),
        ("TURN_ID_BYTES_MAX", "/t/t/turn/u", "is not one that this server has made"),
        (None, "/t/t/title", "This title is too long"),
        (None, "/t/t/turns", "Go back to it: your browser has it still."),
    ],
)
def test_what_is_too_large_is_named(limit: str | None, path: str, words: str) -> None:
    """What is too large is said in the words of what it is: a title's are not those of a message."""
    error: Exception = HTTPException(413)
    if limit is not None:
        error = errors.TooLarge(field="x", limit=limit, limit_value=7)
    app = raising(error, "/{any:path}")
    assert words in asked(app, "GET", path, headers={"accept": "text/html"}).text


def test_a_message_that_is_too_long_is_told_so() -> None:
    """Whichever limit a message is over, a person is told that it is too long and how much fits; a program is told the
    limit's name."""
    over = errors.TooLarge(field="content", limit="SUBMISSION_BYTES_MAX", limit_value=SUBMISSION_BYTES_MAX)
    words = f"Your message is too long: at most {SUBMISSION_BYTES_MAX:,} bytes fit."
    for error in (over, HTTPException(413, "The request is larger than REQUEST_BYTES_MAX.")):
        app = raising(error, "/{any:path}")
        assert asked(app, "POST", "/t/t", headers={"content-type": FORM}).json()["detail"] == words
        assert words in asked(app, "GET", "/t/t", headers={"accept": "text/html"}).text
        assert asked(app, "GET", "/api/x").json()["detail"] != words


def test_an_unknown_path_says_what_can_be_done() -> None:
    """A person at an address where nothing is, is told so once, and where to look."""
    page = asked(raising(HTTPException(404)), "GET", "/nowhere", headers={"accept": "text/html"}).text
    assert page.count("There is nothing at this address.") == 2  # the tab's title, and the heading
    assert "all threads" in page


def test_refusals_of_http_are_problems_too() -> None:
    """What no route answers, or not by this method, is a problem document; 405 says which methods there are."""
    app = raising(HTTPException(404))
    assert asked(app, "GET", "/nowhere").json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Not Found",
    }
    refused = asked(app, "DELETE", "/")
    assert refused.status_code == 405
    assert {method.strip() for method in refused.headers["allow"].split(",")} >= {"GET", "HEAD"}


def test_half_of_a_character_in_a_fact_is_json() -> None:
    """A fact that is no UTF-8 still makes a document that can be read."""

    async def answer() -> Response:
        return await turnlog_problem(
            Request({"type": "http", "path": "/api/x", "headers": []}), errors.UnknownThread(thread="\ud800")
        )

    assert json.loads(bytes(asyncio.run(answer()).body))["thread"] == "\ud800"
